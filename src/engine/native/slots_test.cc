#include "engine/native/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/launch_request.h"
#include "sys/temp_dir_test.h"

namespace caisson::engine::native {
namespace {

SandboxId id_of(char letter) {
  return SandboxId::parse(std::string(SandboxId::kLength, letter)).value();
}

// Remembers whose leftovers it was asked to take away.
struct Cleaner {
  std::vector<std::string> cleaned;
  bool works = true;
  SlotTable::CleanUp call() {
    return [this](const std::string& id) -> Result<void> {
      cleaned.push_back(id);
      if (works) return {};
      return failure(Errc::Busy, "it is still there");
    };
  }
};

class SlotTableTest : public testing::Test {
 protected:
  SlotTable open() { return SlotTable::open(dir_.fd()).value(); }
  // A launcher that was killed: a name in a record that nobody holds any more.
  std::uint32_t leave_behind(const SandboxId& id) {
    SlotTable killed = open();
    const std::uint32_t slot = killed.claim(cleaner_.call()).value();
    EXPECT_TRUE(killed.name(slot, id));
    return slot;
  }

  sys::TempDir dir_;
  Cleaner cleaner_;
};

TEST_F(SlotTableTest, TwoLaunchersNeverGetTheSameSlot) {
  SlotTable one = open();
  SlotTable two = open();
  std::set<std::uint32_t> slots;
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(slots.insert(one.claim(cleaner_.call()).value()).second);
    EXPECT_TRUE(slots.insert(two.claim(cleaner_.call()).value()).second);
  }
  EXPECT_LT(*slots.rbegin(), kSlotsMax);
  EXPECT_TRUE(cleaner_.cleaned.empty());
}

TEST_F(SlotTableTest, AReleasedSlotIsGivenAgain) {
  SlotTable one = open();
  SlotTable two = open();
  const std::uint32_t slot = one.claim(cleaner_.call()).value();
  one.release(slot);
  EXPECT_EQ(two.claim(cleaner_.call()).value(), slot);
}

TEST_F(SlotTableTest, WhatAKilledLauncherLeftIsCleanedBeforeTheSlotIsUsed) {
  const std::uint32_t slot = leave_behind(id_of('a'));
  SlotTable next = open();
  EXPECT_EQ(next.claim(cleaner_.call()).value(), slot);
  EXPECT_EQ(cleaner_.cleaned, std::vector<std::string>{id_of('a').str()});
  // Once: the record is empty now.
  next.release(slot);
  EXPECT_EQ(open().claim(cleaner_.call()).value(), slot);
  EXPECT_EQ(cleaner_.cleaned.size(), 1U);
}

TEST_F(SlotTableTest, WhatCannotBeCleanedKeepsItsSlotAndOthersAreStillGiven) {
  const std::uint32_t slot = leave_behind(id_of('a'));
  cleaner_.works = false;
  {
    SlotTable next = open();
    const auto claimed = next.claim(cleaner_.call());
    ASSERT_TRUE(claimed) << claimed.error().message;
    EXPECT_NE(*claimed, slot);
  }
  EXPECT_FALSE(cleaner_.cleaned.empty());
  // It stays on record until somebody can.
  cleaner_ = {};
  EXPECT_EQ(open().claim(cleaner_.call()).value(), slot);
  EXPECT_EQ(cleaner_.cleaned, std::vector<std::string>{id_of('a').str()});
}

TEST_F(SlotTableTest, TheSlotOfALivingLauncherIsNobodysToClean) {
  SlotTable alive = open();
  const std::uint32_t slot = alive.claim(cleaner_.call()).value();
  ASSERT_TRUE(alive.name(slot, id_of('a')));
  SlotTable other = open();
  EXPECT_NE(other.claim(cleaner_.call()).value(), slot);
  EXPECT_TRUE(other.sweep(cleaner_.call()));
  EXPECT_TRUE(alive.sweep(cleaner_.call()));
  EXPECT_TRUE(cleaner_.cleaned.empty());
}

TEST_F(SlotTableTest, AClearedRecordLeavesNothingToClean) {
  {
    SlotTable table = open();
    const std::uint32_t slot = table.claim(cleaner_.call()).value();
    ASSERT_TRUE(table.name(slot, id_of('a')));
    ASSERT_TRUE(table.clear(slot));
  }
  EXPECT_TRUE(open().sweep(cleaner_.call()));
  EXPECT_TRUE(open().claim(cleaner_.call()));
  EXPECT_TRUE(cleaner_.cleaned.empty());
}

TEST_F(SlotTableTest, SweepCleansEveryRecordAndLocksNone) {
  {
    SlotTable killed = open();
    for (const char letter : {'a', 'b', 'c'})
      ASSERT_TRUE(killed.name(killed.claim(cleaner_.call()).value(), id_of(letter)));
  }
  ASSERT_TRUE(open().sweep(cleaner_.call()));
  EXPECT_EQ(cleaner_.cleaned.size(), 3U);
  ASSERT_TRUE(open().sweep(cleaner_.call()));
  EXPECT_EQ(cleaner_.cleaned.size(), 3U);
  EXPECT_EQ(open().claim(cleaner_.call()).value(), 0U);
}

TEST_F(SlotTableTest, SweepKeepsOnRecordWhatItCannotClean) {
  leave_behind(id_of('a'));
  cleaner_.works = false;
  EXPECT_TRUE(open().sweep(cleaner_.call()));
  cleaner_ = {};
  EXPECT_TRUE(open().sweep(cleaner_.call()));
  EXPECT_EQ(cleaner_.cleaned, std::vector<std::string>{id_of('a').str()});
}

// A name that is no id was not written by us: it names nothing that anyone should remove.
TEST_F(SlotTableTest, GarbageInTheTableNeverReachesTheCleanUp) {
  std::string garbage;
  for (const char* name : {"../../etc", "ABC", "/", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    std::string record(name);
    record.resize(32, '\0');
    garbage += record;
  }
  dir_.write("slots", garbage + "cut");
  SlotTable table = open();
  EXPECT_EQ(table.claim(cleaner_.call()).value(), 0U);
  EXPECT_TRUE(table.sweep(cleaner_.call()));
  EXPECT_TRUE(cleaner_.cleaned.empty());
}

TEST_F(SlotTableTest, ALinkInItsPlaceIsNotFollowed) {
  dir_.write("victim", "untouched");
  dir_.link("victim", "slots");
  EXPECT_FALSE(SlotTable::open(dir_.fd()));
  EXPECT_EQ(dir_.read("victim"), "untouched");
}

// Every id inside has one behind it, no two the same, all within the 65536; and map() agrees.
void expect_bijection(const IdPlan& plan, std::uint32_t first, std::uint32_t tenant) {
  std::vector<bool> seen(kIdsPerSlot, false);
  for (std::uint32_t inside = 0; inside < kIdsPerSlot; ++inside) {
    const std::uint32_t behind = plan.host_uid(inside);
    ASSERT_GE(behind, first);
    ASSERT_LT(behind, first + kIdsPerSlot);
    ASSERT_FALSE(seen[behind - first]) << tenant << ": " << inside;
    seen[behind - first] = true;
  }
  std::uint64_t mapped = 0;
  for (const sys::IdMapping& part : plan.users()) {
    EXPECT_GT(part.count, 0U);
    mapped += part.count;
    for (const std::uint32_t at : {0U, part.count / 2, part.count - 1})
      EXPECT_EQ(plan.host_uid(part.inside + at), part.outside + at);
  }
  EXPECT_EQ(mapped, kIdsPerSlot);
}

TEST(IdPlan, EverySlotIsApartFromTheHostTheStoreAndTheOthers) {
  for (const std::uint32_t index : {0U, 1U, kSlotsMax - 1}) {
    IdPlan plan;
    plan.base = kSlotBase + index * kIdsPerSlot;
    expect_bijection(plan, plan.base, index);
    EXPECT_GE(plan.host_uid(0), kStoreBase + kIdsPerSlot);
    EXPECT_LT(std::uint64_t{plan.base} + kIdsPerSlot, std::uint64_t{1} << 31U);
    EXPECT_FALSE(plan.single());
  }
}

TEST(IdPlan, WithSubIdsTheTenantIsTheCallerAndNobodyElseIs) {
  for (const std::uint32_t tenant : {0U, 1U, 1000U, 65'534U}) {
    IdPlan plan;
    plan.kind = IdPlan::Kind::SubIds;
    plan.tenant_uid = tenant;
    plan.tenant_gid = 7;
    EXPECT_EQ(plan.host_uid(tenant), 0U);
    EXPECT_EQ(plan.host_gid(7), 0U);
    EXPECT_NE(plan.host_uid(kInitId), 0U);
    expect_bijection(plan, 0, tenant);
  }
}

TEST(IdPlan, ASingleIdIsMappedOnce) {
  for (const std::uint32_t tenant : {0U, 1000U, 65'534U}) {
    IdPlan plan;
    plan.kind = IdPlan::Kind::Single;
    plan.tenant_uid = tenant;
    plan.tenant_gid = 5;
    EXPECT_TRUE(plan.single());
    EXPECT_EQ(plan.users(), (sys::IdMap{{tenant, 0, 1}}));
    EXPECT_EQ(plan.groups(), (sys::IdMap{{5, 0, 1}}));
    EXPECT_EQ(plan.host_uid(tenant), 0U);
  }
}

// The kernel refuses a map whose parts overlap on either side, or an empty part.
void expect_valid_map(const sys::IdMap& map, std::uint32_t base) {
  std::set<std::uint32_t> inside;
  std::set<std::uint32_t> outside;
  for (const sys::IdMapping& part : map) {
    EXPECT_GT(part.count, 0U);
    for (std::uint32_t i = 0; i < part.count; ++i) {
      EXPECT_TRUE(inside.insert(part.inside + i).second) << part.inside + i;
      EXPECT_TRUE(outside.insert(part.outside + i).second) << part.outside + i;
    }
  }
  EXPECT_EQ(outside.size(), kIdsPerSlot);
  EXPECT_EQ(*outside.begin(), base);
  EXPECT_EQ(*outside.rbegin(), base + kIdsPerSlot - 1);
}

TEST(StoreMap, TheOwnerTakesTheTenantsPlaceAndNoOther) {
  IdPlan plan;
  plan.base = kSlotBase + 3 * kIdsPerSlot;
  EXPECT_EQ(store_map(plan, std::nullopt, 0), (sys::IdMap{{kStoreBase, plan.base, kIdsPerSlot}}));
  for (const std::uint32_t tenant : {0U, 1U, 1000U, 65'534U}) {
    const sys::IdMap map = store_map(plan, 501, tenant);
    expect_valid_map(map, plan.base);
    EXPECT_NE(std::ranges::find(map, sys::IdMapping{501, plan.base + tenant, 1}), map.end());
  }
}

TEST(StoreMap, DoesNotFitWhenItWouldHideTheStoresOwnFiles) {
  const FolderOwner usual{.uid = 501, .gid = 20, .tenant_uid = 1000, .tenant_gid = 1000};
  EXPECT_TRUE(fits_store_map(usual));
  FolderOwner owner = usual;
  owner.uid = kStoreBase;
  EXPECT_FALSE(fits_store_map(owner));
  owner = usual;
  owner.gid = kStoreBase + 5;
  EXPECT_FALSE(fits_store_map(owner));
  owner = usual;
  owner.tenant_uid = 0;
  EXPECT_FALSE(fits_store_map(owner));
  owner = usual;
  owner.tenant_gid = 0;
  EXPECT_FALSE(fits_store_map(owner));
}

}  // namespace
}  // namespace caisson::engine::native
