#include "doors/rest/router.h"

#include <gtest/gtest.h>

#include <set>

namespace caisson::rest {
namespace {

using http::Method;

const std::string kBase = "/api/v1/sandboxes/x";

TEST(Router, FindsTheRouteAndItsParts) {
  const Router router(routes());
  auto match = router.find(Method::Get, kBase + "/processes/7/output");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->route->operation, "streamOutput");
  EXPECT_EQ(match->id, "x");
  EXPECT_EQ(match->part, "7");
  EXPECT_EQ(match->route, &routes()[match->index]);

  match = router.find(Method::Put, kBase + "/files/a/b%20c%2Fd");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->tail, "a/b c/d");
  EXPECT_EQ(match->raw_tail, "/a/b%20c%2Fd");

  match = router.find(Method::Get, kBase + "/files//etc/hostname");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->tail, "/etc/hostname");

  match = router.find(Method::Get, kBase + "/list");
  ASSERT_TRUE(match);
  EXPECT_EQ(match->tail, "");
  EXPECT_EQ(match->raw_tail, "");
  EXPECT_EQ(router.find(Method::Get, kBase + "/list/")->raw_tail, "/");
  EXPECT_EQ(router.find(Method::Get, kBase + "/ports/80")->raw_tail, "");
}

TEST(Router, TellsAMissingPathFromAWrongMethod) {
  const Router router(routes());
  for (const auto* path :
       {"/", "", "*", "/api", "/api/v1/sandboxes/", "/api/v1/sandboxes//", "/healthz/", "//healthz",
        "/HEALTHZ", "/api/v1/sandboxes/x/y", "/api/v1/sandboxes/x/../tools",
        "/api/v1/sandboxes/%zz", "/api/v1/sandboxes/x/files/%00",
        "/api/v1/sandboxes/x/processes//output", "http://evil/healthz"}) {
    const auto match = router.find(Method::Get, path);
    ASSERT_FALSE(match) << path;
    EXPECT_TRUE(match.error().allowed.empty()) << path;
  }
  const auto match = router.find(Method::Patch, "/api/v1/sandboxes");
  ASSERT_FALSE(match);
  EXPECT_EQ(match.error().allowed, (std::vector{Method::Post, Method::Get}));
}

TEST(Router, EveryLineOfTheTableIsReachableAndNamedOnce) {
  const Router router(routes());
  std::set<std::string_view> operations;
  for (const Route& route : routes()) {
    EXPECT_TRUE(operations.insert(route.operation).second) << route.operation;
    std::string path(route.pattern);
    for (std::size_t at = 0; (at = path.find('{')) != std::string::npos;) {
      path.replace(at, path.find('}') - at + 1, "1");
    }
    const auto match = router.find(route.method, path);
    ASSERT_TRUE(match) << path;
    EXPECT_EQ(match->route->operation, route.operation);
  }
}

}  // namespace
}  // namespace caisson::rest
