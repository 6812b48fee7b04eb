#include "image/user.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace caisson::image {

namespace {

constexpr std::size_t kFieldsMax = 8;
constexpr std::size_t kShownBytesMax = 64;

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Whatever looks like a number is one, or an error: never a name.
bool looks_numeric(std::string_view text) {
  return !text.empty() && (text.front() == '-' || text.front() == '+' ||
                           (text.front() >= '0' && text.front() <= '9'));
}

std::optional<std::uint32_t> parse_id(std::string_view text) {
  if (!is_number(text)) return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || value > kImageIdMax) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(value);
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kUserNameBytesMax) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '$' || c == '@';
  });
}

Result<void> parse_half(std::string_view text, std::string_view what,
                        std::optional<std::uint32_t>& id, std::string& name) {
  if (looks_numeric(text)) {
    id = parse_id(text);
    if (!id) {
      return bad_field("user", fmt::format("the {} '{}' is not a whole number from 0 to {}, and "
                                           "what begins like a number is never a name",
                                           what, text.substr(0, kShownBytesMax), kImageIdMax));
    }
    return {};
  }
  if (!is_name(text)) {
    return bad_field("user", fmt::format("the {} '{}' is neither a number nor a name", what,
                                         text.substr(0, kShownBytesMax)));
  }
  name = text;
  return {};
}

using Fields = std::vector<std::string_view>;

Fields split(std::string_view line) {
  Fields out;
  while (out.size() < kFieldsMax) {
    const std::size_t colon = line.find(':');
    out.push_back(line.substr(0, colon));
    if (colon == line.npos) break;
    line.remove_prefix(colon + 1);
  }
  return out;
}

// Calls `take` with the fields of each line until it says false. Lines that are too long or have a
// NUL in them are not lines of accounts.
Result<void> each_line(std::string_view text, std::string_view file,
                       const std::function<bool(const Fields&)>& take) {
  if (text.size() > kAccountFileBytesMax) {
    return failure(Errc::TooLarge, fmt::format("the image's {} is larger than {} bytes", file,
                                               kAccountFileBytesMax));
  }
  for (std::size_t lines = 0; !text.empty(); ++lines) {
    if (lines >= kAccountLinesMax) {
      return failure(Errc::TooLarge,
                     fmt::format("the image's {} has more than {} lines", file, kAccountLinesMax));
    }
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.size() > kAccountLineBytesMax || line.front() == '#' ||
        line.find('\0') != line.npos) {
      continue;
    }
    if (!take(split(line))) break;
  }
  return {};
}

struct Account {
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string home;
};

Result<std::optional<Account>> find_account(std::string_view passwd,
                                            const std::function<bool(const Account&)>& wanted) {
  std::optional<Account> found;
  TRY(each_line(passwd, "/etc/passwd", [&](const Fields& fields) {
    if (fields.size() < 4) return true;
    const auto uid = parse_id(fields[2]);
    const auto gid = parse_id(fields[3]);
    if (!uid || !gid) return true;
    Account account{std::string(fields[0]), *uid, *gid,
                    fields.size() > 5 ? std::string(fields[5]) : std::string()};
    if (!wanted(account)) return true;
    found = std::move(account);
    return false;
  }));
  return found;
}

bool is_member(std::string_view members, std::string_view name) {
  while (!members.empty()) {
    const std::size_t comma = members.find(',');
    if (members.substr(0, comma) == name) return true;
    if (comma == members.npos) break;
    members.remove_prefix(comma + 1);
  }
  return false;
}

Result<void> add_groups(std::string_view group_text, ResolvedUser& out) {
  bool too_many = false;
  TRY(each_line(group_text, "/etc/group", [&](const Fields& fields) {
    if (fields.size() < 4 || !is_member(fields[3], out.name)) return true;
    const auto gid = parse_id(fields[2]);
    if (!gid || *gid == out.gid || std::ranges::count(out.groups, *gid) > 0) return true;
    too_many = out.groups.size() >= kGroupsMax;
    if (!too_many) out.groups.push_back(*gid);
    return !too_many;
  }));
  if (too_many) {
    return failure(Errc::TooLarge, fmt::format("the image's user '{}' is in more than {} groups",
                                               out.name, kGroupsMax));
  }
  return {};
}

Result<std::uint32_t> find_group(std::string_view group_text, std::string_view name) {
  std::optional<std::uint32_t> found;
  TRY(each_line(group_text, "/etc/group", [&](const Fields& fields) {
    if (fields.size() < 3 || fields[0] != name) return true;
    found = parse_id(fields[2]);
    return !found;
  }));
  if (!found) {
    return failure(Errc::NotFound,
                   fmt::format("the image's user is of the group '{}', which its /etc/group does "
                               "not have",
                               name));
  }
  return *found;
}

}  // namespace

std::string UserSpec::str() const {
  std::string out = uid ? std::to_string(*uid) : user_name;
  if (gid) return out + ":" + std::to_string(*gid);
  if (!group_name.empty()) return out + ":" + group_name;
  return out;
}

Result<UserSpec> parse_user(std::string_view text) {
  UserSpec out;
  if (text.empty()) return out;
  const std::size_t colon = text.find(':');
  TRY(parse_half(text.substr(0, colon), "user", out.uid, out.user_name));
  if (colon != text.npos) {
    TRY(parse_half(text.substr(colon + 1), "group", out.gid, out.group_name));
  }
  return out;
}

Result<ResolvedUser> resolve_user(const UserSpec& spec, std::string_view passwd_text,
                                  std::string_view group_text) {
  const std::uint32_t wanted_uid = spec.uid.value_or(0);
  const auto account = TRY(find_account(passwd_text, [&](const Account& one) {
    return spec.user_name.empty() ? one.uid == wanted_uid : one.name == spec.user_name;
  }));
  if (!account && !spec.user_name.empty()) {
    return failure(Errc::NotFound,
                   fmt::format("the image's user is '{}', whom its /etc/passwd does "
                               "not have",
                               spec.user_name));
  }
  ResolvedUser out;
  out.uid = account ? account->uid : wanted_uid;
  out.gid = account ? account->gid : 0;
  out.name = account ? account->name : std::string();
  out.home = account && account->home.starts_with('/') ? account->home : "/";
  if (spec.gid) out.gid = *spec.gid;
  if (!spec.group_name.empty()) out.gid = TRY(find_group(group_text, spec.group_name));
  // A group that was named replaces the user's own groups, as docker has it.
  const bool own_groups = !spec.gid && spec.group_name.empty();
  if (own_groups && !out.name.empty()) TRY(add_groups(group_text, out));
  return out;
}

}  // namespace caisson::image
