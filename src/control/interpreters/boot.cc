#include "control/interpreters/boot.h"

#include <fmt/format.h>

#include <utility>

#include "control/interpreters/interpreter.h"

namespace caisson::control::interpreters {
namespace {

// Nothing is imported that the working folder could have in its place.
constexpr std::string_view kPythonBoot =
    "import os\n"
    "def caisson(n):\n"
    " b = b''\n"
    " while len(b) < n: b += os.read(0, n - len(b)) or os._exit(1)\n"
    " return b\n"
    "exec(compile(caisson(int(caisson(8), 16)), '<caisson>', 'exec'))";

// The first argument is the descriptor: a worker has it on another one.
constexpr std::string_view kNodeBoot =
    "const boot = process._eval, fs = require('fs'), caisson = (n) => {\n"
    "  const b = Buffer.alloc(n);\n"
    "  for (let k = 0; k < n;) try {\n"
    "    k += fs.readSync(Number(process.argv[1]), b, k, n - k) || process.exit(1);\n"
    "  } catch (e) { if (e.code !== 'EAGAIN') throw e; }\n"
    "  return String(b);\n"
    "};\n"
    "const text = caisson(parseInt(caisson(8), 16));\n"
    "new Function('require', 'boot', 'text', text)(require, boot, text);";

}  // namespace

std::vector<std::string> boot_command(Language language, std::string settings) {
  const Program program = program_of(language);
  std::vector<std::string> out{std::string(program.name), std::string(program.flag)};
  if (language == Language::Python) {
    out.emplace_back(kPythonBoot);
  } else {
    out.emplace_back(kNodeBoot);
    out.emplace_back("0");
  }
  out.push_back(std::move(settings));
  return out;
}

std::string boot_text(std::string_view program) {
  return fmt::format("{:08x}{}", program.size(), program);
}

}  // namespace caisson::control::interpreters
