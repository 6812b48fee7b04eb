#include "cli/serve_secrets.h"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "sys/file.h"

namespace caisson::cli {
namespace {

constexpr std::string_view kPrefix = "DAIV_SANDBOX_";
constexpr std::size_t kFilesMax = 1024;
constexpr std::size_t kValueBytesMax = 4096;

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  });
  return out;
}

}  // namespace

std::vector<std::string> handed_secrets(const std::string& folder,
                                        std::span<const std::string> environment) {
  std::vector<std::string> out;
  const auto opened = sys::open_at(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
  if (!opened) return out;
  const auto names = sys::list_dir(opened->get(), kFilesMax);
  if (!names) return out;
  for (const std::string& file : *names) {
    const std::string name = upper(file);
    if (!name.starts_with(kPrefix)) continue;
    const bool said = std::ranges::any_of(environment, [&](const std::string& one) {
      return one.size() > name.size() + 1 && upper(one.substr(0, one.find('='))) == name;
    });
    if (said) continue;
    auto value = sys::read_small(opened->get(), file, kValueBytesMax);
    if (!value) continue;
    while (!value->empty() && std::isspace(static_cast<unsigned char>(value->back())) != 0)
      value->pop_back();
    if (!value->empty() && value->find('\0') == std::string::npos)
      out.push_back(name + "=" + *value);
  }
  return out;
}

}  // namespace caisson::cli
