#include "store/anchor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>

#include "sys/file.h"

namespace caisson::store {
namespace {

constexpr unsigned kPrivate = 0600;

std::string unsigned_line(const Anchor& anchor) {
  return fmt::format("{} {} {}", anchor.count, to_hex(anchor.hash), to_rfc3339(anchor.time));
}

Digest sign(std::string_view key, const Digest& before, std::string_view line) {
  return hmac_sha256(key, fmt::format("caisson.anchor.1 {} {}", to_hex(before), line));
}

// "2026-11-15T08:20:23.123456Z" back to microseconds. Only what to_rfc3339() writes.
std::optional<WallTime> parse_time(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00T00:00:00.000000Z";
  if (text.size() != kShape.size()) return std::nullopt;
  std::array<int, 7> parts{};
  std::size_t part = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool digit = text[at] >= '0' && text[at] <= '9';
    if (kShape[at] != '0') {
      if (text[at] != kShape[at]) return std::nullopt;
      ++part;
    } else if (!digit) {
      return std::nullopt;
    } else {
      parts[part] = parts[part] * 10 + (text[at] - '0');
    }
  }
  const std::chrono::year_month_day date{std::chrono::year(parts[0]),
                                         std::chrono::month(static_cast<unsigned>(parts[1])),
                                         std::chrono::day(static_cast<unsigned>(parts[2]))};
  if (!date.ok()) return std::nullopt;
  const auto day = std::chrono::sys_days(date).time_since_epoch();
  return duration_cast<microseconds>(day + std::chrono::hours(parts[3]) +
                                     std::chrono::minutes(parts[4]) + seconds(parts[5]) +
                                     microseconds(parts[6]))
      .count();
}

std::optional<Anchor> parse_line(std::string_view line, std::string_view key, Digest& signature) {
  std::array<std::string_view, 4> words;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::size_t end = line.find(' ');
    if ((end == std::string_view::npos) != (at + 1 == words.size())) return std::nullopt;
    words[at] = line.substr(0, end);
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  }
  Anchor anchor;
  const auto [stop, error] =
      std::from_chars(words[0].data(), words[0].data() + words[0].size(), anchor.count);
  const auto hash = digest_from_hex(words[1]);
  const auto time = parse_time(words[2]);
  const auto signed_as = digest_from_hex(words[3]);
  if (error != std::errc() || stop != words[0].data() + words[0].size() || !hash || !time ||
      !signed_as)
    return std::nullopt;
  anchor.hash = *hash;
  anchor.time = *time;
  const Digest right = sign(key, signature, unsigned_line(anchor));
  if (!equal_in_constant_time(right, *signed_as)) return std::nullopt;
  signature = right;
  return anchor;
}

AnchorFile parse_anchors(std::string_view text, std::string_view key) {
  AnchorFile file;
  file.bytes = text.size();
  const std::size_t last_end = text.rfind('\n');
  file.sound_bytes = last_end == std::string_view::npos ? 0 : last_end + 1;
  text = text.substr(0, file.sound_bytes);
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const auto anchor = parse_line(text.substr(0, end), key, file.last_signature);
    if (!anchor) {
      file.bad_line = number;
      break;
    }
    file.anchors.push_back(*anchor);
    text.remove_prefix(end + 1);
  }
  return file;
}

// A name in a folder is durable only when the folder is.
Result<void> sync_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const UniqueFd fd =
      TRY(sys::open_at(AT_FDCWD, folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0) return sys_failure("fsync " + folder.string(), errno);
  return {};
}

Result<std::string> make_key(int file, const std::string& path) {
  std::array<std::byte, kAnchorKeyBytes> random{};
  TRY(sys::random_bytes(random));
  Digest bytes{};
  for (std::size_t at = 0; at < bytes.size(); ++at)
    bytes[at] = std::to_integer<std::uint8_t>(random[at]);
  const std::string text = to_hex(bytes) + "\n";
  if (::ftruncate(file, 0) != 0) return sys_failure("truncate " + path, errno);
  const ssize_t written = ::pwrite(file, text.data(), text.size(), 0);
  if (written != static_cast<ssize_t>(text.size()))
    return sys_failure("write " + path, written < 0 ? errno : ENOSPC);
  if (::fsync(file) != 0) return sys_failure("fsync " + path, errno);
  TRY(sync_folder_of(path));
  return std::string(as_bytes(bytes));
}

