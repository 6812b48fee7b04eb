// doors/preview/places.h — how many requests pass at once: in all, of one tenant, and into one
// sandbox.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace caisson::preview {

class Places {
  using Counts = std::map<std::string, std::size_t, std::less<>>;
  struct Taken {
    std::size_t all = 0;
    Counts per_tenant;
    Counts per_sandbox;
  };

 public:
  struct Limits {
    std::size_t all = 0;
    std::size_t per_tenant = 0;
    std::size_t per_sandbox = 0;
  };
  struct Who {
    std::string sandbox;
    std::string tenant;
  };

  explicit Places(Limits limits) : limits_(limits) {}

  // Given back when it goes. It may outlive the count.
  class Place {
   public:
    Place(std::shared_ptr<Taken> taken, Who who) : taken_(std::move(taken)), who_(std::move(who)) {
      ++taken_->all;
      ++taken_->per_tenant[who_.tenant];
      ++taken_->per_sandbox[who_.sandbox];
    }
    Place(Place&&) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (!taken_) return;
      --taken_->all;
      give_back(taken_->per_tenant, who_.tenant);
      give_back(taken_->per_sandbox, who_.sandbox);
    }

   private:
    static void give_back(Counts& counts, const std::string& key) {
      const auto own = counts.find(key);
      if (--own->second == 0) counts.erase(own);
    }

    std::shared_ptr<Taken> taken_;
    Who who_;
  };

  [[nodiscard]] std::optional<Place> take(Who who) {
    if (taken_->all >= limits_.all || of(taken_->per_tenant, who.tenant) >= limits_.per_tenant ||
        of(taken_->per_sandbox, who.sandbox) >= limits_.per_sandbox) {
      return std::nullopt;
    }
    return std::optional<Place>(std::in_place, taken_, std::move(who));
  }

 private:
  [[nodiscard]] static std::size_t of(const Counts& counts, const std::string& key) {
    const auto own = counts.find(key);
    return own == counts.end() ? 0 : own->second;
  }

  Limits limits_;
  std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace caisson::preview
