// Images over HTTP: what is refused, how progress is told, and that bodies go through whole.
#include <gtest/gtest.h>

#include "doors/rest/fakes_test.h"
#include "doors/rest/upload.h"

namespace caisson::rest {
namespace {

using fake::error_of;
using fake::Exchange;
using fake::FileStateFleet;
using fake::House;
using fake::kImage;
using http::Method;

fake::Ask pull(std::string body, std::string query = "") {
  return {.method = Method::Post,
          .path = "/api/v1/images/pull",
          .query = std::move(query),
          .body = std::move(body)};
}

TEST(Images, APullNamesWhatIsWrong) {
  House house;
  const std::pair<std::string, std::string_view> table[] = {
      {R"({})", "reference"},
      {R"({"reference":""})", "reference"},
      {R"({"reference":")" + std::string(513, 'a') + R"("})", "reference"},
      {R"({"reference":"a","platform":1})", "platform"},
      {R"({"reference":"a","username":"u"})", "password"},
      {R"({"reference":"a","password":"p"})", "username"},
      {R"({"reference":"a","tag":"b"})", "tag"},
      {R"({"reference":"a","refresh":"no"})", "refresh"},
  };
  for (const auto& [body, field] : table) {
    const auto answer = house.ask(pull(body));
    EXPECT_EQ(answer->code, 400U) << body;
    EXPECT_EQ(std::string(error_of(*answer).at("details").at("field").as_string()), field)
        << answer->body;
  }
  EXPECT_EQ(house.ask(pull(R"({"reference":"a"})", "stream=yes"))->code, 400U);
  EXPECT_TRUE(house.fleet.calls.empty());
}

TEST(Images, APullAnswersWithTheImage) {
  House house;
  house.fleet.pull_items.emplace_back(control::ImageProgress{"resolve", "", 0, 0});
  house.fleet.pull_items.emplace_back(FileStateFleet::image_view());
  const auto answer =
      house.ask(pull(R"({"reference":"python","username":"u","password":"p","refresh":false})"));
  ASSERT_EQ(answer->code, 200U) << answer->body;
  EXPECT_EQ(std::string(boost::json::parse(answer->body).at("reference").as_string()), kImage);
  EXPECT_EQ(house.fleet.pulled.password, "p");
  EXPECT_FALSE(house.fleet.pulled.refresh);
  EXPECT_EQ(answer->body.find('\x1b'), std::string::npos);
}

TEST(Images, ALyingRegistryIsABadGateway) {
  House house;
  const auto answer = house.ask(pull(R"({"reference":"python"})"));
  EXPECT_EQ(answer->code, 502U);
  EXPECT_EQ(error_of(*answer).at("code"), "Protocol");
}

TEST(Images, ProgressComesAsEvents) {
  House house;
  house.fleet.pull_items.emplace_back(control::ImageProgress{"download", "sha256:ab\n\n", 5, 10});
  house.fleet.pull_items.emplace_back(FileStateFleet::image_view());
  for (const std::string query : {"stream=true", "stream=sse"}) {
    const auto answer = house.ask(pull(R"({"reference":"python"})", query));
    EXPECT_EQ(answer->type, "text/event-stream");
    EXPECT_TRUE(answer->ended);
    EXPECT_TRUE(answer->body.starts_with(
        "retry: 2000\n\nevent: progress\ndata: {\"stage\":\"download\",\"layer\":"
        "\"sha256:ab\\n\\n\",\"done\":5,\"total\":10}\n\nevent: image\ndata: {\"reference\""))
        << answer->body;
  }
  house.fleet.pull_items.clear();
  const auto answer = house.ask(pull(R"({"reference":"python"})", "stream=true"));
  EXPECT_NE(answer->body.find("event: error\ndata: {\"error\": {\"code\": \"Protocol\""),
            std::string::npos);
  house.fleet.fails = Error{Errc::InvalidArgument, "reference is no reference", 0, "reference"};
  EXPECT_EQ(house.ask(pull(R"({"reference":"python"})", "stream=true"))->code, 400U);
}

TEST(Images, WhoHangsUpGivesThePullUp) {
  for (const std::string query : {"", "stream=true"}) {
    House house;
    house.fleet.pull_ends = false;
    Exchange exchange;
    House::fill(exchange, pull(R"({"reference":"python"})", query));
    exchange.hangs_up = true;
    house.run(exchange);
    EXPECT_FALSE(exchange.ended && exchange.code == 200U) << query;
    EXPECT_TRUE(exchange.closing);
    EXPECT_TRUE(house.fleet.pull_dropped) << query;
  }
}

TEST(Images, AnImportTakesAnySize) {
  House house;
  const std::string tar(3 * kUploadPieceBytes + 17, 't');
  const auto answer = house.ask({.method = Method::Post,
                                 .path = "/api/v1/images/import",
                                 .query = "reference=mine%3A1&pick=other",
                                 .body = tar,
                                 .json = false});
  EXPECT_EQ(answer->code, 201U) << answer->body;
  EXPECT_EQ(house.fleet.imported, tar);
  EXPECT_EQ(house.fleet.calls.back(), "import mine:1 other");
}

TEST(Images, AnImportWantsANameAndABody) {
  House house;
  const auto import = [&](std::string query, std::string body) {
    const auto answer = house.ask({.method = Method::Post,
                                   .path = "/api/v1/images/import",
                                   .query = std::move(query),
                                   .body = std::move(body),
                                   .json = false});
    return answer->code;
  };
  EXPECT_EQ(import("", "tar"), 400U);
  EXPECT_EQ(import("reference=", "tar"), 400U);
  EXPECT_EQ(import("reference=a&pick=", "tar"), 400U);
  EXPECT_EQ(import("reference=" + std::string(513, 'a'), "tar"), 400U);
  EXPECT_EQ(import("reference=a", ""), 400U);
  EXPECT_TRUE(house.fleet.calls.empty());
  house.fleet.fails = Error{Errc::Exhausted, "1000 images are the most", 0, {}};
  EXPECT_EQ(import("reference=a", "tar"), 429U);
}

TEST(Images, LookExportRemove) {
  House house;
  const auto images = house.ask({.path = "/api/v1/images"});
  EXPECT_EQ(boost::json::parse(images->body).at("images").as_array().size(), 1U);
  EXPECT_EQ(house.ask({.path = "/api/v1/images/inspect", .query = "reference=" + kImage})->code,
            200U);
  EXPECT_EQ(house.ask({.path = "/api/v1/images/inspect", .query = "reference=x"})->code, 404U);
  EXPECT_EQ(house.ask({.path = "/api/v1/images/inspect"})->code, 400U);
  const auto tar = house.ask({.path = "/api/v1/images/export", .query = "reference=" + kImage});
  EXPECT_EQ(tar->type, "application/x-tar");
  EXPECT_EQ(tar->body, "layout bytes");
  EXPECT_EQ(tar->field("Content-Disposition"), "attachment; filename*=UTF-8''python%3A3.12.tar");
  const auto gone = house.ask(
      {.method = Method::Delete, .path = "/api/v1/images", .query = "reference=" + kImage});
  EXPECT_EQ(gone->code, 204U);
  EXPECT_EQ(house.fleet.calls.back(), "remove_image " + kImage);
  const auto garbage = house.ask({.method = Method::Post, .path = "/api/v1/images/gc"});
  EXPECT_EQ(boost::json::parse(garbage->body).at("layers"), 2);
}

TEST(Images, ABuildNamesItsSnapshot) {
  House house;
  const auto build = [&](std::string body) {
    return house.ask(
        {.method = Method::Post, .path = "/api/v1/images/build", .body = std::move(body)});
  };
  const auto answer = build(
      R"({"reference":"a:1","snapshot":"good","command":["sh"],"workdir":"/w","labels":{"a":"b"}})");
  EXPECT_EQ(answer->code, 201U) << answer->body;
  EXPECT_EQ(house.fleet.calls.back(), "build a:1 " + fake::kSnapshotId);
  EXPECT_EQ(house.fleet.built.command, std::vector<std::string>{"sh"});
  EXPECT_FALSE(house.fleet.built.entrypoint);
  EXPECT_EQ(build(R"({"reference":"a:1"})")->code, 400U);
  EXPECT_EQ(build(R"({"reference":"a:1","snapshot":"good","workdir":"w"})")->code, 400U);
  EXPECT_EQ(build(R"({"reference":"a:1","snapshot":"good","workdir":"/../w"})")->code, 403U);
  EXPECT_EQ(build(R"({"reference":"a:1","snapshot":"good","command":"sh"})")->code, 400U);
}

}  // namespace
}  // namespace caisson::rest
