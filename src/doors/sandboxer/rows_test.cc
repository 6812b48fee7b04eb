#include "doors/sandboxer/rows.h"

#include <gtest/gtest.h>

namespace caisson::sandboxer {
namespace {

std::string id_of(int number) {
  std::string text = std::to_string(number);
  return std::string(kIdLength - text.size(), '0') + text;
}

RowPtr add(Rows& rows, int number, int parent = 0, bool living = true) {
  auto row = std::make_shared<Row>();
  row->id = id_of(number);
  row->name = "name" + std::to_string(number);
  row->tenant = "t";
  row->created = number;
  if (parent != 0) row->parent = id_of(parent);
  if (!living) row->deleted_at = number;
  rows.add(row);
  return row;
}

TEST(RowsTest, ARowComesBackAsItWas) {
  Row row;
  row.id = id_of(7);
  row.name = "abc";
  row.tenant = "t";
  row.label = "a \"label\" ü";
  row.image = "redis";
  row.hostname = "h";
  row.parent = id_of(3);
  row.interactive = true;
  row.is_public = true;
  row.command = {"redis-server", "--port", "1"};
  row.port = 6379;
  row.created = 5;
  row.last_active = 6;
  row.deleted_at = 9;
  row.delete_reason = "coalesced";
  row.process = 4;
  row.exit_code = 137;
  const auto read = row_of(listing_of(row));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(listing_of(*read).spec, listing_of(row).spec);
  EXPECT_EQ(read->tenant, "t");
  EXPECT_EQ(read->created, 5);
  EXPECT_EQ(read->command, row.command);
  EXPECT_EQ(read->exit_code, 137);
  EXPECT_FALSE(read->living());
}

TEST(RowsTest, ALivingRowHasNoEnd) {
  Row row;
  row.id = id_of(7);
  row.name = "abc";
  const auto read = row_of(listing_of(row));
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->living());
  EXPECT_FALSE(read->exit_code);
  EXPECT_EQ(read->parent_or_null(), std::nullopt);
}

TEST(RowsTest, ADamagedListingIsNoRow) {
  EXPECT_FALSE(row_of({"t", id_of(1), 0, "{"}));
  EXPECT_FALSE(row_of({"t", id_of(1), 0, "[]"}));
  EXPECT_FALSE(row_of({"t", id_of(1), 0, "{}"}));
  EXPECT_FALSE(row_of({"t", "short", 0, R"({"name":"a"})"}));
  EXPECT_TRUE(row_of({"t", id_of(1), 0, R"({"name":"a","port":"x","command":[1,"b"]})"}));
}

TEST(RowsTest, IdsAreSixtyFourSmallHexDigits) {
  const auto id = fresh_id();
  ASSERT_TRUE(id);
  EXPECT_TRUE(is_id(*id));
  EXPECT_NE(*id, *fresh_id());
  EXPECT_FALSE(is_id(std::string(64, 'A')));
  EXPECT_FALSE(is_id(std::string(63, 'a')));
}

TEST(RowsTest, RowsAreFoundByIdNameTenantAndParent) {
  Rows rows;
  const auto one = add(rows, 1);
  const auto two = add(rows, 2, 1);
  const auto three = add(rows, 3, 2, false);
  EXPECT_EQ(rows.by_id(id_of(2)), two);
  EXPECT_EQ(rows.by_name("name3"), three);
  EXPECT_EQ(rows.by_id("x"), nullptr);
  EXPECT_EQ(rows.of_tenant("t"), (std::vector<RowPtr>{one, two, three}));
  EXPECT_TRUE(rows.of_tenant("other").empty());
  EXPECT_EQ(rows.children(id_of(1)), std::vector<RowPtr>{two});
  EXPECT_EQ(rows.subtree(one, false).size(), 3U);
  EXPECT_EQ(rows.subtree(one, true).size(), 2U);
  rows.set_parent(two, "");
  EXPECT_TRUE(rows.children(id_of(1)).empty());
  EXPECT_EQ(rows.subtree(one, false).size(), 1U);
  rows.remove(two);
  EXPECT_EQ(rows.count("t"), 2U);
}

// As a hostile database of another installation may say.
TEST(RowsTest, AChildOfAnotherTenantIsNone) {
  Rows rows;
  const auto one = add(rows, 1);
  auto foreign = std::make_shared<Row>();
  foreign->id = id_of(2);
  foreign->name = "name2";
  foreign->tenant = "other";
  foreign->parent = id_of(1);
  rows.add(foreign);
  EXPECT_TRUE(rows.children(id_of(1)).empty());
  EXPECT_EQ(rows.subtree(one, false), std::vector<RowPtr>{one});
}

TEST(RowsTest, TheOldestDeadOneIsForgottenFirst) {
  Rows rows;
  add(rows, 1, 0, false);
  add(rows, 2, 0, false);
  EXPECT_EQ(rows.forgettable("t")->id, id_of(1));
}

TEST(RowsTest, WhatHasSomethingLivingBelowItIsKept) {
  Rows rows;
  add(rows, 1, 0, false);
  add(rows, 2, 1, false);
  add(rows, 3, 2, true);
  EXPECT_EQ(rows.forgettable("t"), nullptr);
  add(rows, 4, 2, false);
  EXPECT_EQ(rows.forgettable("t")->id, id_of(4));
  EXPECT_EQ(rows.forgettable("other"), nullptr);
}

}  // namespace
}  // namespace caisson::sandboxer
