#include "control/local_spec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

using engine::Folder;
using engine::FolderMode;
using policy::FilesystemMode;
using sys::TempDir;

constexpr const char* kState = "/var/lib/caisson";

policy::CapabilityDeclaration capability(FilesystemMode mode, std::vector<std::string> paths = {}) {
  policy::CapabilityDeclaration made;
  made.filesystem_config.mode = mode;
  made.filesystem_config.writable_paths = std::move(paths);
  return made;
}

LocalWish wish_in(const std::string& folder) {
  LocalWish wish;
  wish.current_folder = folder;
  wish.home = "/home/somebody";
  wish.state_dir = kState;
  return wish;
}

LocalSpec made(const LocalWish& wish) {
  auto local = local_spec(wish);
  EXPECT_TRUE(local) << local.error().message;
  return local ? std::move(*local) : LocalSpec{};
}

// The descriptor is the folder that its entry names.
void expect_held(const LocalSpec& local) {
  ASSERT_EQ(local.folders.size(), local.spec.request.folders.size());
  for (std::size_t i = 0; i < local.folders.size(); ++i) {
    const std::string link = "/proc/self/fd/" + std::to_string(local.folders[i].get());
    EXPECT_EQ(std::filesystem::read_symlink(link).string(), local.spec.request.folders[i].at);
  }
}

TEST(Refusal, PlacesThatAreNeverShown) {
  for (const char* path : {"/",
                           "/etc",
                           "/etc/ssl",
                           "/var",
                           "/var/lib/x",
                           "/root",
                           "/root/project",
                           "/proc",
                           "/proc/self",
                           "/sys",
                           "/dev",
                           "/dev/shm/x",
                           "/boot",
                           "/run",
                           "/run/user/1000",
                           "/home",
                           "/home/somebody",
                           "/home/another",
                           "/data/me",
                           "/srv/state",
                           "/srv/state/layers/x",
                           "/srv"}) {
    EXPECT_TRUE(refusal(path, "/data/me", "/srv/state")) << path;
  }
}

TEST(Refusal, OrdinaryFoldersAreShown) {
  for (const char* path : {"/home/somebody/project", "/data/me/project", "/tmp/x", "/opt/x",
                           "/srv/other", "/srv/state2", "/etcetera", "/variable", "/rooted"}) {
    EXPECT_FALSE(refusal(path, "/data/me", "/srv/state")) << path << *refusal(path, "", "/s");
  }
  EXPECT_FALSE(refusal("/data/me", "", "/srv/state"));  // nobody's home
}

TEST(LocalSpec, TheCurrentFolderIsAPrivateCopyAtItsOwnPath) {
  const TempDir dir;
  const LocalSpec local = made(wish_in(dir.path()));
  EXPECT_EQ(local.workdir, dir.path());
  EXPECT_EQ(local.spec.request.folders,
            (std::vector<Folder>{{dir.path(), FolderMode::PrivateCopy}}));
  EXPECT_TRUE(local.remarks.empty());
  expect_held(local);
}

TEST(LocalSpec, AFolderThatIsNeverShownIsRemarkedAndNotShown) {
  LocalWish wish = wish_in("/");
  LocalSpec local = made(wish);
  EXPECT_TRUE(local.spec.request.folders.empty());
  EXPECT_EQ(local.workdir, "/workspace");
  ASSERT_EQ(local.remarks.size(), 1U);
  EXPECT_NE(local.remarks[0].find("the whole machine"), std::string::npos);
  const TempDir dir;
  wish = wish_in(dir.path());
  wish.home = dir.path();
  EXPECT_TRUE(made(wish).folders.empty());
}

// A link to a refused place is that place.
TEST(LocalSpec, LinksAreJudgedByWhereTheyLead) {
  const TempDir dir;
  dir.folder("real");
  dir.link("real", "link");
  dir.link("/etc", "trap");
  const LocalSpec local = made(wish_in(dir.path("link")));
  EXPECT_EQ(local.workdir, dir.path("real"));
  expect_held(local);
  EXPECT_TRUE(made(wish_in(dir.path("trap"))).folders.empty());
  LocalWish wish = wish_in(dir.path("real"));
  wish.writable = {dir.path("trap")};
  EXPECT_EQ(local_spec(wish).error().code, Errc::Denied);
}

