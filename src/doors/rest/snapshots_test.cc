// Snapshots, forks, undo, diff, merge, volumes over HTTP.
#include <gtest/gtest.h>

#include "doors/rest/fakes_test.h"

namespace caisson::rest {
namespace {

using fake::error_of;
using fake::House;
using fake::kForeignId;
using fake::kId;
using fake::kSnapshotId;
using fake::sandbox_path;
using http::Method;

std::unique_ptr<fake::Exchange> post(House& house, std::string_view below, std::string body) {
  return house.ask({.method = Method::Post, .path = sandbox_path(below), .body = std::move(body)});
}

TEST(Snapshots, AreTakenNamedListedRemoved) {
  House house;
  auto answer = post(house, "/snapshots", R"({"name":"good","labels":{"a":"b"}})");
  EXPECT_EQ(answer->code, 201U) << answer->body;
  EXPECT_EQ(answer->field("Location"), "/api/v1/snapshots/" + kSnapshotId);
  EXPECT_EQ(boost::json::parse(answer->body).at("kind"), "cow");
  EXPECT_EQ(house.fleet.snapshot_wish.labels.at("a"), "b");
  EXPECT_EQ(post(house, "/snapshots", "")->code, 201U);
  EXPECT_EQ(post(house, "/snapshots", R"({"title":"x"})")->code, 400U);
  EXPECT_EQ(house.ask({.path = "/api/v1/snapshots"})->code, 200U);
  EXPECT_EQ(house.ask({.path = "/api/v1/snapshots/good"})->code, 200U);
  EXPECT_EQ(house.ask({.path = "/api/v1/snapshots/bad"})->code, 404U);
  answer = house.ask({.method = Method::Delete, .path = "/api/v1/snapshots/good"});
  EXPECT_EQ(answer->code, 204U);
  EXPECT_EQ(house.fleet.calls.back(), "remove_snapshot " + kSnapshotId);
}

TEST(Snapshots, OfASandboxThatNeverWasAreNotFound) {
  House house;
  EXPECT_EQ(house.ask({.path = sandbox_path("/snapshots")})->code, 200U);
  EXPECT_EQ(house.ask({.path = "/api/v1/sandboxes/" + kForeignId + "/snapshots"})->code, 404U);
  house.fleet.has_snapshots = false;
  EXPECT_EQ(house.ask({.path = sandbox_path("/snapshots")})->body, "{\"snapshots\": []}\n");
}

TEST(Forks, AreCreated) {
  House house;
  const auto answer = post(house, "/fork", R"({"name":"try","hostname":"h","memory":false})");
  EXPECT_EQ(answer->code, 201U) << answer->body;
  EXPECT_EQ(answer->field("Location"), "/api/v1/sandboxes/" + kId);
  EXPECT_EQ(house.fleet.forked.hostname, "h");
  EXPECT_EQ(post(house, "/fork", R"({"image":"x"})")->code, 400U);
  house.fleet.fails = Error{Errc::Unsupported, "memory: the tier native cannot", 0, "memory"};
  EXPECT_EQ(post(house, "/fork", R"({"memory":true})")->code, 501U);
}

TEST(Undo, GoesBackOverCallsOrToASnapshot) {
  House house;
  EXPECT_EQ(post(house, "/undo", "")->code, 200U);
  EXPECT_EQ(house.fleet.undone.calls, 1U);
  EXPECT_FALSE(house.fleet.undone.end_processes);
  EXPECT_EQ(post(house, "/undo", R"({"snapshot":"good","end_processes":true})")->code, 200U);
  EXPECT_EQ(house.fleet.undone.snapshot, kSnapshotId);
  EXPECT_FALSE(house.fleet.undone.calls);
  EXPECT_TRUE(house.fleet.undone.end_processes);
  const std::pair<std::string, std::string_view> table[] = {
      {R"({"calls":0})", "calls"},
      {R"({"calls":33})", "calls"},
      {R"({"calls":1,"snapshot":"good"})", "calls"},
      {R"({"snapshot":""})", "snapshot"},
      {R"({"steps":1})", "steps"},
  };
  for (const auto& [body, field] : table) {
    const auto answer = post(house, "/undo", body);
    EXPECT_EQ(answer->code, 400U) << body;
    EXPECT_EQ(std::string(error_of(*answer).at("details").at("field").as_string()), field)
        << answer->body;
  }
}

TEST(Diff, KnowsStatesByManyWords) {
  House house;
  const std::string box = "sandbox:" + kId;
  const std::string kept = "snapshot:" + kSnapshotId;
  const std::pair<std::string, std::string> table[] = {
      {kId, box},
      {box, box},
      {kSnapshotId, kept},
      {"good", kept},
      {"snapshot:good", kept},
      {"snapshot:unknown", "snapshot:unknown"},  // control says that it is not there
      {"image:python:3.12", "image:python:3.12"},
  };
  for (const auto& [word, full] : table) {
    const auto answer = house.ask({.path = "/api/v1/diff", .query = "from=" + word + "&to=" + box});
    EXPECT_EQ(answer->code, 200U) << answer->body;
    EXPECT_EQ(house.fleet.calls.back(), "diff " + full + " " + box + " /");
  }
}

TEST(Diff, RefusesWhatIsNoState) {
  House house;
  const std::string box = "&to=sandbox:" + kId;
  const std::pair<std::string, unsigned> table[] = {
      {"from=" + box, 400},
      {"from=sandbox:" + box, 400},
      {"from=folder:x" + box, 400},
      {"from=nobody" + box, 400},
      {"from=image:" + std::string(600, 'x') + box, 400},
      {"from=" + kForeignId + box, 404},
      {"from=sandbox:" + kForeignId + box, 404},
      {"from=" + kId, 400},
      {"from=" + kId + box + "&path=workspace", 400},
      {"from=" + kId + box + "&path=/../etc", 403},
      {"from=" + kId + box + "&format=html", 400},
  };
  for (const auto& [query, code] : table) {
    EXPECT_EQ(house.ask({.path = "/api/v1/diff", .query = query})->code, code) << query;
  }
  EXPECT_TRUE(house.fleet.calls.empty());
}

TEST(Diff, ListsOrPatches) {
  House house;
  house.fleet.changes.changes = {{control::ChangeKind::Added, "/a\n", 0100644, 3},
                                 {control::ChangeKind::TypeChanged, "/b\xff", 0755, 0}};
  house.fleet.changes.truncated = true;
  const std::string query = "from=good&to=" + kId + "&path=/workspace";
  const auto list = house.ask({.path = "/api/v1/diff", .query = query});
  const auto value = boost::json::parse(list->body);
  EXPECT_EQ(value.at("truncated"), true);
  EXPECT_EQ(value.at("changes").at(0).at("kind"), "added");
  EXPECT_EQ(value.at("changes").at(0).at("mode"), "0644");
  EXPECT_EQ(value.at("changes").at(1).at("kind"), "type_changed");
  const auto patch = house.ask({.path = "/api/v1/diff", .query = query + "&format=patch"});
  EXPECT_EQ(patch->type, "text/x-diff");
  EXPECT_EQ(patch->body, "diff --git a/x b/x\n");
  EXPECT_EQ(house.fleet.calls.back(),
            "patch snapshot:" + kSnapshotId + " sandbox:" + kId + " /workspace");
}

TEST(Merge, ConflictsAreListedAndNothingIsApplied) {
  House house;
  house.fleet.merged.base = "snapshot:x";
  house.fleet.merged.applied = {{control::ChangeKind::Modified, "/a", 0644, 3}};
  auto answer = post(house, "/merge", R"({"from":"good","end_processes":true})");
  EXPECT_EQ(answer->code, 200U) << answer->body;
  EXPECT_EQ(house.fleet.calls.back(), "merge snapshot:" + kSnapshotId + " end");
  EXPECT_EQ(boost::json::parse(answer->body).at("applied").as_array().size(), 1U);
  house.fleet.merged.conflicts.assign(1001, "/b");
  answer = post(house, "/merge", R"({"from":"good"})");
  EXPECT_EQ(answer->code, 409U);
  const auto error = error_of(*answer);
  EXPECT_EQ(error.at("code"), "Conflict");
  EXPECT_EQ(error.at("message"), "1001 files were changed on both sides; nothing was applied");
  EXPECT_EQ(error.at("details").at("conflicts").as_array().size(), 1000U);
  EXPECT_EQ(error.at("details").at("conflicts_total"), 1001);
  EXPECT_EQ(post(house, "/merge", "{}")->code, 400U);
  EXPECT_EQ(post(house, "/merge", R"({"from":"nobody"})")->code, 400U);
}

TEST(Volumes, AreMadeListedRemoved) {
  House house;
  const auto put = [&](std::string name, std::string body) {
    return house.ask(
        {.method = Method::Put, .path = "/api/v1/volumes/" + name, .body = std::move(body)});
  };
  EXPECT_EQ(put("cache", R"({"bytes":1048576})")->code, 200U);
  EXPECT_EQ(house.fleet.calls.back(), "volume cache 1048576");
  for (const std::string body : {"{}", R"({"bytes":1048575})", R"({"bytes":"1G"})",
                                 R"({"bytes":17592186044417})", R"({"size":1048576})"}) {
    EXPECT_EQ(put("cache", body)->code, 400U) << body;
  }
  EXPECT_EQ(put(std::string(41, 'a'), R"({"bytes":1048576})")->code, 400U);
  EXPECT_EQ(house.fleet.calls.size(), 1U);
  const auto list = house.ask({.path = "/api/v1/volumes"});
  const auto volume = boost::json::parse(list->body).at("volumes").at(0);
  EXPECT_EQ(std::string(volume.at("sandboxes").at(0).as_string()), kId);
  EXPECT_EQ(house.ask({.method = Method::Delete, .path = "/api/v1/volumes/cache"})->code, 204U);
  const auto facts = house.ask({.path = "/api/v1/storage"});
  EXPECT_EQ(boost::json::parse(facts->body).at("why"), "mkfs.btrfs is missing");
}

TEST(Persistence, StopAndStartTakeNoFields) {
  House house;
  for (const std::string_view verb : {"/stop", "/start"}) {
    EXPECT_EQ(post(house, verb, "")->code, 200U);
    EXPECT_EQ(post(house, verb, "{}")->code, 200U);
    EXPECT_EQ(post(house, verb, R"({"now":true})")->code, 400U);
  }
}

}  // namespace
}  // namespace caisson::rest
