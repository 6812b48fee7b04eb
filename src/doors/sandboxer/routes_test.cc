#include "doors/sandboxer/routes.h"

#include <gtest/gtest.h>

namespace caisson::sandboxer {
namespace {

using enum http::Method;
using Kind = Match::Kind;

TEST(Routes, APathIsFoundWithItsParts) {
  EXPECT_EQ(find_route(Get, "/sandboxes", false).kind, Kind::Found);
  const auto one = find_route(Get, "/sandboxes/ab%20c", false);
  EXPECT_EQ(one.kind, Kind::Found);
  EXPECT_EQ(one.id, "ab c");
  const auto two = find_route(Post, "/sandboxes/a/coalesce/b", false);
  EXPECT_EQ(two.kind, Kind::Found);
  EXPECT_EQ(two.id + two.second, "ab");
  const auto file = find_route(Get, "/sandboxes/a/files/etc/%2e%2e/x", false);
  EXPECT_EQ(file.kind, Kind::Found);
  EXPECT_EQ(file.tail, "etc/%2e%2e/x");
  EXPECT_EQ(find_route(Get, "/sandboxes/a/files/", false).tail, "");
  EXPECT_EQ(find_route(Get, "/sandboxes/a/command-executions/r/logs", false).second, "r");
}

TEST(Routes, TheOtherSlashIsKnown) {
  EXPECT_EQ(find_route(Get, "/sandboxes/", false).kind, Kind::OtherSlash);
  EXPECT_EQ(find_route(Get, "/sandboxes/a/files", false).kind, Kind::OtherSlash);
  EXPECT_EQ(find_route(Get, "/sandboxes/a/proxy", false).kind, Kind::OtherSlash);
  EXPECT_EQ(find_route(Get, "/sandboxes/a/", false).kind, Kind::OtherSlash);
  EXPECT_EQ(find_route(Get, "/sandboxes//", false).kind, Kind::OtherSlash);
}

TEST(Routes, AnotherMethodIsNotAnotherPath) {
  const auto match = find_route(Put, "/sandboxes/a", false);
  EXPECT_EQ(match.kind, Kind::OtherMethod);
  EXPECT_EQ(match.allow, "GET, PATCH, DELETE");
  EXPECT_EQ(find_route(Get, "/sandboxes/a/pause", false).allow, "PUT, DELETE");
  EXPECT_EQ(find_route(Head, "/sandboxes", false).kind, Kind::OtherMethod);
}

TEST(Routes, WhatIsNotThereIsNotFound) {
  for (const auto path : {"/sandboxes/a/nothing", "/volumes", "/auth", "/events/x",
                          "/sandboxes/a%2Fb", "/auth/token/x/y"})
    EXPECT_EQ(find_route(Get, path, false).kind, Kind::NotFound) << path;
}

TEST(Routes, ATerminalIsAWebSocketOnly) {
  EXPECT_EQ(find_route(Get, "/sandboxes/a/attach", true).kind, Kind::Found);
  EXPECT_EQ(find_route(Get, "/sandboxes/a/attach", false).kind, Kind::NotFound);
}

TEST(Routes, TheProxyTakesEveryUsualMethod) {
  for (const auto method : {Get, Post, Put, Delete, Patch, Options, Head})
    EXPECT_EQ(find_route(method, "/sandboxes/a/proxy/x", false).kind, Kind::Found);
  EXPECT_EQ(find_route(Other, "/sandboxes/a/proxy/x", false).kind, Kind::OtherMethod);
}

TEST(Routes, WhatIsProtectedIsSo) {
  for (const auto path : {"/sandboxes", "/sandboxes/a", "/volumes", "/events", "/auth/me"})
    EXPECT_TRUE(is_protected(path)) << path;
  for (const auto path : {"/auth/token", "/auth/logout", "/auth/github"})
    EXPECT_FALSE(is_protected(path)) << path;
}

}  // namespace
}  // namespace caisson::sandboxer
