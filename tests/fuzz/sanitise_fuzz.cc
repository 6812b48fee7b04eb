// Any bytes are an archive or are refused. What is written of them is a tar that init's own parser
// reads to its end, in which each entry can be made by the rules of TarIn, nothing leads through a
// link, no link leads out, and what is told of each path is what stands there at the end. The first
// byte says whether links are wanted.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "guest/layer/layer.h"

// The parser is part of a program for musl. Compiled in here, it runs under the fuzzer's
// instruments.
#include "guest/init/tar_format.cc"
#include "guest/init/tar_parser.cc"

namespace {

namespace init = caisson::init;
namespace layer = caisson::layer;
namespace wire = caisson::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

// What stands at a path: a folder, a file with its bytes, a link with its target.
struct Node {
  std::uint32_t mode = 0;
  std::string bytes;
};
using Tree = std::map<std::string, Node>;

class Listener final : public layer::Teller {
 public:
  caisson::Result<void> progress(const wire::LayerProgress& /*progress*/) override { return {}; }
  caisson::Result<void> entry(const layer::Finding& found, const std::string& path) override {
    require(told.emplace(path, found).second);  // each path once
    return {};
  }
  std::map<std::string, layer::Finding> told;
};

std::uint32_t type_at(const Tree& tree, const std::string& path) {
  const auto at = tree.find(path);
  return at == tree.end() ? 0 : at->second.mode & S_IFMT;
}

// TarIn would make this entry, and touch nothing but its place.
void check_place(const Tree& tree, const std::string& path, init::TarType type) {
  for (std::size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1)) {
    require(type_at(tree, path.substr(0, at)) == S_IFDIR);
  }
  const std::uint32_t there = type_at(tree, path);
  require(there != S_IFLNK);
  require(there == 0 || type != init::TarType::Link);
  require(there != S_IFDIR || type == init::TarType::Folder);
}

Node node_of(const init::TarEntry& entry) {
  const bool folder = entry.type == init::TarType::Folder;
  require(entry.mtime_s >= 0);
  if (entry.type == init::TarType::Link) return {S_IFLNK | 0777U, entry.link};
  require((entry.mode & 0644U) == 0644U);
  require((entry.mode & 0111U) == 0 || (entry.mode & 0111U) == 0111U);
  require(!folder || (entry.mode & 0111U) == 0111U);
  return {(folder ? S_IFDIR : S_IFREG) | entry.mode, ""};
}

Tree read_tree(const std::string& bytes) {
  Tree tree;
  std::string path;
  bool ended = false;
  const auto parser = std::make_unique<init::TarParser>();
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (std::size_t at = 0;;) {
    std::size_t used = 0;
    const auto event = parser->feed(data + at, bytes.size() - at, used);
    at += used;
    require(event != init::TarParser::Event::Bad);
    if (event == init::TarParser::Event::NeedMore) break;
    ended = ended || event == init::TarParser::Event::End;
    if (event == init::TarParser::Event::Entry) {
      const init::TarEntry& entry = parser->entry();
      char safe[wire::kPathMax + 1];
      require(init::tar_safe_name(entry.name, safe) && safe[0] != '\0');
      path = safe;
      const bool known = entry.type == init::TarType::File || entry.type == init::TarType::Folder ||
                         entry.type == init::TarType::Link;
      require(known);
      check_place(tree, path, entry.type);
      tree[path] = node_of(entry);
    }
    if (event == init::TarParser::Event::Content) {
      tree[path].bytes.append(reinterpret_cast<const char*>(parser->content()),
                              parser->content_size());
    }
  }
  require(ended);
  return tree;
}

// Follows a path as a kernel would, links and all, and stops where nothing is. It must not come to
// the folder above the root, whatever the order in which the links were made.
void follow(const Tree& tree, std::vector<std::string>& at, const std::string& text,
            int& patience) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (--patience < 0) return;  // a loop of links: a kernel gives up too
    if (part == "..") {
      require(!at.empty());
      at.pop_back();
      continue;
    }
    std::string path;
    for (const std::string& one : at) path += one + "/";
    path += part;
    if (type_at(tree, path) == S_IFLNK) {
      follow(tree, at, tree.at(path).bytes, patience);
    } else {
      at.push_back(part);
    }
  }
}

void check_links(const Tree& tree) {
  for (const auto& [path, node] : tree) {
    if (!S_ISLNK(node.mode)) continue;
    require(!node.bytes.empty() && node.bytes[0] != '/');
    std::vector<std::string> at;
    int patience = 400;
    follow(tree, at, path, patience);
  }
}

caisson::UniqueFd file_of(const std::uint8_t* data, std::size_t size) {
  caisson::UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
  require(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const caisson::UniqueFd in = file_of(data + 1, size - 1);
  const caisson::UniqueFd out = file_of(data, 0);
  wire::Job job{};
  job.kind = wire::JobKind::Sanitise;
  job.flags = (data[0] & 1U) != 0 ? wire::kJobNoLinks : 0;
  job.bytes_max = std::uint64_t{4} * 1024 * 1024;
  job.entries_max = 500;
  Listener listener;
  const auto done = layer::run(layer::Work{-1, job, "", in.get(), out.get()}, listener);
  struct stat facts{};
  require(::fstat(out.get(), &facts) == 0);
  require(static_cast<std::uint64_t>(facts.st_size) <= job.bytes_max);
  if (!done) {
    // Without a failure of the machine only these may be said, and nothing else was.
    const wire::LayerError error = layer::to_wire(done.error()).error;
    require(error == wire::LayerError::BadInput || error == wire::LayerError::TooLarge);
    require(listener.told.empty());
    return 0;
  }
  std::string written(static_cast<std::size_t>(facts.st_size), '\0');
  require(::pread(out.get(), written.data(), written.size(), 0) == facts.st_size);
  const Tree tree = read_tree(written);
  require(done->entries == tree.size() && listener.told.size() == tree.size());
  require(done->bytes_out == written.size());
  for (const auto& [path, found] : listener.told) {
    const Node& node = tree.at(path);
    require(found.mode == node.mode && found.size == node.bytes.size());
    require(job.flags == 0 || !S_ISLNK(found.mode));
    if (!S_ISDIR(found.mode)) require(written.substr(found.offset, found.size) == node.bytes);
  }
  check_links(tree);
  return 0;
}
