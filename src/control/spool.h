// control/spool.h — a file without a name: it goes with its descriptor. Whoever waits for its disk
// does so on the pool's thread.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "control/work_tree.h"

namespace caisson::control {

inline constexpr std::uint64_t kSpoolBytesMax = 16ULL << 30U;       // of one tenant's, together
inline constexpr std::uint64_t kSpoolAllBytesMax = 64ULL << 30U;    // of all tenants
inline constexpr std::uint64_t kSpoolFreeBytesMin = 512ULL << 20U;  // left on the disk for others
inline constexpr std::size_t kSpoolStepBytes = 256UL * 1024;

// How much tenants have in spools now. One thread.
class SpoolAccounts {
  struct Sums {
    std::uint64_t all = 0;
    std::map<std::string, std::uint64_t> tenants;
  };

 public:
  // What one spool has taken; given back when it goes, also after the accounts.
  class Account {
   public:
    Account(std::shared_ptr<Sums> sums, std::string tenant)
        : sums_(std::move(sums)), tenant_(std::move(tenant)) {}
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;
    ~Account() { set(0); }
    [[nodiscard]] std::uint64_t room() const;
    void set(std::uint64_t bytes);

   private:
    std::shared_ptr<Sums> sums_;
    std::string tenant_;
    std::uint64_t bytes_ = 0;
  };
  [[nodiscard]] std::unique_ptr<Account> open(std::string tenant) const {
    return std::make_unique<Account>(sums_, std::move(tenant));
  }

 private:
  std::shared_ptr<Sums> sums_ = std::make_shared<Sums>();
};

[[nodiscard]] Result<UniqueFd> nameless_file(const std::string& folder);

class FileSpool final : public Spool {
 public:
  // `disk` outlives it.
  [[nodiscard]] static Result<std::shared_ptr<FileSpool>> make(
      const std::string& folder, boost::asio::thread_pool& disk,
      std::unique_ptr<SpoolAccounts::Account> account);
  FileSpool(UniqueFd file, boost::asio::thread_pool& disk,
            std::unique_ptr<SpoolAccounts::Account> account)
      : file_(std::move(file)), disk_(disk), account_(std::move(account)) {}

  awaitable<Result<void>> write(std::span<const std::byte> bytes) override;
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  awaitable<Result<std::size_t>> read(std::uint64_t offset, std::span<std::byte> out) override;

  // For a process that reads or writes it by itself.
  [[nodiscard]] Result<UniqueFd> descriptor() const;
  // How much more it may hold.
  [[nodiscard]] std::uint64_t room() const;
  // What such a process has written.
  [[nodiscard]] Result<void> measure();

 private:
  UniqueFd file_;
  boost::asio::thread_pool& disk_;
  std::unique_ptr<SpoolAccounts::Account> account_;
  std::uint64_t size_ = 0;
};

}  // namespace caisson::control
