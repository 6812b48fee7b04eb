// image/user.h — USER of an image: numbers or names, and who that is by the image's own files.
// A number that does not fit is refused. It is never taken for a name: an image could hold a
// passwd line called "4294967296" that maps to root.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::image {

inline constexpr std::uint32_t kImageIdMax = 65534;
inline constexpr std::size_t kUserNameBytesMax = 64;
inline constexpr std::size_t kAccountFileBytesMax = 1024UL * 1024;
inline constexpr std::size_t kAccountLinesMax = 32768;
inline constexpr std::size_t kAccountLineBytesMax = 16384;
inline constexpr std::size_t kGroupsMax = 64;  // supplementary ones of one user

struct UserSpec {  // at most one of a number and a name each; neither: root
  std::optional<std::uint32_t> uid;
  std::string user_name;
  std::optional<std::uint32_t> gid;
  std::string group_name;

  [[nodiscard]] bool empty() const noexcept { return !uid && user_name.empty(); }
  // Are the image's files needed to know who that is?
  [[nodiscard]] bool needs_names() const noexcept {
    return !user_name.empty() || !group_name.empty();
  }
  [[nodiscard]] std::string str() const;
  friend bool operator==(const UserSpec&, const UserSpec&) = default;
};

[[nodiscard]] Result<UserSpec> parse_user(std::string_view text);

struct ResolvedUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary, without gid
  std::string name;                   // empty when passwd has no line for the uid
  std::string home;                   // "/" when it has none, or none that is absolute
};

// The texts are /etc/passwd and /etc/group of the image, or empty where they are missing. A number
// without a line is itself, with group 0. A name without a line is NotFound.
[[nodiscard]] Result<ResolvedUser> resolve_user(const UserSpec& spec, std::string_view passwd_text,
                                                std::string_view group_text);

}  // namespace caisson::image
