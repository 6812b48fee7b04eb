// doors/daiv/fs.h — what the seven file operations share. An operation that did not work is an
// answer of 200 with a code in it; only a bad key, body or session is a status.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "doors/daiv/schema.h"
#include "doors/daiv/sessions.h"

namespace caisson::daiv {

// The codes of the wire.
inline constexpr std::string_view kInvalidPath = "invalid_path";
inline constexpr std::string_view kNotFound = "not_found";
inline constexpr std::string_view kNotADirectory = "not_a_directory";
inline constexpr std::string_view kIsADirectory = "is_a_directory";
inline constexpr std::string_view kNotATextFile = "not_a_text_file";
inline constexpr std::string_view kStringNotFound = "string_not_found";
inline constexpr std::string_view kMultipleOccurrences = "multiple_occurrences";
inline constexpr std::string_view kAlreadyExists = "already_exists";
inline constexpr std::string_view kTooLarge = "too_large";
inline constexpr std::string_view kInvalidOffset = "invalid_offset";
inline constexpr std::string_view kPermissionDenied = "permission_denied";
inline constexpr std::string_view kExecFailed = "exec_failed";
inline constexpr std::string_view kInvalidPattern = "invalid_pattern";

struct FsError {
  std::string_view code;
  std::string message;  // never empty
};
[[nodiscard]] boost::json::value to_json(const std::optional<FsError>& error);

enum class RootItself : std::uint8_t { Allowed, Refused };
// By its letters alone; links are the sandbox's own affair, because every operation acts inside and
// as its user.
[[nodiscard]] std::optional<FsError> check_path(std::string_view path, RootItself root);
[[nodiscard]] std::string without_slashes(std::string path);  // at its end

// What control said, where an operation knows nothing better.
[[nodiscard]] FsError fs_error(const Error& error, const std::string& path,
                               std::string_view missing);
// The session went while the operation was under way: that is a status, after all.
[[nodiscard]] bool is_session_trouble(const Error& error);

[[nodiscard]] Result<void> want_body(Call& call);  // 422 when there is none

}  // namespace caisson::daiv
