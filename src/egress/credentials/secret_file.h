// egress/credentials/secret_file.h — files that only their owner can read, and that are whole or
// not there.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "egress/credentials/secret.h"

namespace caisson::egress {

// A regular file, not a link, of this user or of root, that nobody else can read or write: else
// Denied, with the remedy. NotFound when there is none.
[[nodiscard]] Result<UniqueFd> open_private(const std::string& path);

// The whole file, at most `bytes_max`; read into locked memory and nowhere else.
[[nodiscard]] Result<Secret> read_secret_file(const std::string& path, std::size_t bytes_max);

// A key that a person may have written with an editor: without the newline at its end, and of at
// least `bytes_min`.
[[nodiscard]] Result<Secret> read_key_text(const std::string& path, std::size_t bytes_min);

// Under its name there is the old content or the new one, on the disk, and of mode 0600 from its
// first byte. `Replace::No`: AlreadyExists when the name is taken.
enum class Replace : std::uint8_t { No, Yes };
[[nodiscard]] Result<void> write_private(const std::string& path, std::string_view content,
                                         Replace replace);

}  // namespace caisson::egress
