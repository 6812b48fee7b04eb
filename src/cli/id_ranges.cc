#include "cli/id_ranges.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "engine/launch_request.h"
#include "engine/native/slots.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kTextBytesMax = 4UL * 1024 * 1024;

struct IdRange {
  std::uint64_t first;
  std::uint64_t count;
  const char* what;

  [[nodiscard]] bool meets(std::uint64_t from, std::uint64_t size) const {
    return from < first + count && first < from + size;
  }
};

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::string> read_if_there(const std::string& path) {
  auto text = sys::read_small(AT_FDCWD, path, kTextBytesMax);
  if (!text && text.error().sys_errno == ENOENT) return std::string();
  return text;
}

}  // namespace

Result<void> check_sub_ids(std::string_view file, std::string_view text, std::uint64_t server_id) {
  const IdRange ours[] = {
      {server_id, 1, "the server's own id"},
      {engine::native::kStoreBase, std::uint64_t{engine::kIdsPerSlot}, "the ids of the store"},
      {engine::native::kSlotBase, std::uint64_t{engine::kIdsPerSlot} * engine::native::kSlotsMax,
       "the ids of the sandboxes"}};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t one = line.find(':');
    const std::size_t two = one == std::string_view::npos ? one : line.find(':', one + 1);
    if (two == std::string_view::npos) continue;
    const auto first = number(line.substr(one + 1, two - one - 1));
    const auto count = number(line.substr(two + 1));
    if (!first || !count || *count == 0) continue;
    for (const IdRange& range : ours) {
      if (!range.meets(*first, *count)) continue;
      return failure(
          Errc::Unsupported,
          fmt::format("{}: '{}' meets {} ({} to {}), so that user could reach into them; give the "
                      "user sub-ids below {} (usermod --del-subuids, --add-subuids), or take "
                      "another server.user",
                      file, line.substr(0, 128), range.what, range.first,
                      range.first + range.count - 1, kNobodysId));
    }
  }
  return {};
}

Result<void> check_host_sub_ids(const ServerIdentity& server) {
  const std::string users = TRY(read_if_there("/etc/subuid"));
  const std::string groups = TRY(read_if_there("/etc/subgid"));
  TRY(check_sub_ids("/etc/subuid", users, server.uid));
  return check_sub_ids("/etc/subgid", groups, server.gid);
}

engine::Check server_ids_check() {
  engine::Check check;
  check.name = "server ids";
  check.purpose = "ids of the server, the store and the sandboxes belong to no user of the host";
  const auto passwd = read_if_there("/etc/passwd");
  const auto server = server_identity(policy::ServerSettings{}.user, passwd ? *passwd : "");
  const auto free =
      server ? check_host_sub_ids(*server) : Result<void>(std::unexpected(server.error()));
  if (free) {
    check.health = engine::Health::Present;
    check.detail = "no user has them as sub-ids";
    return check;
  }
  check.health = engine::Health::Missing;
  check.detail = free.error().message;
  check.remedy = "give that user other sub-ids; until then caisson serve does not start";
  return check;
}

}  // namespace caisson::cli
