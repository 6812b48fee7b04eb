// doors/proxy/cookies.h — cookies of a program, kept apart from ours on the same host.
//
// A page can do much with cookies that are not its own: plant one with our name, plant one for the
// whole domain and so for its neighbours, or hide a name in a cookie without one. What passes here
// is for this host alone, and is never ours.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::proxy {

// Whether a cookie of that name is one of `own`, or would be taken for one: in another case, or
// with another of the prefixes that browsers give a meaning to.
[[nodiscard]] bool is_own_cookie(std::string_view name, std::span<const std::string> own);

// A Cookie field without ours; empty when nothing is left.
[[nodiscard]] std::string other_cookies(std::string_view value, std::span<const std::string> own);

// A Set-Cookie field as the client may have it: without Domain. Nothing when it names one of ours.
[[nodiscard]] std::optional<std::string> host_only_cookie(std::string_view value,
                                                          std::span<const std::string> own);

}  // namespace caisson::proxy
