#include "engine/launcher/demand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace caisson::engine {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;

LaunchRequest with_layer(const std::string& layer) {
  LaunchRequest request;
  request.stack.layers = {layer};
  return request;
}

class DemandTest : public ::testing::Test {
 protected:
  // Makes what is missing until nothing is, as an idle launcher does.
  void fill() {
    for (std::size_t i = 0; i < 100; ++i) {
      std::vector<const LaunchRequest*> ready;
      for (const LaunchRequest& blank : ready_) ready.push_back(&blank);
      const LaunchRequest* kind = demand_.missing(ready, now_);
      auto gone = demand_.unwanted(ready);
      if (!gone && kind == nullptr) return;
      if (!gone) {
        const Demand::Room room = demand_.room_for(*kind, ready);
        if (!room.enough && !room.instead) return;
        gone = room.instead;
      }
      if (gone)
        ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(*gone));
      else
        ready_.push_back(*kind);
    }
    FAIL() << "there is no end to it";
  }
  std::ptrdiff_t count(const LaunchRequest& kind) const { return std::ranges::count(ready_, kind); }

  Demand demand_;
  std::vector<LaunchRequest> ready_;
  TimePoint now_ = TimePoint(std::chrono::hours(1));
};

TEST_F(DemandTest, NobodyAskedSoNothingIsMade) {
  fill();
  EXPECT_TRUE(ready_.empty());
}

TEST_F(DemandTest, OneLaunchMakesALittleStockAndABurstALargerOne) {
  const LaunchRequest kind = with_layer("a");
  demand_.ask(kind, now_);
  fill();
  EXPECT_EQ(count(kind), kBlanksPerKindMin);
  for (int i = 0; i < 1000; ++i) demand_.ask(kind, now_);
  fill();
  EXPECT_EQ(count(kind), kBlanksPerKindMax);
}

TEST_F(DemandTest, AfterTheBurstOnlyALittleIsMadeAgain) {
  const LaunchRequest kind = with_layer("a");
  for (int i = 0; i < 100; ++i) demand_.ask(kind, now_);
  now_ += std::chrono::minutes(5);
  fill();
  EXPECT_EQ(count(kind), kBlanksPerKindMin);
}

TEST_F(DemandTest, WhatIsOneCallersAloneIsNotMadeAhead) {
  LaunchRequest request = with_layer("a");
  request.trust = "an authority";
  demand_.ask(request, now_);
  fill();
  EXPECT_TRUE(ready_.empty());
}

TEST_F(DemandTest, LimitsAndLayersAboveAreNotAnotherKind) {
  const LaunchRequest kind = with_layer("a");
  LaunchRequest fork = kind;
  fork.stack.layers.insert(fork.stack.layers.begin(), "above");
  fork.limits.memory_bytes = 1;
  demand_.ask(kind, now_);
  demand_.ask(fork, now_);
  fill();
  EXPECT_EQ(ready_.size(), kBlanksPerKindMin);
  EXPECT_EQ(count(kind), kBlanksPerKindMin);
}

TEST_F(DemandTest, KindsLieBesideEachOtherUpToABound) {
  for (std::size_t i = 0; i < kKindsMax + 3; ++i)
    demand_.ask(with_layer("layer" + std::to_string(i)), now_);
  fill();
  EXPECT_EQ(ready_.size(), kKindsMax * kBlanksPerKindMin);
  EXPECT_EQ(count(with_layer("layer0")), 0);
}

TEST_F(DemandTest, AKindThatIsWantedNowTakesThePlaceOfOneThatWasWantedBefore) {
  for (std::size_t i = 0; i < kKindsMax; ++i) {
    for (int n = 0; n < 100; ++n) demand_.ask(with_layer("layer" + std::to_string(i)), now_);
    fill();
  }
  EXPECT_EQ(ready_.size(), kBlanksMax);
  EXPECT_EQ(count(with_layer("layer7")), kBlanksPerKindMax);
  EXPECT_EQ(count(with_layer("layer0")), 0);
}

TEST_F(DemandTest, OldKindsAreForgotten) {
  const LaunchRequest old = with_layer("old");
  demand_.ask(old, now_);
  fill();
  EXPECT_EQ(count(old), kBlanksPerKindMin);
  now_ += std::chrono::hours(1);
  fill();
  EXPECT_TRUE(ready_.empty());
}

TEST_F(DemandTest, MachinesCountWithTheirMemory) {
  LaunchRequest machine = with_layer("a");
  machine.tier = policy::SandboxTier::Microvm;
  machine.limits.memory_bytes = 400 * kMiB;
  for (int i = 0; i < 100; ++i) demand_.ask(machine, now_);
  fill();
  EXPECT_EQ(ready_.size(), kBlankBytesMax / (400 * kMiB));
  machine.limits.memory_bytes = 2048 * kMiB;
  demand_.ask(machine, now_);
  fill();
  EXPECT_EQ(count(machine), 0);
}

TEST_F(DemandTest, WhatStandsOnSomethingThatGoesIsForgotten) {
  demand_.ask(with_layer("a"), now_);
  demand_.forget([](const LaunchRequest& kind) { return kind.stack.layers.front() == "a"; });
  fill();
  EXPECT_TRUE(ready_.empty());
}

}  // namespace
}  // namespace caisson::engine
