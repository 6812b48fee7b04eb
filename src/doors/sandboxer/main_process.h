// doors/sandboxer/main_process.h — the image's own command inside a sandbox. Somebody always reads
// what it says, so it is not held up: into its log, or, when it has a terminal, to whoever looks
// at that right now. Nothing of a terminal is kept.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "doors/sandboxer/log.h"
#include "doors/sandboxer/signal.h"

namespace caisson::sandboxer {

// What waits for somebody who looks on; who then reads nothing for so long is dropped.
inline constexpr std::size_t kViewerBytesMax = 1024UL * 1024;
inline constexpr milliseconds kViewerPatience{5'000};
inline constexpr std::size_t kViewersMax = 64;  // of one terminal

class MainProcess {
 public:
  // Without a log: it has a terminal.
  MainProcess(boost::asio::any_io_executor executor, std::shared_ptr<Log> log)
      : executor_(std::move(executor)), log_(std::move(log)), signal_(executor_) {}

  [[nodiscard]] const std::shared_ptr<Log>& log() const noexcept { return log_; }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  // Until it has ended, or the waiter is cancelled.
  awaitable<void> wait() {
    while (!ended_) {
      if (!co_await signal_.wait()) co_return;
    }
  }

  // Null when there are too many. He looks on while it lives.
  [[nodiscard]] std::shared_ptr<Mailbox> look_on() {
    std::erase_if(viewers_, [](const auto& one) { return one.expired(); });
    if (viewers_.size() >= kViewersMax) return nullptr;
    auto viewer = std::make_shared<Mailbox>(executor_, kViewerBytesMax);
    if (ended_) viewer->close();
    viewers_.push_back(viewer);
    return viewer;
  }
  // As fast as they read, like any terminal.
  awaitable<void> show(std::string bytes) {
    std::vector<std::shared_ptr<Mailbox>> now;
    for (const auto& one : viewers_) {
      if (auto viewer = one.lock()) now.push_back(std::move(viewer));
    }
    for (const auto& viewer : now) co_await viewer->offer(bytes, kViewerPatience);
  }
  // It is over, or the server ends.
  void end() {
    ended_ = true;
    for (const auto& one : viewers_) {
      if (const auto viewer = one.lock()) viewer->close();
    }
    signal_.wake();
  }

 private:
  boost::asio::any_io_executor executor_;
  std::shared_ptr<Log> log_;
  std::list<std::weak_ptr<Mailbox>> viewers_;
  Signal signal_;
  bool ended_ = false;
};

}  // namespace caisson::sandboxer
