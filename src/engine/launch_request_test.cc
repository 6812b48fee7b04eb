#include "engine/launch_request.h"

#include <gtest/gtest.h>

#include "guest/protocol/protocol.h"

namespace caisson::engine {
namespace {

using namespace std::string_literals;

LaunchRequest good() {
  LaunchRequest request;
  request.id = "abcdefghijklmnopqrstuvwxyz";
  return request;
}

// What check() says about a request that `change` spoiled.
template <class Change>
Error refused(Change change) {
  LaunchRequest request = good();
  change(request);
  const auto judged = check(request);
  EXPECT_FALSE(judged);
  return judged ? Error{} : judged.error();
}

TEST(CanonicalGuestPath, RefusesWhatCouldMeanAnotherPlace) {
  for (const std::string& path :
       {""s, "relative"s, "./x"s, "../x"s, "/.."s, "/a/../b"s, "/a/.."s, "/a/b/../../.."s, "/a\0b"s,
        "\0/a"s, "/a\nb"s, "/a\x1b[2J"s, "/a\x7f"s, "/\t"s, "/" + std::string(256, 'n'),
        std::string(wire::kPathMax, '/')}) {
    const auto canonical = canonical_guest_path(path);
    ASSERT_FALSE(canonical) << path;
    EXPECT_EQ(canonical.error().code, Errc::InvalidArgument) << path;
  }
}

TEST(CanonicalGuestPath, HasOneSpelling) {
  EXPECT_EQ(canonical_guest_path("/"), "/");
  EXPECT_EQ(canonical_guest_path("///"), "/");
  EXPECT_EQ(canonical_guest_path("/."), "/");
  EXPECT_EQ(canonical_guest_path("//a///b/"), "/a/b");
  EXPECT_EQ(canonical_guest_path("/a/./b/."), "/a/b");
  EXPECT_EQ(canonical_guest_path("/..."), "/...");
  EXPECT_EQ(canonical_guest_path("/..a/a.."), "/..a/a..");
  EXPECT_EQ(canonical_guest_path("/caf\xc3\xa9 x"), "/caf\xc3\xa9 x");
  EXPECT_EQ(canonical_guest_path("/" + std::string(255, 'n')), "/" + std::string(255, 'n'));
  EXPECT_TRUE(canonical_guest_path(std::string(wire::kPathMax - 1, '/')));
}

TEST(IsBelow, WholeComponentsOnly) {
  EXPECT_FALSE(is_below("/proc2", "/proc"));
  EXPECT_FALSE(is_below("/pro", "/proc"));
  EXPECT_FALSE(is_below("/", "/proc"));
  EXPECT_FALSE(is_below("", "/proc"));
  EXPECT_TRUE(is_below("/proc", "/proc"));
  EXPECT_TRUE(is_below("/proc/1/root", "/proc"));
  EXPECT_TRUE(is_below("/proc", "/"));
  EXPECT_TRUE(is_below("/", "/"));
}

TEST(CheckLaunchRequest, TheDefaultsAndTheLimitsThemselvesPass) {
  LaunchRequest request = good();
  EXPECT_TRUE(check(request));
  request.uid = request.gid = 65534;
  request.hostname = std::string(kHostnameMax, 'h');
  request.limits.disk_bytes = 256UL * 1024;
  request.limits.disk_files = 128;
  request.limits.open_files = 16;
  for (std::size_t i = 0; i < kFoldersMax; ++i)
    request.folders.push_back({"/f" + std::to_string(i), FolderMode::Writable});
  for (std::size_t i = 0; i < kWritablePathsMax; ++i)
    request.writable.push_back("/w" + std::to_string(i));
  const auto judged = check(request);
  EXPECT_TRUE(judged) << judged.error().message;
}

// None at all is fine: the launcher then chooses it.
TEST(CheckLaunchRequest, TrustIsCertificatesAndNothingElse) {
  const std::string good = "-----BEGIN CERTIFICATE-----\nMIIB+/=\n-----END CERTIFICATE-----\n";
  LaunchRequest request;
  request.trust = good;
  EXPECT_TRUE(check(request));
  request.trust = good + good;
  EXPECT_TRUE(check(request));
  const std::string bad[] = {"x",
                             good + "x",
                             good + "\n# a comment\n" + good,
                             " " + good,
                             good.substr(0, good.size() - 1),
                             good + std::string(1, '\0') + good,
                             good + std::string(kTrustBytesMax, 'A') + good,
                             "-----BEGIN CERTIFICATE-----\n$(id)\n-----END CERTIFICATE-----\n"};
  for (const std::string& text : bad) {
    request.trust = text;
    EXPECT_FALSE(check(request)) << text;
  }
}

TEST(CheckLaunchRequest, AnIdIsNothingButAnId) {
  LaunchRequest unnamed = good();
  unnamed.id.clear();
  EXPECT_TRUE(check(unnamed));
  for (const std::string& id : {"short"s, "../../../../../../etc/cron"s,
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"s, "abcdefghijklmnopqrstuvwxyza"s,
                                "abcdefghijklmnopqrstuvwxy/"s, "abcdefghijklmnopqrstuvwx\0a"s}) {
    EXPECT_EQ(refused([&](LaunchRequest& request) { request.id = id; }).code, Errc::InvalidArgument)
        << id;
  }
}

TEST(CheckLaunchRequest, HostnamesAreOneDnsName) {
  for (const std::string& name : {std::string(kHostnameMax + 1, 'h'), "Upper"s, "under_score"s,
                                  "new\nline"s, "nul\0"s, "sp ace"s, "caf\xc3\xa9"s, "a/b"s}) {
    EXPECT_EQ(refused([&](LaunchRequest& request) { request.hostname = name; }).code,
              Errc::InvalidArgument)
        << name;
  }
}

TEST(CheckLaunchRequest, NobodyMountsOnOrIntoTheSandboxsOwnTrees) {
  for (const std::string& path :
       {"/"s, ""s, "relative"s, "/proc"s, "/proc/sys"s, "/dev"s, "/dev/null"s, "/dev/shm/x"s,
        "/dev/pts"s, "/sys"s, "/sys/fs/cgroup"s, "/a/../proc"s, "/a/.."s, "/x/"s, "//x"s, "/./x"s,
        "/x\0y"s, "/x\ny"s}) {
    const auto as_folder = [&](LaunchRequest& request) { request.folders.push_back({path, {}}); };
    EXPECT_EQ(refused(as_folder).code, Errc::InvalidArgument) << path;
    const auto as_writable = [&](LaunchRequest& request) { request.writable.push_back(path); };
    EXPECT_EQ(refused(as_writable).code, Errc::InvalidArgument) << path;
  }
  LaunchRequest request = good();
  request.writable = {"/dev/shm", "/devices", "/process", "/system"};
  EXPECT_TRUE(check(request));
}

TEST(CheckLaunchRequest, ASpellingThatIsRefusedIsShownAsItShouldBe) {
  const Error error = refused([](LaunchRequest& request) { request.writable = {"/a//b"}; });
  EXPECT_EQ(error.message, "writable: write '/a//b' as '/a/b'");
}

TEST(CheckLaunchRequest, InitsIdAndEverythingAboveIsNoTenants) {
  for (const std::uint32_t id : {kInitId, kIdsPerSlot, 1'000'000U, 0xfffffffeU, 0xffffffffU}) {
    EXPECT_EQ(refused([&](LaunchRequest& request) { request.uid = id; }).code,
              Errc::InvalidArgument);
    EXPECT_EQ(refused([&](LaunchRequest& request) { request.gid = id; }).code,
              Errc::InvalidArgument);
  }
}

TEST(CheckLaunchRequest, RootWithCapabilitiesHasNoFolderOfTheHost) {
  const Error error = refused([](LaunchRequest& request) {
    request.root_capabilities = true;
    request.folders = {{"/a", FolderMode::ReadOnly}, {"/b", FolderMode::Writable}};
  });
  EXPECT_EQ(error.code, Errc::InvalidArgument);
  EXPECT_TRUE(error.message.starts_with("root_capabilities: ")) << error.message;
}

TEST(CheckLaunchRequest, ListsHaveAnEnd) {
  EXPECT_EQ(refused([](LaunchRequest& request) {
              request.folders.assign(kFoldersMax + 1, {"/f", FolderMode::ReadOnly});
            }).code,
            Errc::Exhausted);
  EXPECT_EQ(refused([](LaunchRequest& request) {
              request.writable.assign(kWritablePathsMax + 1, "/w");
            }).code,
            Errc::Exhausted);
}

TEST(CheckLaunchRequest, ALayerThatCannotHoldOurOwnFoldersIsRefused) {
  const auto field = [](auto change) { return refused(change).message.substr(0, 10); };
  EXPECT_EQ(field([](LaunchRequest& r) { r.limits.disk_bytes = 256UL * 1024 - 1; }), "disk_bytes");
  EXPECT_EQ(field([](LaunchRequest& r) { r.limits.disk_bytes = 0; }), "disk_bytes");
  EXPECT_EQ(field([](LaunchRequest& r) { r.limits.disk_files = 127; }), "disk_files");
  EXPECT_EQ(field([](LaunchRequest& r) { r.limits.open_files = 15; }), "open_files");
}

TEST(CheckLaunchRequest, TheResolversPortIsNoProxys) {
  EXPECT_EQ(refused([](LaunchRequest& request) { request.gate_proxy = 53; }).code,
            Errc::InvalidArgument);
  LaunchRequest request = good();
  request.gate_proxy = 15004;
  EXPECT_TRUE(check(request));
}

}  // namespace
}  // namespace caisson::engine
