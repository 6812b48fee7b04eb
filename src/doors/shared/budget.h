// doors/shared/budget.h — how many bytes calls may hold at once: in all, and of one tenant.
//
// Counted is what a caller can make grow: a body from its first byte until its call is over, a
// command's output as it comes, and an answer from before it is made until its last byte is sent,
// however slowly it is read. Bodies and answers that are small are not counted; the limits on
// connections and streams bound them. Where nobody knows how much will come, room is taken first,
// small or not. Who finds no room waits a while, and is then told to come back.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace caisson::doors {

using boost::asio::awaitable;

// Of one call, for nothing. 4096 connections times this is 64 MiB.
inline constexpr std::size_t kUncountedBytesMax = 16UL * 1024;
// Calls of one tenant that wait for room; the next one is told at once to come back.
inline constexpr std::size_t kWaitersPerTenantMax = 256;
// When so much was given back, the holes in the heap are worth returning to the kernel.
inline constexpr std::size_t kTrimBytesMin = 4UL * 1024 * 1024;

class Budget {
  struct Waiter;
  struct Books {
    std::size_t max = 0;
    std::size_t per_tenant_max = 0;
    milliseconds patience{0};
    std::size_t held = 0;
    std::map<std::string, std::size_t, std::less<>> per_tenant;
    std::list<Waiter*> waiting;  // who came first is woken first
    std::size_t freed = 0;       // since the heap was trimmed
    TimePoint trimmed{};
  };

 public:
  Budget(std::size_t max, std::size_t per_tenant_max, milliseconds patience);

  // What one call holds; given back when it goes. It may outlive the budget.
  class Hold {
   public:
    Hold(std::shared_ptr<Books> books, std::string tenant)
        : books_(std::move(books)), tenant_(std::move(tenant)) {}
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { force(0); }

    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    // So many more could be had now; with `times` 2, by overdraw().
    [[nodiscard]] std::size_t room(std::size_t times = 1) const;
    // Makes it `bytes` in all. More of them are waited for, and Exhausted if none come.
    awaitable<Result<void>> resize(std::size_t bytes);
    // The same at once, or not at all: for whoever holds something already that others wait for.
    [[nodiscard]] bool try_resize(std::size_t bytes);
    // For what cannot be had again, such as the output of a command that has run: at once, and up
    // to twice what there is for everybody else.
    [[nodiscard]] bool overdraw(std::size_t bytes);
    // For what is there already, whether there is room for it or not.
    void force(std::size_t bytes);

   private:
    [[nodiscard]] bool fits(std::size_t bytes, std::size_t times) const;
    std::shared_ptr<Books> books_;
    std::string tenant_;
    std::size_t bytes_ = 0;    // as it was said
    std::size_t counted_ = 0;  // of them, in the books
  };

  [[nodiscard]] std::unique_ptr<Hold> open(const std::string& tenant) const {
    return std::make_unique<Hold>(books_, tenant);
  }
  [[nodiscard]] static std::unexpected<Error> exhausted();
  [[nodiscard]] std::size_t held() const noexcept { return books_->held; }

 private:
  // Wakes one of those who find room now: when he has taken it, he wakes the next.
  static void wake_one(Books& books);
  [[nodiscard]] static std::size_t room_of(const Books& books, const std::string& tenant,
                                           std::size_t times);
  std::shared_ptr<Books> books_;
};

}  // namespace caisson::doors
