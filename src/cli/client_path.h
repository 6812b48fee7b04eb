// cli/client_path.h — places: "ID:PATH" in a sandbox, or a path here; and paths in the address of a
// request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::cli {

struct Place {
  std::optional<std::string> sandbox;  // id, name or prefix of an id; none: on this machine
  std::string path;                    // "." when nothing stood behind the colon

  friend bool operator==(const Place&, const Place&) = default;
};

// A colon before the first slash makes it a place in a sandbox; "./a:b" is a file here.
[[nodiscard]] Result<Place> parse_place(std::string_view text);

// The last part of a path; empty for "/", "." and "..".
[[nodiscard]] std::string base_name(std::string_view path);
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);

// Percent-encoded, but for letters, digits and "-._~".
[[nodiscard]] std::string encode(std::string_view text);
// The same with slashes kept, except the first of an absolute path, so that no proxy folds it.
[[nodiscard]] std::string encode_path(std::string_view path);
// "/api/v1/sandboxes/ID", and below it.
[[nodiscard]] std::string sandbox_target(std::string_view id, std::string_view below = "");
[[nodiscard]] std::string file_target(std::string_view id, std::string_view verb,
                                      std::string_view path);

}  // namespace caisson::cli
