#include "cli/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cli/cli.h"
#include "cli/id_ranges.h"
#include "cli/options.h"
#include "control/local_spec.h"
#include "engine/gvisor/runsc.h"
#include "engine/microvm/driver.h"
#include "engine/microvm/vm_store.h"
#include "sys/file.h"
#include "sys/spawn.h"

namespace caisson::cli {
namespace {

using engine::Check;
using engine::Health;
using engine::Way;

std::string_view mark(Health health, Marks marks) {
  switch (health) {
    case Health::Present:
      return marks == Marks::Unicode ? "✓" : "+";
    case Health::Degraded:
      return "!";
    case Health::Missing:
      return marks == Marks::Unicode ? "✗" : "-";
  }
  return "?";
}

std::string_view paint(Health health) {
  switch (health) {
    case Health::Present:
      return "\x1b[32m";
    case Health::Degraded:
      return "\x1b[33m";
    case Health::Missing:
      return "\x1b[31m";
  }
  return "";
}

std::string painted(std::string_view text, Health health, Colour colour) {
  if (colour == Colour::Off) return std::string(text);
  return fmt::format("{}{}\x1b[0m", paint(health), text);
}

// Details hold names that others chose (a kernel's release, a mount point): on a terminal they are
// only text.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      // Bytes of a path need not be UTF-8, and JSON must be: each one becomes the character of its
      // number.
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_of(const Check& check) {
  std::string ways;
  for (const Way way : check.needed_for)
    ways += fmt::format("{}{}", ways.empty() ? "" : ",", json_string(to_string(way)));
  return fmt::format(
      R"({{"name":{},"purpose":{},"health":{},"detail":{},"remedy":{},"needed_for":[{}]}})",
      json_string(check.name), json_string(check.purpose), json_string(to_string(check.health)),
      json_string(check.detail), json_string(check.remedy), ways);
}

Marks marks_of_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    const bool utf8 = locale.find("UTF-8") != std::string_view::npos ||
                      locale.find("utf8") != std::string_view::npos;
    return utf8 ? Marks::Unicode : Marks::Ascii;
  }
  return Marks::Ascii;
}

Colour colour_of_terminal() {
  const char* unwanted = std::getenv("NO_COLOR");
  const bool plain = unwanted != nullptr && *unwanted != '\0';
  return ::isatty(STDOUT_FILENO) == 1 && !plain ? Colour::On : Colour::Off;
}

}  // namespace

std::string doctor_text(std::span<const Check> checks, Way native, Marks marks, Colour colour) {
  std::size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::string text;
  for (const Check& check : checks) {
    text += fmt::format("{} {:<{}}  {}\n", painted(mark(check.health, marks), check.health, colour),
                        check.name, width, printable(check.detail));
    if (check.health == Health::Present) continue;
    text += fmt::format("  {:<{}}  for: {}\n", "", width, printable(check.purpose));
    text += fmt::format("  {:<{}}  try: {}\n", "", width, printable(check.remedy));
  }
  text += '\n';
  for (const Way way : engine::kWays) {
    const bool ready = can_run(checks, way);
    const bool ours = engine::in_this_version(way);
    const Health health = !ready ? Health::Missing : ours ? Health::Present : Health::Degraded;
    const char* verdict = !ready ? "cannot run here"
                          : ours ? "can run here"
                                 : "the host is ready, this version is not";
    text +=
        fmt::format("{} {:<{}}  {}{}\n", painted(mark(health, marks), health, colour),
                    to_string(way), width, verdict, way == native ? " (the default for you)" : "");
  }
  return text;
}

