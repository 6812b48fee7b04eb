#include "engine/launcher/demand.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/launcher/blank.h"

namespace caisson::engine {
namespace {

constexpr seconds kHalfLife{10};
constexpr std::chrono::minutes kForgottenAfter{10};
constexpr std::uint64_t kNativeBytes = 1ULL << 20U;   // measured: half of that
constexpr std::uint64_t kGvisorBytes = 64ULL << 20U;  // a kernel written in Go, and its helpers

std::uint64_t bytes_of(const LaunchRequest& blank) {
  switch (blank.tier) {
    case policy::SandboxTier::Native:
      return kNativeBytes;
    case policy::SandboxTier::Gvisor:
      return kGvisorBytes;
    case policy::SandboxTier::Microvm:
      return blank.limits.memory_bytes;
  }
  return kNativeBytes;
}

double worth(double launches, TimePoint::duration age) {
  using Exact = std::chrono::duration<double>;
  return launches * std::exp2(-std::max(Exact(age) / Exact(kHalfLife), 0.0));
}

std::size_t target(double lately) {
  const auto half = static_cast<std::size_t>(std::lround(std::min(lately, 1e6) / 2));
  return std::clamp(1 + half, kBlanksPerKindMin, kBlanksPerKindMax);
}

}  // namespace

void Demand::ask(const LaunchRequest& request, TimePoint now) {
  if (!is_common(request)) return;
  auto at = std::ranges::find_if(
      kinds_, [&](const Kind& kind) { return can_become(kind.request, request); });
  Kind kind = at != kinds_.end() ? std::move(*at) : Kind{request, now, 0};
  if (at != kinds_.end()) kinds_.erase(at);
  kind.lately = worth(kind.lately, now - kind.asked) + 1;
  kind.asked = now;
  kinds_.insert(kinds_.begin(), std::move(kind));
  if (kinds_.size() > kKindsMax) kinds_.pop_back();
}

const LaunchRequest* Demand::missing(Ready ready, TimePoint now) {
  std::erase_if(kinds_, [&](const Kind& kind) { return now - kind.asked > kForgottenAfter; });
  for (const Kind& kind : kinds_) {
    const auto have = std::ranges::count_if(
        ready, [&](const LaunchRequest* blank) { return fits(*blank, kind.request); });
    if (static_cast<std::size_t>(have) < target(worth(kind.lately, now - kind.asked)))
      return &kind.request;
  }
  return nullptr;
}

// The place of a blank's kind in the order; that behind the last one when it is forgotten.
std::size_t Demand::rank(const LaunchRequest& blank) const {
  const auto at =
      std::ranges::find_if(kinds_, [&](const Kind& kind) { return fits(blank, kind.request); });
  return static_cast<std::size_t>(at - kinds_.begin());
}

std::optional<std::size_t> Demand::unwanted(Ready ready) const {
  const auto at = std::ranges::find_if(
      ready, [this](const LaunchRequest* blank) { return rank(*blank) == kinds_.size(); });
  if (at == ready.end()) return std::nullopt;
  return static_cast<std::size_t>(at - ready.begin());
}

Demand::Room Demand::room_for(const LaunchRequest& kind, Ready ready) const {
  std::uint64_t bytes = bytes_of(kind);
  for (const LaunchRequest* blank : ready) bytes += bytes_of(*blank);
  if (ready.size() < kBlanksMax && bytes <= kBlankBytesMax) return {.enough = true, .instead = {}};
  Room room;
  std::size_t worst = rank(kind);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if (const std::size_t own = rank(*ready[i]); own > worst) {
      worst = own;
      room.instead = i;
    }
  }
  return room;
}

void Demand::forget(const std::function<bool(const LaunchRequest&)>& which) {
  std::erase_if(kinds_, [&](const Kind& kind) { return which(kind.request); });
}

}  // namespace caisson::engine
