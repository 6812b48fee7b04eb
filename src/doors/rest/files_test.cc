// Files over HTTP: ranges, conditions, names, and nothing that a browser would run.
#include <gtest/gtest.h>

#include "doors/rest/fakes_test.h"

namespace caisson::rest {
namespace {

using fake::error_of;
using fake::House;
using fake::sandbox_path;
using http::Method;

TEST(Files, ADownloadIsAnAttachment) {
  House house;
  const auto answer = house.ask({.path = sandbox_path("/files/a%20b.html")});
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(answer->body, "hello world");
  EXPECT_EQ(answer->length, 11U);
  EXPECT_TRUE(answer->ended);
  EXPECT_EQ(answer->type, "application/octet-stream");
  EXPECT_EQ(answer->field("Content-Disposition"), "attachment; filename*=UTF-8''a%20b.html");
  EXPECT_EQ(answer->field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(answer->field("ETag"), house.fleet.etag);
  EXPECT_EQ(house.fleet.calls.back(), "read a b.html");
}

TEST(Files, Ranges) {
  House house;
  const auto range = [&](std::string value, std::vector<http::Field> more = {}) {
    more.push_back({"Range", std::move(value)});
    return house.ask({.path = sandbox_path("/files/a"), .fields = std::move(more)});
  };
  auto answer = range("bytes=6-");
  EXPECT_EQ(answer->code, 206U);
  EXPECT_EQ(answer->body, "world");
  EXPECT_EQ(answer->field("Content-Range"), "bytes 6-10/11");
  answer = range("bytes=-1");
  EXPECT_EQ(answer->body, "d");
  answer = range("bytes=11-");
  EXPECT_EQ(answer->code, 416U);
  EXPECT_EQ(answer->field("Content-Range"), "bytes */11");
  EXPECT_EQ(error_of(*answer).at("code"), "RangeNotSatisfiable");
  EXPECT_EQ(range("bytes=0-1,4-5")->code, 200U);
  EXPECT_EQ(range("bytes=0-1", {{"If-Range", "\"old\""}})->code, 200U);
  EXPECT_EQ(range("bytes=0-1", {{"If-Range", house.fleet.etag}})->code, 206U);
}

TEST(Files, HeadAndConditions) {
  House house;
  auto answer = house.ask({.method = Method::Head, .path = sandbox_path("/files/a")});
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(answer->length, 11U);
  EXPECT_EQ(answer->body, "");
  answer = house.ask(
      {.path = sandbox_path("/files/a"), .fields = {{"If-None-Match", house.fleet.etag}}});
  EXPECT_EQ(answer->code, 304U);
  EXPECT_EQ(answer->body, "");
  house.fleet.file_type = wire::EntryType::Folder;
  EXPECT_EQ(house.ask({.path = sandbox_path("/files/a")})->code, 400U);
  house.fleet.file_type = wire::EntryType::Fifo;
  EXPECT_EQ(house.ask({.path = sandbox_path("/files/a")})->code, 400U);
}

TEST(Files, APathCannotLeadOut) {
  House house;
  for (const std::string path :
       {"..", "../etc/passwd", "a/../../b", "%2e%2e/x", "a%2f..%2fb", "/..", "a/.."}) {
    for (const std::string route : {"/files/", "/stat/", "/list/", "/watch/", "/archive/"}) {
      const auto answer = house.ask({.path = sandbox_path(route + path)});
      EXPECT_EQ(answer->code, 403U) << route << path;
      EXPECT_EQ(error_of(*answer).at("code"), "Denied");
      EXPECT_EQ(error_of(*answer).at("details").at("field"), "path");
    }
  }
  EXPECT_EQ(house.ask({.path = sandbox_path("/files/" + std::string(4097, 'a'))})->code, 400U);
  EXPECT_EQ(house
                .ask({.method = Method::Post,
                      .path = sandbox_path("/move"),
                      .body = R"({"from":"a","to":"../b"})"})
                ->code,
            403U);
  EXPECT_EQ(house
                .ask({.method = Method::Post,
                      .path = sandbox_path("/mkdir"),
                      .body = R"({"path":"a\u0000b"})"})
                ->code,
            400U);
  EXPECT_TRUE(house.fleet.calls.empty());
  EXPECT_EQ(house.ask({.path = sandbox_path("/files/..a/b..")})->code, 200U);
}

TEST(Files, Uploads) {
  House house;
  const auto put = [&](std::string query, std::vector<http::Field> fields) {
    return house.ask({.method = Method::Put,
                      .path = sandbox_path("/files/a/b.txt"),
                      .query = std::move(query),
                      .body = "new",
                      .fields = std::move(fields),
                      .json = false});
  };
  const auto answer = put("mode=0755", {});
  EXPECT_EQ(answer->code, 200U);
  EXPECT_EQ(house.fleet.file, "new");
  EXPECT_EQ(boost::json::parse(answer->body).at("size"), 3);
  EXPECT_EQ(answer->field("ETag"), house.fleet.etag);
  for (const std::string mode : {"9", "8888", "4755", "0000", "77", "00755", "+755", ""}) {
    EXPECT_EQ(put("mode=" + mode, {})->code, 400U) << mode;
  }
  EXPECT_EQ(put("", {{"If-Match", "\"other\""}})->code, 412U);
  EXPECT_EQ(put("", {{"If-Match", house.fleet.etag}})->code, 200U);
  EXPECT_EQ(put("", {{"If-Match", "*"}})->code, 200U);
  EXPECT_EQ(put("", {{"If-None-Match", "\"x\""}})->code, 400U);
  EXPECT_EQ(put("", {{"Content-Range", "bytes 0-1/3"}})->code, 400U);
  house.fleet.fails = Error{Errc::AlreadyExists, "it is there", 0, {}};
  EXPECT_EQ(put("", {{"If-None-Match", "*"}})->code, 412U);
  EXPECT_EQ(put("", {})->code, 409U);
}

TEST(Files, ArchivesBothWays) {
  House house;
  const auto out = house.ask({.path = sandbox_path("/archive/src")});
  EXPECT_EQ(out->code, 200U);
  EXPECT_EQ(out->body, "tar bytes");
  EXPECT_EQ(out->type, "application/x-tar");
  EXPECT_EQ(out->field("Content-Disposition"), "attachment; filename*=UTF-8''src.tar");
  const auto in = house.ask({.method = Method::Put,
                             .path = sandbox_path("/archive/src"),
                             .body = std::string(600'000, 'x'),
                             .json = false});
  EXPECT_EQ(in->code, 200U);
  EXPECT_EQ(boost::json::parse(in->body).at("bytes"), 600'000);
}

}  // namespace
}  // namespace caisson::rest
