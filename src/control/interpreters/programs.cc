#include "control/interpreters/interpreter.h"

extern "C" {
// NOLINTBEGIN(modernize-avoid-c-arrays): symbols of programs.S
extern const char caisson_python_begin[];
extern const char caisson_python_end[];
extern const char caisson_node_begin[];
extern const char caisson_node_end[];
// NOLINTEND(modernize-avoid-c-arrays)
}

namespace caisson::control::interpreters {

Program program_of(Language language) noexcept {
  const auto text = [](const char* begin, const char* end) {
    return std::string_view(begin, static_cast<std::size_t>(end - begin));
  };
  if (language == Language::Python)
    return {"python3", "-c", text(caisson_python_begin, caisson_python_end)};
  return {"node", "-e", text(caisson_node_begin, caisson_node_end)};
}

}  // namespace caisson::control::interpreters
