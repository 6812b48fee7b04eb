// control/patch_box.h — a sandbox of its own in which git compares two trees. What it reads is
// hostile, and so is what it says; it has the host's programs, no network, and ends with the
// object.
//
// Attributes and settings that the trees bring along have no word in it: nothing is converted, so
// what comes out applies to the very bytes that went in.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/channel/guest_channel.h"
#include "engine/channel/launcher_channel.h"

namespace caisson::control {

using boost::asio::awaitable;

class PatchBox {
 public:
  // Where the trees go; either may be missing.
  static constexpr const char* kOldFolder = "/workspace/a";
  static constexpr const char* kNewFolder = "/workspace/b";
  // The .gitignore files of the tree that ignored() is about.
  static constexpr const char* kIgnoreFolder = "/workspace/w";

  // `end` is given the sandbox's id when it is not needed any more.
  [[nodiscard]] static awaitable<Result<std::unique_ptr<PatchBox>>> open(
      boost::asio::any_io_executor executor, engine::LauncherChannel& launcher,
      std::function<void(std::string id)> end);
  ~PatchBox();
  PatchBox(const PatchBox&) = delete;
  PatchBox& operator=(const PatchBox&) = delete;

  [[nodiscard]] engine::GuestChannel& guest() const noexcept { return *guest_; }
  [[nodiscard]] static engine::GuestUser user() noexcept;

  // Those of `names` that git would not add by itself.
  awaitable<Result<std::vector<std::string>>> ignored(std::vector<std::string> names);
  // What makes the new tree out of the old one, in UTF-8.
  awaitable<Result<std::string>> compare();

 private:
  PatchBox(std::string id, std::function<void(std::string)> end)
      : id_(std::move(id)), end_(std::move(end)) {}
  awaitable<Result<int>> run(std::string script);
  awaitable<Result<std::string>> read(std::string path);

  std::string id_;
  std::function<void(std::string)> end_;
  std::shared_ptr<engine::GuestChannel> guest_;
};

}  // namespace caisson::control
