// doors/preview/places.h — how many requests pass at once: in all, and into one sandbox.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace caisson::preview {

class Places {
  struct Counts {
    std::size_t all = 0;
    std::map<std::string, std::size_t, std::less<>> per_sandbox;
  };

 public:
  Places(std::size_t max, std::size_t per_sandbox_max)
      : max_(max), per_sandbox_max_(per_sandbox_max) {}

  // Given back when it goes. It may outlive the count.
  class Place {
   public:
    Place(std::shared_ptr<Counts> counts, std::string sandbox)
        : counts_(std::move(counts)), sandbox_(std::move(sandbox)) {
      ++counts_->all;
      ++counts_->per_sandbox[sandbox_];
    }
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (!counts_) return;
      --counts_->all;
      const auto own = counts_->per_sandbox.find(sandbox_);
      if (--own->second == 0) counts_->per_sandbox.erase(own);
    }

   private:
    std::shared_ptr<Counts> counts_;
    std::string sandbox_;
  };

  [[nodiscard]] std::optional<Place> take(const std::string& sandbox) {
    const auto own = counts_->per_sandbox.find(sandbox);
    const std::size_t taken = own == counts_->per_sandbox.end() ? 0 : own->second;
    if (counts_->all >= max_ || taken >= per_sandbox_max_) return std::nullopt;
    return std::optional<Place>(std::in_place, counts_, sandbox);
  }

 private:
  std::size_t max_;
  std::size_t per_sandbox_max_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace caisson::preview
