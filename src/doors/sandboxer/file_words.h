// doors/sandboxer/file_words.h — where a request's path leads, and what is said when it leads
// nowhere.
#pragma once

#include <string>

#include "doors/sandboxer/call.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kFilePathBytesMax = 4000;

struct FilePlace {
  std::string shown;     // as the client wrote it, decoded
  std::string absolute;  // inside
};

// Fails with the call's refusal set.
[[nodiscard]] Result<FilePlace> file_place(Call& call);
[[nodiscard]] std::unexpected<Error> file_refusal(Call& call, const Error& error);

}  // namespace caisson::sandboxer
