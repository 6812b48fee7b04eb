#include "control/snapshot_tree.h"

#include <gtest/gtest.h>

#include "control/image_library.h"
#include "control/state_seal.h"
#include "control/volume_shelf.h"
#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

SnapshotRecord one(std::string id, std::string parent, std::vector<std::string> layers) {
  SnapshotRecord out;
  out.id = std::move(id);
  out.tenant = "red";
  out.sandbox = "box";
  out.parent = std::move(parent);
  out.stack.layers = std::move(layers);
  out.created = static_cast<store::WallTime>(out.stack.layers.size());
  return out;
}

SnapshotTree tree() {
  SnapshotTree out;
  out.put(one("a", "", {"1"}));
  out.put(one("b", "a", {"2", "1"}));
  out.put(one("c", "b", {"3", "2", "1"}));
  out.put(one("d", "a", {"4", "1"}));
  return out;
}

TEST(SnapshotTree, OneInTheMiddleCanGo) {
  SnapshotTree all = tree();
  const auto changed = all.remove("b");
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].id, "c");
  EXPECT_EQ(all.find("c")->parent, "a");
  EXPECT_TRUE(all.layers().contains("2"));  // c lists it itself
  EXPECT_TRUE(all.remove("b").empty());
}

TEST(SnapshotTree, ChainsMeetInTheirNearestAncestor) {
  SnapshotTree all = tree();
  EXPECT_EQ(all.chain("c"), (std::vector<std::string>{"c", "b", "a"}));
  EXPECT_EQ(all.common("c", "d"), "a");
  EXPECT_EQ(all.common("c", "b"), "b");
  all.put(one("z", "", {}));
  EXPECT_EQ(all.common("c", "z"), std::nullopt);
  all.put(one("x", "y", {}));
  all.put(one("y", "x", {}));
  EXPECT_EQ(all.chain("x").size(), 2U);  // a circle ends
}

TEST(SnapshotTree, AnotherTenantSeesNothing) {
  SnapshotTree all = tree();
  all.find("a")->name = "first";
  EXPECT_NE(all.find("red", "first"), nullptr);
  EXPECT_EQ(all.find("blue", "first"), nullptr);
  EXPECT_EQ(all.find("blue", "a"), nullptr);
  EXPECT_EQ(all.find("red", ""), nullptr);
  EXPECT_TRUE(all.list("blue", std::nullopt).empty());
  EXPECT_EQ(all.list("red", "box").size(), 4U);
}

TEST(SnapshotTree, HiddenOnesGoWhenNobodyRefersToThem) {
  SnapshotTree all = tree();
  all.find("c")->hidden = all.find("d")->hidden = all.find("a")->hidden = true;
  EXPECT_EQ(all.forgotten({"d"}), (std::vector<std::string>{"c"}));
  EXPECT_EQ(all.list("red", std::nullopt).size(), 1U);
}

TEST(SnapshotTree, ARunOfLayersBecomesOneEverywhere) {
  SnapshotTree all = tree();
  const auto changed = all.replace_run({"2", "1"}, "f");
  EXPECT_EQ(changed.size(), 2U);
  EXPECT_EQ(all.find("c")->stack.layers, (std::vector<std::string>{"3", "f"}));
  EXPECT_EQ(all.find("d")->stack.layers, (std::vector<std::string>{"4", "1"}));
  EXPECT_EQ(shared_layers(all.find("c")->stack, all.find("b")->stack), 1U);
  EXPECT_EQ(shared_layers(all.find("c")->stack, all.find("d")->stack), 0U);
}

TEST(SnapshotTree, WhatMissesALayerIsBroken) {
  SnapshotTree all = tree();
  EXPECT_EQ(all.mark_broken({"1", "2", "3"}).size(), 1U);
  EXPECT_TRUE(all.find("d")->broken);
}

TEST(StateSeal, WhatWasChangedOrMovedIsRefused) {
  const sys::TempDir dir;
  const auto seal = StateSeal::open(dir.path("state.key"));
  ASSERT_TRUE(seal) << seal.error().message;
  const SnapshotRecord record = one("a", "p", {"1"});
  const auto sealed = seal->seal(record.key(), 7, to_json(record));
  const auto again = StateSeal::open(dir.path("state.key"));
  const auto body = again->unseal(sealed);
  ASSERT_TRUE(body) << body.error().message;
  const auto read = read_snapshot(sealed.key, 7, *body);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->stack, record.stack);
  EXPECT_EQ(read->parent, "p");
  for (std::size_t at = 0; at < sealed.spec.size(); ++at) {
    auto forged = sealed;
    forged.spec[at] = forged.spec[at] == '0' ? '1' : '0';
    EXPECT_FALSE(again->unseal(forged)) << at;
  }
  auto moved = sealed;
  moved.key.tenant = "blue";
  EXPECT_EQ(again->unseal(moved).error().code, Errc::Denied);
  const auto other = StateSeal::open("");
  EXPECT_FALSE(other->unseal(sealed));
}

TEST(Volumes, PlacesOfTheSandboxAreNoPlaceForOne) {
  for (const char* at : {"/", "/proc/x", "/dev", "/etc/y", "data", "/a/../b", ""}) {
    EXPECT_FALSE(check_volumes({{"data", at, false}})) << at;
  }
  EXPECT_TRUE(check_volumes({{"data", "/data", false}, {"more", "/workspace/more", true}}));
  EXPECT_FALSE(check_volumes({{"data", "/data", false}, {"more", "/data/more", true}}));
  EXPECT_FALSE(check_volumes({{"Data", "/data", false}}));
  EXPECT_FALSE(check_volumes({{"../x", "/data", false}}));
  EXPECT_FALSE(check_volumes(std::vector<VolumeUse>(kSandboxVolumesMax + 1, {"d", "/d", false})));
  EXPECT_NE(launcher_volume("red", "data"), launcher_volume("blue", "data"));
  EXPECT_TRUE(
      engine::check_store_name(launcher_volume("red", std::string(kVolumeNameMax, 'x')), "name"));
}

}  // namespace
}  // namespace caisson::control
