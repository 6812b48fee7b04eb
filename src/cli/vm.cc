#include "cli/vm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "cli/cli.h"
#include "cli/client_options.h"
#include "control/local_spec.h"
#include "engine/microvm/driver.h"
#include "engine/microvm/kernel_source.h"
#include "engine/microvm/vm_store.h"
#include "engine/native/head_start.h"
#include "sys/file.h"
#include "sys/spawn.h"

namespace caisson::cli {
namespace {

namespace microvm = engine::microvm;

struct Words {
  std::string state_dir;
  std::string from;
  bool package = false;
  bool verify = false;
  bool no_trial = false;
};

Result<microvm::KernelParts> choose_kernel(const Words& words, const std::string& work) {
  const microvm::Say say = [](std::string_view what) { fmt::print("vm: {}\n", what); };
  if (!words.from.empty()) return microvm::kernel_in(words.from, say);
  if (!words.package) {
    auto own = microvm::kernel_of_host(say);
    if (own) return own;
    say(own.error().message + ": asking apt");
  }
  return microvm::kernel_of_package(work, say);
}

Result<void> set_up(const Words& words) {
  if (::geteuid() != 0)
    return failure(Errc::Denied, "the kernel for microVMs is set up by root, who starts them");
  const UniqueFd state =
      TRY_IN(words.state_dir, engine::native::open_state_dir(words.state_dir, true));
  const auto parts = TRY(choose_kernel(words, words.state_dir + "/launcher"));
  const auto about = TRY(microvm::VmStore::install(state.get(), parts));
  fmt::print("vm: Linux {} from {} is set up in {}/vm, with {} modules\n", about.release,
             about.source, words.state_dir, about.modules.size());
  return {};
}

// One sandbox: the image of the host's system folders is made now, and not while somebody waits.
Result<void> try_one(const Words& words) {
  fmt::print("vm: making the image of this host's system folders, and trying a machine\n");
  const sys::HandedFd handed[] = {{"/dev/null", -1, 0}};
  auto child = TRY(sys::spawn("/proc/self/exe",
                              {"run", "--tier", "microvm", "--no-folder", "--state-dir",
                               words.state_dir, "--timeout", "30m", "--", "uname", "-sr"},
                              handed, sys::Session::Shared));
  const sys::ExitStatus ended = TRY(child.wait());
  if (ended.code == 0) return {};
  return failure(Errc::Internal, "the machine did not run: see above");
}

Result<void> show(const Words& words) {
  const auto driver = TRY(microvm::qemu_driver().look());
  fmt::print("monitor   {} {} ({})\n", driver.name, driver.version, driver.program);
  fmt::print("processor emulated (TCG): this version does not use KVM\n");
  const UniqueFd state = TRY(sys::open_at(AT_FDCWD, words.state_dir, O_RDONLY | O_DIRECTORY));
  const auto store = TRY(microvm::VmStore::open(state.get()));
  fmt::print("kernel    {} from {}\n", store.about().release, store.about().source);
  fmt::print("digest    sha256 {}\n", store.about().kernel_sha256);
  if (words.verify) {
    TRY(store.verify());
    fmt::print("files     as they were set up\n");
  }
  return {};
}

}  // namespace

int vm_command(std::span<char*> args) {
  CommandLine line("Sets up the kernel that microVMs boot, and says which one it is.");
  Words words;
  words.state_dir = control::default_state_dir(::geteuid());
  CommandLine& setup = line.command("setup", "find a kernel, or fetch a package and unpack it");
  CommandLine& status = line.command("status", "which kernel and monitor microVMs have");
  for (CommandLine* one : {&setup, &status})
    one->text("--state-dir", words.state_dir, "PATH", "where layers are kept");
  setup.text("--from", words.from, "FOLDER", "an unpacked kernel package, or vmlinux and modules");
  setup.flag("--package", words.package,
             "fetch the distribution's package even if this host's fits");
  setup.flag("--no-trial", words.no_trial,
             "do not make the image of this host, and do not try a machine");
  status.flag("--verify", words.verify, "compare the files with their digests");
  if (const auto done = line.parse(args)) return *done;
  auto done = setup.chosen() ? set_up(words) : show(words);
  std::fflush(stdout);
  if (done && setup.chosen() && !words.no_trial) done = try_one(words);
  if (done) return kExitOk;
  complain(args[0], done.error().message);
  return kExitFailed;
}

}  // namespace caisson::cli
