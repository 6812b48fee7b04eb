#include "engine/microvm/kernel_modules.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace caisson::engine::microvm {
namespace {

using View = std::span<const std::byte>;

constexpr std::size_t kSectionsMax = 4096;
constexpr std::size_t kDepthMax = 16;

// What the channel and the disks need. Checksums come first: nobody names them as what they need.
struct Wish {
  const char* name;
  bool may_be_absent;
};
constexpr std::array<Wish, 7> kWanted = {{{"virtio_mmio", false},
                                          {"virtio_console", false},
                                          {"virtio_blk", false},
                                          {"crc32c_generic", true},
                                          {"erofs", false},
                                          {"overlay", false},
                                          {"ext4", false}}};

template <class T>
std::optional<T> struct_at(View bytes, std::size_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::optional<View> section_bytes(View file, const Elf64_Shdr& section) {
  if (section.sh_offset > file.size() || section.sh_size > file.size() - section.sh_offset)
    return std::nullopt;
  return file.subspan(section.sh_offset, section.sh_size);
}

std::string_view text_at(View strings, std::size_t at) {
  if (at >= strings.size()) return {};
  const auto* begin = reinterpret_cast<const char*>(strings.data()) + at;
  return {begin, ::strnlen(begin, strings.size() - at)};
}

std::optional<View> find_section(View file, std::string_view name) {
  const auto head = struct_at<Elf64_Ehdr>(file, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shnum > kSectionsMax)
    return std::nullopt;
  const auto section = [&](std::size_t index) {
    return struct_at<Elf64_Shdr>(file, head->e_shoff + index * sizeof(Elf64_Shdr));
  };
  if (head->e_shoff > file.size()) return std::nullopt;
  const auto names_header = section(head->e_shstrndx);
  if (!names_header) return std::nullopt;
  const auto names = section_bytes(file, *names_header);
  if (!names) return std::nullopt;
  for (std::size_t i = 0; i < head->e_shnum; ++i) {
    const auto one = section(i);
    if (one && text_at(*names, one->sh_name) == name) return section_bytes(file, *one);
  }
  return std::nullopt;
}

class Collector {
 public:
  Collector(const FindModule& find, const std::set<std::string>& builtin)
      : find_(find), builtin_(builtin) {}

  Result<void> add(const std::string& name, bool may_be_absent, std::size_t depth = 0) {
    if (builtin_.contains(name) || !seen_.insert(name).second) return {};
    if (depth > kDepthMax || seen_.size() > kModulesMax)
      return failure(Errc::Exhausted, "the kernel's modules need more of each other than is sane");
    auto content = TRY(find_(name));
    if (!content) {
      if (may_be_absent) return {};
      return failure(Errc::Unsupported, fmt::format("the kernel has no module '{}'", name));
    }
    const auto needed = TRY_IN("module " + name, dependencies_of(*content));
    for (const std::string& one : needed) TRY(add(one, false, depth + 1));
    out_.push_back({name, std::move(*content), may_be_absent});
    return {};
  }

  std::vector<Module> take() { return std::move(out_); }

 private:
  const FindModule& find_;
  const std::set<std::string>& builtin_;
  std::set<std::string> seen_;
  std::vector<Module> out_;
};

}  // namespace

std::string module_name(std::string_view path) {
  const std::size_t folder = path.rfind('/');
  std::string_view file = folder == std::string_view::npos ? path : path.substr(folder + 1);
  for (const std::string_view packed : {".xz", ".zst", ".gz"}) {
    if (file.ends_with(packed)) file.remove_suffix(packed.size());
  }
  if (!file.ends_with(".ko")) return {};
  std::string name(file.substr(0, file.size() - 3));
  std::ranges::replace(name, '-', '_');
  return name;
}

Result<std::vector<std::string>> dependencies_of(View module) {
  const auto description = find_section(module, ".modinfo");
  if (!description)
    return failure(Errc::InvalidArgument, "it is no kernel module: it does not describe itself");
  std::vector<std::string> names;
  constexpr std::string_view kKey = "depends=";
  for (std::size_t at = 0; at < description->size();) {
    const std::string_view field = text_at(*description, at);
    at += field.size() + 1;
    if (!field.starts_with(kKey)) continue;
    for (std::string_view rest = field.substr(kKey.size()); !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string name(rest.substr(0, comma));
      std::ranges::replace(name, '-', '_');
      if (!name.empty()) names.push_back(std::move(name));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return names;
}

Result<std::vector<Module>> needed_modules(const FindModule& find,
                                           const std::set<std::string>& builtin) {
  Collector collector(find, builtin);
  for (const Wish& wish : kWanted) TRY(collector.add(wish.name, wish.may_be_absent));
  return collector.take();
}

}  // namespace caisson::engine::microvm
