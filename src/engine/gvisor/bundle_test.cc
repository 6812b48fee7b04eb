#include "engine/gvisor/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

namespace caisson::engine::gvisor {
namespace {

namespace json = boost::json;

LaunchRequest request() {
  LaunchRequest out;
  out.id = "a234567a234567a234567a2345";
  out.tier = policy::SandboxTier::Gvisor;
  out.limits.disk_bytes = 4096;
  return out;
}

json::value written(const LaunchRequest& wish, const std::vector<std::string>& own = {}) {
  return json::parse(bundle(wish, own));
}

const json::object* mount_at(const json::value& config, std::string_view at) {
  for (const json::value& one : config.at("mounts").as_array()) {
    if (one.at("destination").as_string() == at) return &one.as_object();
  }
  return nullptr;
}

bool has_option(const json::object& mount, std::string_view option) {
  return std::ranges::any_of(mount.at("options").as_array(),
                             [&](const json::value& one) { return one.as_string() == option; });
}

TEST(GvisorBundle, InitIsProcessOneAndNobodysTwin) {
  const json::value config = written(request());
  const json::value& process = config.at("process");
  EXPECT_EQ(process.at("args").as_array().at(0).as_string(), kInitPath);
  EXPECT_EQ(process.at("args").as_array().at(1).as_string(), "carried");
  EXPECT_EQ(process.at("user").at("uid").as_int64(), kInitId);
  EXPECT_TRUE(process.at("noNewPrivileges").as_bool());
  EXPECT_TRUE(process.at("env").as_array().empty());
  EXPECT_EQ(config.at("hostname").as_string(), "caisson");
  const json::object* init = mount_at(config, kInitPath);
  ASSERT_NE(init, nullptr);
  EXPECT_TRUE(has_option(*init, "ro"));
}

// That kernel gives whatever is in the bounding set to every program of id 0.
TEST(GvisorBundle, RootInsideHasNothingThatWasNotSaid) {
  const auto bounding = [](const LaunchRequest& wish) {
    return written(wish).at("process").at("capabilities").at("bounding").as_array();
  };
  LaunchRequest wish = request();
  EXPECT_TRUE(bounding(wish).empty());
  wish.root_capabilities = true;
  const json::array given = bounding(wish);
  EXPECT_FALSE(given.empty());
  for (const char* never : {"CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_SETPCAP", "CAP_NET_RAW"})
    EXPECT_EQ(std::ranges::count(given, json::value(never)), 0) << never;
}

TEST(GvisorBundle, ScratchIsBoundedAndAsWritableAsItWasWished) {
  LaunchRequest wish = request();
  for (const char* at : {"/tmp", "/run", "/dev/shm"}) {
    const json::value config = written(wish);
    const json::object* mount = mount_at(config, at);
    ASSERT_NE(mount, nullptr) << at;
    EXPECT_TRUE(has_option(*mount, "size=4096") && has_option(*mount, "rw")) << at;
  }
  wish.scratch = ScratchMode::ReadOnly;
  const json::value config = written(wish);
  EXPECT_TRUE(has_option(*mount_at(config, "/tmp"), "ro"));
}

TEST(GvisorBundle, WhatOthersChangeIsAMountOfItsOwn) {
  LaunchRequest wish = request();
  wish.folders = {{"/work/copy", FolderMode::PrivateCopy},
                  {"/work/real", FolderMode::Writable},
                  {"/tmp/folder", FolderMode::ReadOnly}};
  StoreMount volume;
  volume.kind = StoreMount::Kind::Volume;
  volume.at = "/data";
  wish.store_mounts = {volume};
  const std::vector<std::string> places{"data",      "data/below", "tmp/folder", "usr",
                                        "work/copy", "work/real",  "workspace"};
  EXPECT_EQ(mounts_of_their_own(wish, places),
            (std::vector<bool>{true, true, true, false, false, true, false}));
  const json::value config = written(wish, {"data", "tmp/folder"});
  EXPECT_EQ(mount_at(config, "/data")->at("source").as_string(), "/b/m0");
  EXPECT_EQ(mount_at(config, "/tmp/folder")->at("source").as_string(), "/b/m1");
}

}  // namespace
}  // namespace caisson::engine::gvisor