// The home folder and the state directory are found behind links and odd spellings too.
TEST(LocalSpec, HomeAndStateAreComparedByTheirRealPaths) {
  const TempDir dir;
  dir.folder("home");
  dir.folder("state/layers");
  dir.folder("other");
  dir.link("home", "home_link");
  dir.link("state", "state_link");
  LocalWish wish = wish_in(dir.path("home"));
  wish.home = dir.path("home_link");
  EXPECT_TRUE(made(wish).folders.empty());
  for (const std::string& state : {dir.path("state"), dir.path("state/"), dir.path("state_link"),
                                   dir.path("other/../state"), dir.path("state//.")}) {
    for (const char* current : {"state", "state/layers"}) {
      wish = wish_in(dir.path(current));
      wish.state_dir = state;
      EXPECT_TRUE(made(wish).folders.empty()) << state << " " << current;
    }
    wish = wish_in(dir.path("other"));
    wish.state_dir = state;
    EXPECT_EQ(made(wish).folders.size(), 1U) << state;
  }
  // One that is not there yet counts as well.
  wish = wish_in(dir.path("other"));
  wish.state_dir = dir.path("other/later/");
  EXPECT_TRUE(made(wish).folders.empty());
}

TEST(LocalSpec, AGrantIsTheHostsOwnFolder) {
  const TempDir dir;
  dir.folder("out");
  dir.write("file", "");
  LocalWish wish = wish_in(dir.path());
  wish.writable = {dir.path("out")};
  const LocalSpec local = made(wish);
  EXPECT_EQ(local.spec.request.folders,
            (std::vector<Folder>{{dir.path(), FolderMode::PrivateCopy},
                                 {dir.path("out"), FolderMode::Writable}}));
  expect_held(local);
  for (const std::string& path : {std::string("/"), std::string("/etc"), std::string("/home")}) {
    wish.writable = {path};
    const auto refused = local_spec(wish);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().code, Errc::Denied) << path;
  }
  wish.writable = {dir.path("missing")};
  EXPECT_EQ(local_spec(wish).error().code, Errc::NotFound);
  wish.writable = {dir.path("file")};
  EXPECT_FALSE(local_spec(wish));
}

TEST(LocalSpec, TheWiderOfTwoGrantsHoldsOnce) {
  const TempDir dir;
  LocalWish wish = wish_in(dir.path());
  wish.writable = {dir.path(), dir.path() + "/."};
  const LocalSpec local = made(wish);
  EXPECT_EQ(local.spec.request.folders, (std::vector<Folder>{{dir.path(), FolderMode::Writable}}));
  expect_held(local);
}

TEST(LocalSpec, ACapabilitySaysHowTheFolderIsShown) {
  const TempDir dir;
  LocalWish wish = wish_in(dir.path());
  const auto mode_of = [&](const policy::CapabilityDeclaration& granted) {
    wish.capability = granted;
    const LocalSpec local = made(wish);
    EXPECT_EQ(local.workdir, dir.path());
    return local.spec.request.folders.at(0).mode;
  };
  dir.folder("out");
  EXPECT_EQ(mode_of(capability(FilesystemMode::ReadOnly)), FolderMode::ReadOnly);
  EXPECT_EQ(mode_of(capability(FilesystemMode::ReadWrite)), FolderMode::PrivateCopy);
  EXPECT_EQ(mode_of(capability(FilesystemMode::ReadWrite, {"out"})), FolderMode::ReadOnly);
  wish.capability = capability(FilesystemMode::None, {"out"});
  const LocalSpec none = made(wish);
  EXPECT_TRUE(none.folders.empty() && none.spec.request.writable.empty());
  EXPECT_EQ(none.workdir, "/");
  wish.capability = capability(FilesystemMode::ReadOnly, {"out"});  // counts in read_write only
  EXPECT_EQ(made(wish).spec.request.folders.size(), 1U);
}

TEST(CapabilityPaths, AFolderOfTheHostIsGrantedForReal) {
  const TempDir dir;
  dir.folder("out");
  dir.folder("cwd/out");
  dir.link("cwd", "link");
  LocalWish wish = wish_in(dir.path("link"));
  wish.capability = capability(FilesystemMode::ReadWrite, {"out", "./out/.", dir.path("out")});
  const LocalSpec local = made(wish);
  EXPECT_EQ(local.spec.request.folders,
            (std::vector<Folder>{{dir.path("cwd"), FolderMode::ReadOnly},
                                 {dir.path("cwd/out"), FolderMode::Writable},
                                 {dir.path("out"), FolderMode::Writable}}));
  EXPECT_TRUE(local.spec.request.writable.empty());
  expect_held(local);
}

