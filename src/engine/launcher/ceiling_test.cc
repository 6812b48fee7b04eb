#include "engine/launcher/ceiling.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "sys/temp_dir_test.h"

namespace caisson::engine {
namespace {

Ceiling parsed(std::string_view text) {
  const auto ceiling = parse_ceiling(text);
  EXPECT_TRUE(ceiling) << ceiling.error().message;
  return ceiling.value_or(Ceiling{});
}

TEST(Ceiling, EveryKeyIsABound) {
  const Ceiling ceiling = parsed(
      "# for the test\n"
      "memory_bytes_max 1000\n  processes_max\t20 # twenty\n\nsandboxes_max 3\r\n"
      "cpu_millis_max 500\ndisk_bytes_max 4000000\nfolders yes\ndebug yes");
  EXPECT_EQ(ceiling.memory_bytes_max, 1000U);
  EXPECT_EQ(ceiling.processes_max, 20U);
  EXPECT_EQ(ceiling.sandboxes_max, 3U);
  EXPECT_EQ(ceiling.cpu_millis_max, 500U);
  EXPECT_EQ(ceiling.disk_bytes_max, 4000000U);
  EXPECT_TRUE(ceiling.folders);
  EXPECT_TRUE(ceiling.debug);
  EXPECT_EQ(parsed(""), Ceiling{});
  EXPECT_FALSE(parsed("folders no").folders);
  EXPECT_FALSE(parsed("debug no").debug);
}

TEST(Ceiling, WhatIsNotUnderstoodIsAnErrorThatNamesTheKey) {
  for (const char* text :
       {"memory_bytes_max", "memory_bytes_max lots", "memory_bytes_max 5k", "memory_bytes_max -1",
        "memory_bytes_max 0", "memory_bytes_max 99999999999999999999", "memory_bytes_max 1 2"}) {
    const auto wrong = parse_ceiling(text);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().field, "memory_bytes_max") << text;
  }
  EXPECT_EQ(parse_ceiling("folders maybe").error().field, "folders");
  EXPECT_EQ(parse_ceiling("debug 1").error().field, "debug");
  EXPECT_EQ(parse_ceiling("memory 5").error().field, "memory");
}

TEST(Ceiling, ARequestBeyondIsDeniedByName) {
  LaunchRequest request;
  request.limits.memory_bytes = 100;
  request.limits.processes = 10;
  request.limits.cpu_millis = 10;
  const auto denied = [&](const char* text, std::size_t living = 0) {
    const auto outcome = permit(parsed(text), request, living);
    if (outcome) return std::string("permitted");
    EXPECT_EQ(outcome.error().code, Errc::Denied);
    return outcome.error().message;
  };
  EXPECT_EQ(denied("memory_bytes_max 100\nprocesses_max 10\ncpu_millis_max 10\nsandboxes_max 1"),
            "permitted");
  EXPECT_NE(denied("memory_bytes_max 99").find("memory_bytes_max 99"), std::string::npos);
  EXPECT_NE(denied("processes_max 9").find("processes_max 9"), std::string::npos);
  EXPECT_NE(denied("cpu_millis_max 9").find("cpu_millis_max 9"), std::string::npos);
  EXPECT_NE(denied("disk_bytes_max 1000").find("disk_bytes_max 1000"), std::string::npos);
  EXPECT_NE(denied("sandboxes_max 3", 3).find("sandboxes_max 3"), std::string::npos);
  request.limits.memory_bytes = 0;
  EXPECT_NE(denied("memory_bytes_max 99").find("no limit"), std::string::npos);
  EXPECT_EQ(denied("folders yes"), "permitted");
  request.folders.push_back({"/a", FolderMode::ReadOnly});
  EXPECT_EQ(denied("folders yes"), "permitted");
  EXPECT_NE(denied("").find("folders"), std::string::npos);
  EXPECT_TRUE(permit(Ceiling::none(), request, 4000));
}

TEST(Ceiling, TheFilterIsRelaxedOnlyByRoot) {
  LaunchRequest request;
  request.profile = seccomp::Profile::Debug | seccomp::Profile::NoSpawn;
  for (const char* text : {"", "debug no", "folders yes"}) {
    const auto outcome = permit(parsed(text), request, 0);
    ASSERT_FALSE(outcome) << text;
    EXPECT_EQ(outcome.error().code, Errc::Denied);
    EXPECT_EQ(outcome.error().field, "profile");
  }
  EXPECT_TRUE(permit(parsed("debug yes"), request, 0));
  EXPECT_TRUE(permit(Ceiling::none(), request, 0));
  request.profile = seccomp::Profile::NoSpawn;  // stricter than the default needs nobody's leave
  EXPECT_TRUE(permit(parsed(""), request, 0));
}

TEST(Ceiling, AFileThatIsNotRootsAloneIsRefused) {
  sys::TempDir dir;
  EXPECT_EQ(load_ceiling(dir.path("")).value(), Ceiling{});  // there is none
  dir.folder("launcher");
  dir.write("launcher/ceiling", "sandboxes_max 2\n");
  const std::string file = dir.path("launcher/ceiling");
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  if (::geteuid() == 0) {
    EXPECT_EQ(load_ceiling(dir.path(""))->sandboxes_max, 2U);
  }
  ASSERT_EQ(::chmod(file.c_str(), 0620), 0);
  EXPECT_EQ(load_ceiling(dir.path("")).error().code, Errc::Internal);
  ASSERT_EQ(::unlink(file.c_str()), 0);
  dir.link("/dev/null", "launcher/ceiling");
  EXPECT_EQ(load_ceiling(dir.path("")).error().code, Errc::Internal);
}

}  // namespace
}  // namespace caisson::engine
