// An archive to be written anew, and what became of it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "guest/layer/home_kit_test.h"
#include "guest/layer/sanitise.h"
#include "guest/layer/tar_kit_test.h"

namespace caisson::layer {

inline UniqueFd file_of(const std::string& bytes) {
  UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("no memory file");
  }
  return file;
}

// One archive, what was written of it, and what was told.
class Seed {
 public:
  explicit Seed(const std::string& archive) : in_(file_of(archive)), out_(file_of("")) {}

  Result<wire::LayerDone> run() {
    // No folder: the job has none.
    auto done = layer::run(Work{-1, job, "", in_.get(), out_.get()}, heard);
    struct stat facts{};
    ::fstat(out_.get(), &facts);
    written.resize(static_cast<std::size_t>(facts.st_size));
    EXPECT_EQ(::pread(out_.get(), written.data(), written.size(), 0), facts.st_size);
    return done;
  }
  // Of everything that is told, whether it lies where it was said to lie.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const auto& [path, found] : heard.findings) {
      if (!S_ISDIR(found.mode)) out[path] = written.substr(found.offset, found.size);
    }
    return out;
  }
  [[nodiscard]] std::vector<std::string> paths() const {
    std::vector<std::string> out;
    for (const auto& [path, found] : heard.findings) out.push_back(path);
    return out;
  }
  [[nodiscard]] std::uint32_t mode(const std::string& path) const {
    for (const auto& [told, found] : heard.findings) {
      if (told == path) return found.mode;
    }
    return 0;
  }

  wire::Job job{.kind = wire::JobKind::Sanitise,
                .flags = 0,
                .bytes_max = std::uint64_t{1} << 30U,
                .entries_max = 100'000,
                .ratio_max = 0,
                .layers = 0,
                .a_layers = 0,
                .b_layers = 0,
                .prefix_size = 0,
                .reserved = 0};
  HearAll heard;
  std::string written;

 private:
  UniqueFd in_;
  UniqueFd out_;
};

using Paths = std::vector<std::string>;
using Files = std::map<std::string, std::string>;

inline void expect_refused(const std::string& archive, const std::string& why,
                           wire::LayerError error = wire::LayerError::BadInput) {
  Seed seed(archive);
  const auto done = seed.run();
  ASSERT_FALSE(done) << "accepted, though " << why;
  EXPECT_EQ(kind_of(done.error()), error) << done.error().message;
  EXPECT_NE(done.error().message.find(why), std::string::npos) << done.error().message;
  EXPECT_TRUE(seed.heard.findings.empty());
}

inline void expect_kept(const Tar& tar, const Paths& paths, std::uint64_t left_out) {
  Seed seed(tar.end());
  const auto done = seed.run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(seed.paths(), paths);
  EXPECT_EQ(done->conflicts, left_out);
  EXPECT_EQ(done->entries, paths.size());
}

}  // namespace caisson::layer
