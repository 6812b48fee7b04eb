#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "engine/microvm/driver.h"
#include "engine/microvm/qmp.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/spawn.h"

namespace caisson::engine::microvm {
namespace {

constexpr const char* kProgram = "/usr/bin/qemu-system-x86_64";
constexpr std::size_t kVersionMax = 256;

// "QEMU emulator version 7.2.18 (Debian 1:7.2+dfsg-7+deb12u18)" is "7.2.18".
std::string version_in(std::string_view line) {
  constexpr std::string_view kBefore = "version ";
  const std::size_t at = line.find(kBefore);
  if (at == std::string_view::npos) return "unknown";
  line.remove_prefix(at + kBefore.size());
  return std::string(line.substr(0, line.find_first_not_of("0123456789.")));
}

class QemuDriver final : public Driver {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "qemu"; }
  [[nodiscard]] std::string program() const override { return kProgram; }
  [[nodiscard]] std::vector<std::string> arguments(const VmPlan& plan) const override {
    return qemu_arguments(plan);
  }
  [[nodiscard]] std::unique_ptr<Monitor> talk(UniqueFd socket) const override {
    return std::make_unique<Qmp>(std::move(socket));
  }
  [[nodiscard]] Result<DriverFacts> look() const override {
    if (::access(kProgram, X_OK) != 0) {
      return failure(Errc::Unsupported,
                     fmt::format("the microvm tier needs {} (package qemu-system-x86)", kProgram));
    }
    const sys::Pipe pipe = TRY(sys::make_pipe());
    const std::array<sys::HandedFd, 3> handed{
        {{"/dev/null", -1, 0}, {nullptr, pipe.write.get(), 1}, {"/dev/null", -1, 2}}};
    sys::Child child = TRY(sys::spawn(kProgram, {"-version"}, handed, sys::Session::Own));
    const sys::ExitStatus ended = TRY(child.wait());
    std::array<char, kVersionMax> text{};
    const ssize_t got = ::read(pipe.read.get(), text.data(), text.size());
    if (ended.code != 0 || got <= 0)
      return failure(Errc::Unsupported, fmt::format("{} does not run", kProgram));
    return DriverFacts{"qemu", kProgram, version_in({text.data(), static_cast<std::size_t>(got)})};
  }
};

}  // namespace

const Driver& qemu_driver() {
  static const QemuDriver driver;
  return driver;
}

}  // namespace caisson::engine::microvm