std::string doctor_json(std::span<const Check> checks, Way native,
                        const engine::HostFeatures& host) {
  std::string list;
  for (const Check& check : checks) list += (list.empty() ? "" : ",") + json_of(check);
  std::string ways;
  for (const Way way : engine::kWays) {
    ways += fmt::format("{}{}:{}", ways.empty() ? "" : ",", json_string(to_string(way)),
                        engine::in_this_version(way) && can_run(checks, way));
  }
  return fmt::format(
             R"({{"version":{},"kernel":{},"landlock_abi":{},"default":{},"can_run":{{{}}},"checks":[{}]}})",
             json_string(CAISSON_VERSION), json_string(host.kernel_release), host.landlock_abi,
             json_string(to_string(native)), ways, list) +
         "\n";
}

namespace {

// The status of a command that does nothing, in a sandbox of that tier.
Result<int> one_sandbox(const std::string& tier) {
  sys::Pipe quiet = TRY(sys::make_pipe());
  const sys::HandedFd handed[] = {{nullptr, quiet.write.get(), 1}, {nullptr, quiet.write.get(), 2}};
  auto child =
      TRY(sys::spawn("/proc/self/exe",
                     {"run", "--tier", tier, "--no-folder", "--quiet", "--timeout", "20s", "true"},
                     handed, sys::Session::Own));
  const sys::ExitStatus status = TRY(child.wait());
  return status.signal != 0 ? 128 + status.signal : status.code;
}

// Whether that kernel really runs here: what its program says about itself, and one sandbox.
void try_gvisor(Check& check) {
  const auto found = engine::gvisor::examine(-1);
  if (!found) {
    check.health = Health::Missing;
    check.detail = found.error().message;
    return;
  }
  check.detail = fmt::format("{} ({})", found->version, found->platform);
  const auto outcome = one_sandbox("gvisor");
  if (outcome && *outcome == 0) {
    check.detail += ", a sandbox ran";
    return;
  }
  check.health = Health::Missing;
  check.detail += outcome ? fmt::format(", a sandbox did not run (status {})", *outcome)
                          : ", " + outcome.error().message;
  check.remedy = "caisson run --tier gvisor true says why";
}

// Whether there is a kernel for machines, and loudly that their processor is emulated.
void examine_machines(Check& check) {
  const auto found = engine::microvm::qemu_driver().look();
  if (!found) {
    check.health = Health::Missing;
    check.detail = found.error().message;
    return;
  }
  check.detail =
      fmt::format("{} {}, EMULATED (TCG): slow, and no use of KVM", found->name, found->version);
  const auto state =
      sys::open_at(AT_FDCWD, control::default_state_dir(::geteuid()), O_RDONLY | O_DIRECTORY);
  const auto store = state ? engine::microvm::VmStore::open(state->get())
                           : Result<engine::microvm::VmStore>(std::unexpected(state.error()));
  if (store) {
    check.detail += fmt::format(", kernel {}", store->about().release);
    return;
  }
  check.health = Health::Degraded;
  check.detail += ", no kernel is set up";
  check.remedy = "caisson vm setup";
}

}  // namespace

int doctor_command(std::span<char*> args) {
  CLI::App app(
      "Says what this host can hold: which tiers run, which limits are enforced, and what to do.");
  bool json = false;
  app.add_flag("--json", json, "for programs");
  if (const auto done = parse(app, args)) return *done;
  const engine::ExaminedHost host = engine::examine_host();
  std::vector<Check> checks = engine::diagnose(host);
  checks.push_back(server_ids_check());
  const auto qemu = std::ranges::find(checks, "qemu-system-x86_64", &Check::name);
  if (qemu != checks.end() && qemu->health == Health::Present) examine_machines(*qemu);
  const auto runsc = std::ranges::find(checks, "runsc", &Check::name);
  if (runsc != checks.end() && runsc->health == Health::Present && host.features.privileged)
    try_gvisor(*runsc);
  const Way native = engine::native_way(host);
  const std::string text =
      json ? doctor_json(checks, native, host.features)
           : doctor_text(checks, native, marks_of_locale(), colour_of_terminal());
  if (std::fputs(text.c_str(), stdout) < 0) return kExitFailed;
  return can_run(checks, native) ? 0 : kExitFailed;
}

}  // namespace caisson::cli