Result<std::string> parse_key(const std::string& text, const std::string& path) {
  const bool ended = text.ends_with('\n');
  const auto key = digest_from_hex(std::string_view(text).substr(0, text.size() - (ended ? 1 : 0)));
  if (!key || !ended)
    return failure(Errc::Internal, path + ": not a key: want 64 hexadecimal digits and a newline");
  return std::string(as_bytes(*key));
}

bool has_content(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::file_size(path, error) > 0 && !error;
}

}  // namespace

std::string anchor_key_path(const std::string& database_path) {
  return database_path + ".anchor-key";
}

Result<std::string> read_anchor_key(const std::string& path) {
  return parse_key(TRY(sys::read_small(AT_FDCWD, path)), path);
}

Result<AnchorFile> read_anchors(const std::string& path, std::string_view key) {
  return parse_anchors(TRY(sys::read_small(AT_FDCWD, path, kAnchorFileBytesMax)), key);
}

Result<HeldKey> hold_anchor_key(const std::string& database_path, const std::string& anchor_path) {
  const std::string path = anchor_key_path(database_path);
  UniqueFd file =
      TRY(sys::open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY, kPrivate));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return sys_failure("lock " + path, errno);
    return failure(Errc::Busy, database_path + ": another server has this database open");
  }
  if (::fchmod(file.get(), kPrivate) != 0) return sys_failure("chmod " + path, errno);
  const std::string text = TRY(sys::read_again(file.get()));
  if (!text.empty()) {
    std::string key = TRY(parse_key(text, path));
    return HeldKey{std::move(file), std::move(key)};
  }
  if (has_content(anchor_path)) {
    ::unlink(path.c_str());  // the empty one that this call made
    return failure(Errc::NotFound,
                   fmt::format("{} is missing, and {} holds anchors signed with it: restore the "
                               "key, or move the anchors away to begin anew",
                               path, anchor_path));
  }
  std::string key = TRY(make_key(file.get(), path));
  return HeldKey{std::move(file), std::move(key)};
}

AnchorWriter::AnchorWriter(UniqueFd file, std::string key, const AnchorFile& before)
    : file_(std::move(file)),
      key_(std::move(key)),
      signature_(before.last_signature),
      bytes_(before.sound_bytes) {
  if (!before.anchors.empty()) last_ = before.anchors.back();
}

Result<AnchorWriter> AnchorWriter::open(const std::string& path, std::string key) {
  const bool is_new = !has_content(path);
  UniqueFd file = TRY(sys::open_at(
      AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY, kPrivate));
  if (is_new) TRY(sync_folder_of(path));
  const AnchorFile before = TRY(read_anchors(path, key));
  if (before.bytes > before.sound_bytes &&
      ::ftruncate(file.get(), static_cast<off_t>(before.sound_bytes)) != 0) {
    const int error = errno;
    return sys_failure(fmt::format("{}: its last line was cut short by a crash and cannot be "
                                   "removed: remove it by hand",
                                   path),
                       error);
  }
  // After a bad line the chain of signatures goes on from the last good one. verify() still finds
  // the bad line; the server goes on and keeps its record.
  return AnchorWriter(std::move(file), std::move(key), before);
}

Result<void> AnchorWriter::append(const ChainHead& head, WallTime now) {
  if (head.sequence == last_.count && head.hash == last_.hash) return {};
  Anchor anchor{.count = head.sequence, .hash = head.hash, .time = now};
  const std::string body = unsigned_line(anchor);
  const Digest signature = sign(key_, signature_, body);
  const std::string line = body + " " + to_hex(signature) + "\n";
  if (bytes_ + line.size() > kAnchorFileBytesMax)
    return failure(Errc::StoreFull, "the file of anchors is full: move it to an archive");
  const ssize_t written = ::write(file_.get(), line.data(), line.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (written != static_cast<ssize_t>(line.size())) {
    // Half a line must not stay in front of the next one.
    if (written > 0) (void)::ftruncate(file_.get(), static_cast<off_t>(bytes_));
    return sys_failure("write the anchor", error);
  }
  bytes_ += line.size();
  signature_ = signature;
  last_ = anchor;
  if (::fdatasync(file_.get()) != 0) return sys_failure("fdatasync the anchor", errno);
  return {};
}

}  // namespace caisson::store
