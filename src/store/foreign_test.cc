// A database of somebody else: read, and nothing else happens.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "store/forger_test.h"
#include "store/sqlite.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

constexpr ForeignLimits kLimits{
    .value_bytes_max = 100'000, .memory_bytes_max = 64 << 20, .time_max = seconds(20)};

class ForeignTest : public testing::Test {
 protected:
  void make(const std::string& sql) {
    dir_.write("old.db", "");
    Forger(dir_.path("old.db")).must(sql);
  }
  Result<std::int64_t> ask(const std::string& sql, const ForeignLimits& limits = kLimits) {
    Database database = TRY(Database::open_foreign(dir_.path("old.db"), limits));
    return database.integer(sql);
  }
  std::string refused(const std::string& sql, const ForeignLimits& limits = kLimits) {
    const auto got = ask(sql, limits);
    return got ? "accepted" : got.error().message;
  }

  sys::TempDir dir_;
};

TEST_F(ForeignTest, ItIsNotWritten) {
  make("CREATE TABLE t (a)");
  EXPECT_NE(refused("INSERT INTO t VALUES (1)"), "accepted");
  EXPECT_NE(refused("ATTACH ':memory:' AS other"), "accepted");
  EXPECT_EQ(ask("SELECT count(*) FROM t").value(), 0);
}

TEST_F(ForeignTest, ItsViewsAndTriggersDoNotRun) {
  make("CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t");
  EXPECT_NE(refused("SELECT count(*) FROM v").find("view"), std::string::npos);
}

TEST_F(ForeignTest, AHugeValueIsAnError) {
  make("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(200000)), (zeroblob(1000))");
  EXPECT_NE(refused("SELECT max(hex(a)) FROM t").find("too big"), std::string::npos);
}

TEST_F(ForeignTest, WhatTakesTooLongIsInterrupted) {
  make("CREATE TABLE t (a); INSERT INTO t VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9)");
  ForeignLimits none = kLimits;
  none.time_max = seconds(0);
  EXPECT_NE(refused("SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h", none)
                .find("interrupted"),
            std::string::npos);
}

TEST_F(ForeignTest, WhatIsNoDatabaseIsSaid) {
  dir_.write("old.db", std::string(4096, 'x'));
  EXPECT_NE(refused("SELECT 1 FROM sqlite_schema").find("not a database"), std::string::npos);
  EXPECT_FALSE(Database::open_foreign(dir_.path("none.db"), kLimits));
}

TEST_F(ForeignTest, EveryPathIsAPath) {
  for (const char* name : {"a b.db", "a?mode=rw.db", "a#b.db", "100%41.db", "\xC3\xA9.db"}) {
    dir_.write(name, "");
    Forger(dir_.path(name)).must("CREATE TABLE t (a); INSERT INTO t VALUES (7)");
    auto database = Database::open_foreign(dir_.path(name), kLimits);
    ASSERT_TRUE(database) << name;
    EXPECT_EQ(database->integer("SELECT a FROM t").value_or(-1), 7) << name;
  }
}

TEST_F(ForeignTest, TypesAreTold) {
  make("CREATE TABLE t (a, b, c, d, e); INSERT INTO t VALUES (1, 2.5, 'x', x'00', NULL)");
  auto database = Database::open_foreign(dir_.path("old.db"), kLimits);
  ASSERT_TRUE(database);
  auto select = database->prepare("SELECT a, b, c, d, e FROM t");
  ASSERT_TRUE(select && select->step().value());
  EXPECT_EQ(select->type(0), ColumnType::Integer);
  EXPECT_EQ(select->type(1), ColumnType::Real);
  EXPECT_EQ(select->real(1), 2.5);
  EXPECT_EQ(select->type(2), ColumnType::Text);
  EXPECT_EQ(select->type(3), ColumnType::Blob);
  EXPECT_EQ(select->type(4), ColumnType::Null);
}

}  // namespace
}  // namespace caisson::store
