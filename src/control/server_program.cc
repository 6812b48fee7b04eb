#include "control/server_program.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace caisson::control {

namespace {

std::string own_path() {
  std::array<char, 4096> self{};
  const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
  return {self.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace

Result<std::string> find_server(const std::string& command) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read only
  if (const char* named = std::getenv("CAISSON_SERVER_PROGRAM")) {
    if (::access(named, X_OK) == 0) return std::string(named);
    return failure(Errc::NotFound, std::string("CAISSON_SERVER_PROGRAM: ") + named +
                                       " is not there, or is no program");
  }
  const std::string path = command.empty() ? own_path() : command;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return std::string("caissond");  // found in the PATH, as it was
  std::string program = path.substr(0, slash + 1) + "caissond";
  if (::access(program.c_str(), X_OK) != 0)
    return failure(Errc::NotFound, "the server program " + program + " is not there");
  return program;
}

}  // namespace caisson::control
