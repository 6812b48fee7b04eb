// A folder laid out as a job finds it, and a job on it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "guest/layer/layer.h"

namespace caisson::layer {

class HearAll final : public Teller {
 public:
  Result<void> progress(const wire::LayerProgress& /*progress*/) override {
    ++progresses;
    return {};
  }
  Result<void> entry(const Finding& found, const std::string& path) override {
    constexpr char kLetters[] = " AMRTmC";
    lines.push_back(std::string(1, kLetters[static_cast<std::size_t>(found.kind)]) + " " + path);
    findings.emplace_back(path, found);
    return {};
  }
  std::vector<std::string> lines;
  std::vector<std::pair<std::string, Finding>> findings;
  int progresses = 0;
};

class Home {
 public:
  Home() {
    std::string name = (std::filesystem::temp_directory_path() / "caisson-layer-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
    for (const char* folder : {"out", "in", "a", "b", "base", "a.in", "b.in"}) make(folder);
    fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
  void make(const std::string& name) const {
    std::filesystem::create_directories(at(name));
    ::chmod(at(name).c_str(), 0755);
  }
  void write(const std::string& name, const std::string& content) const {
    make(std::filesystem::path(name).parent_path().string());
    std::ofstream(at(name), std::ios::binary) << content;
    ::chmod(at(name).c_str(), 0644);
  }
  void link(const std::string& target, const std::string& name) const {
    make(std::filesystem::path(name).parent_path().string());
    std::filesystem::create_symlink(target, at(name));
  }
  void hide(const std::string& name) const {
    make(std::filesystem::path(name).parent_path().string());
    if (::mknod(at(name).c_str(), S_IFCHR | 0600, makedev(0, 0)) != 0) {
      throw std::runtime_error("no whiteout");
    }
  }
  void mark(const std::string& name, const std::string& attribute = "user.overlay.opaque",
            const std::string& value = "y") const {
    if (::setxattr(at(name).c_str(), attribute.c_str(), value.data(), value.size(), 0) != 0) {
      throw std::runtime_error("no attribute");
    }
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] struct stat facts(const std::string& name) const {
    struct stat facts{};
    if (::lstat(at(name).c_str(), &facts) != 0) facts.st_mode = 0;
    return facts;
  }
  [[nodiscard]] bool has(const std::string& name) const { return facts(name).st_mode != 0; }
  [[nodiscard]] bool is_folder(const std::string& name) const {
    return S_ISDIR(facts(name).st_mode);
  }
  [[nodiscard]] bool is_hidden(const std::string& name) const {
    const struct stat found = facts(name);
    return S_ISCHR(found.st_mode) && found.st_rdev == 0;
  }
  [[nodiscard]] std::string attribute(const std::string& name, const std::string& which) const {
    std::string value(256, '\0');
    const ssize_t got = ::lgetxattr(at(name).c_str(), which.c_str(), value.data(), value.size());
    return got < 0 ? "" : value.substr(0, static_cast<std::size_t>(got));
  }
  [[nodiscard]] bool is_opaque(const std::string& name) const {
    return attribute(name, "user.overlay.opaque") == "y";
  }

  Result<wire::LayerDone> run(wire::JobKind kind) {
    job.kind = kind;
    heard.lines.clear();
    heard.findings.clear();
    return layer::run(Work{fd_.get(), job, prefix, descriptor, output}, heard);
  }
  Result<wire::LayerDone> unpack(const std::string& archive) {
    const UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
    if (::write(file.get(), archive.data(), archive.size()) !=
        static_cast<ssize_t>(archive.size())) {
      throw std::runtime_error("no memory file");
    }
    ::lseek(file.get(), 0, SEEK_SET);
    descriptor = file.get();
    return run(wire::JobKind::Unpack);
  }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  wire::Job job{.kind = wire::JobKind::Unpack,
                .flags = 0,
                .bytes_max = std::uint64_t{1} << 30U,
                .entries_max = 100'000,
                .ratio_max = 0,
                .layers = 0,
                .a_layers = 0,
                .b_layers = 0,
                .prefix_size = 0,
                .reserved = 0};
  std::string prefix;
  int descriptor = -1;
  int output = -1;
  HearAll heard;

 private:
  std::string path_;
  UniqueFd fd_;
};

inline wire::LayerError kind_of(const Error& error) { return to_wire(error).error; }

}  // namespace caisson::layer