TEST(CapabilityPaths, WhatIsMissingIsPrivateOutsideTheFolderAndAMistakeInIt) {
  const TempDir dir;
  dir.folder("cwd");
  LocalWish wish = wish_in(dir.path("cwd"));
  wish.capability = capability(FilesystemMode::ReadWrite, {"/surely-not-there/cache"});
  EXPECT_EQ(made(wish).spec.request.writable, std::vector<std::string>{"/surely-not-there/cache"});
  for (const std::string& path : {std::string("missing"), dir.path("cwd/missing")}) {
    wish.capability = capability(FilesystemMode::ReadWrite, {path});
    const auto refused = local_spec(wish);
    ASSERT_FALSE(refused) << path;
    EXPECT_EQ(refused.error().code, Errc::NotFound);
    EXPECT_NE(refused.error().message.find("writable_paths"), std::string::npos);
  }
}

TEST(CapabilityPaths, OurOwnPlacesAreNeverTheHosts) {
  const TempDir dir;
  LocalWish wish = wish_in(dir.path());
  wish.capability =
      capability(FilesystemMode::ReadWrite, {"/tmp", "/tmp/", "/run", "/dev/shm", "/workspace"});
  const LocalSpec local = made(wish);
  EXPECT_EQ(local.spec.request.folders.size(), 1U);
  EXPECT_EQ(local.spec.request.writable,
            (std::vector<std::string>{"/tmp", "/tmp", "/run", "/dev/shm", "/workspace"}));
}

// Without a folder that is shown, a relative path lies in the private /workspace, whatever the host
// has of that name.
TEST(CapabilityPaths, RelativeWithoutAFolderIsPrivate) {
  LocalWish wish = wish_in("/");
  wish.capability = capability(FilesystemMode::ReadWrite, {"out", "."});
  const LocalSpec local = made(wish);
  EXPECT_TRUE(local.folders.empty());
  EXPECT_EQ(local.spec.request.writable,
            (std::vector<std::string>{"/workspace/out", "/workspace"}));
}

TEST(CapabilityPaths, NothingLeadsUpOrToARefusedPlace) {
  const TempDir dir;
  dir.folder("cwd");
  LocalWish wish = wish_in(dir.path("cwd"));
  const auto code = [&](const std::string& path) {
    wish.capability = capability(FilesystemMode::ReadWrite, {path});
    const auto local = local_spec(wish);
    EXPECT_FALSE(local) << path;
    return local ? Errc::Internal : local.error().code;
  };
  EXPECT_EQ(code("../x"), Errc::InvalidArgument);
  EXPECT_EQ(code("/tmp/../etc"), Errc::InvalidArgument);
  EXPECT_EQ(code("/"), Errc::Denied);
  EXPECT_EQ(code("/etc"), Errc::Denied);
  EXPECT_EQ(code("/proc/self"), Errc::Denied);
}

TEST(SetVariables, TheLastWordCountsAndEachNameStandsOnce) {
  std::vector<std::string> environment{"PATH=/bin", "HOME=/tmp"};
  set_variables(environment, {"HOME=/a", "NEW=1", "PATH2=x", "NEW=2", "EMPTY="});
  EXPECT_EQ(environment,
            (std::vector<std::string>{"PATH=/bin", "HOME=/a", "NEW=2", "PATH2=x", "EMPTY="}));
}

TEST(BaseEnvironment, HasNothingOfTheCallers) {
  engine::LaunchRequest request;
  const auto environment = base_environment(request, "/work");
  EXPECT_EQ(environment.size(), 5U);
  for (const char* one : {"HOME=/tmp", "USER=agent", "PWD=/work"})
    EXPECT_NE(std::ranges::find(environment, one), environment.end()) << one;
  request.scratch = engine::ScratchMode::ReadOnly;
  request.uid = 0;
  const auto root = base_environment(request, "/");
  EXPECT_NE(std::ranges::find(root, "HOME=/workspace"), root.end());
  EXPECT_NE(std::ranges::find(root, "USER=root"), root.end());
}

}  // namespace
}  // namespace caisson::control
