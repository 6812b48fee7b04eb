// doors/mcp/seats.h — so many at once: in all, and of one caller. A seat is given back when it
// goes, also after the Seats themselves.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"

namespace caisson::mcp {

class Seats {
  struct Counts {
    std::size_t taken = 0;
    std::map<std::string, std::size_t, std::less<>> per_caller;
  };

 public:
  // `what` is for the refusal: "sessions".
  Seats(std::string what, std::size_t max, std::size_t per_caller_max)
      : what_(std::move(what)), max_(max), per_caller_max_(per_caller_max) {}

  class Seat {
   public:
    Seat(std::shared_ptr<Counts> counts, std::string caller)
        : counts_(std::move(counts)), caller_(std::move(caller)) {}
    Seat(Seat&&) noexcept = default;
    Seat& operator=(Seat&& other) noexcept {
      std::swap(counts_, other.counts_);
      std::swap(caller_, other.caller_);
      return *this;
    }
    ~Seat() {
      if (!counts_) return;
      --counts_->taken;
      const auto own = counts_->per_caller.find(caller_);
      if (own != counts_->per_caller.end() && --own->second == 0) counts_->per_caller.erase(own);
    }

   private:
    std::shared_ptr<Counts> counts_;
    std::string caller_;
  };

  [[nodiscard]] Result<Seat> take(const std::string& caller) {
    const auto found = counts_->per_caller.find(caller);
    const std::size_t own = found == counts_->per_caller.end() ? 0 : found->second;
    if (counts_->taken >= max_ || own >= per_caller_max_)
      return failure(Errc::Exhausted, "there are too many " + what_ + ": end one, then try again");
    ++counts_->per_caller[caller];
    ++counts_->taken;
    return Seat(counts_, caller);
  }
  [[nodiscard]] std::size_t taken() const noexcept { return counts_->taken; }

 private:
  std::string what_;
  std::size_t max_;
  std::size_t per_caller_max_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace caisson::mcp
