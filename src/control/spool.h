// control/spool.h — a file without a name: it goes with its descriptor. Whoever waits for its disk
// does so on the pool's thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "control/work_tree.h"

namespace caisson::control {

inline constexpr std::uint64_t kSpoolBytesMax = 16ULL << 30U;
inline constexpr std::size_t kSpoolStepBytes = 256UL * 1024;

[[nodiscard]] Result<UniqueFd> nameless_file(const std::string& folder);

class FileSpool final : public Spool {
 public:
  // `disk` outlives it.
  [[nodiscard]] static Result<std::shared_ptr<FileSpool>> make(const std::string& folder,
                                                               boost::asio::thread_pool& disk);
  FileSpool(UniqueFd file, boost::asio::thread_pool& disk) : file_(std::move(file)), disk_(disk) {}

  awaitable<Result<void>> write(std::span<const std::byte> bytes) override;
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  awaitable<Result<std::size_t>> read(std::uint64_t offset, std::span<std::byte> out) override;

  // For a process that reads or writes it by itself.
  [[nodiscard]] Result<UniqueFd> descriptor() const;
  // What such a process has written.
  [[nodiscard]] Result<void> measure();

 private:
  UniqueFd file_;
  boost::asio::thread_pool& disk_;
  std::uint64_t size_ = 0;
};

}  // namespace caisson::control
