// Archives for a tree that somebody works on: what unpacking tells, what packing leaves out, and
// folders that the user has closed to himself.
#include <gtest/gtest.h>

#include <algorithm>

#include "init_channel.h"

namespace caisson::test {
namespace {

using engine::FileEntry;
using engine::TarOptions;
using engine::TarResult;
using wire::EntryType;

class InitTar : public InitChannelTest {
 protected:
  Result<TarResult> unpack(const std::string& path, const std::string& archive,
                           TarOptions options) {
    auto writer = run(channel_->tar_in(kUser, path, options));
    if (!writer) return std::unexpected(writer.error());
    auto sent = run((*writer)->write(std::as_bytes(std::span(archive))));
    if (!sent) return std::unexpected(sent.error());
    return run((*writer)->finish());
  }
  // An archive that the guest's own tar makes.
  std::string tar_of(const std::string& arguments) {
    sh("tar -cf /mnt/.tar " + arguments);
    std::string archive = read("/mnt/.tar");
    sh("rm /mnt/.tar");
    return archive;
  }
  Result<std::string> pack(const std::string& path, std::vector<std::string> names) {
    return read_all(run(channel_->pack(kUser, path, std::move(names))));
  }
  // What the guest's own tar sees in it.
  std::string listed(const Result<std::string>& archive) {
    if (!archive) return "error: " + archive.error().message;
    write("/mnt/.packed", *archive);
    return sh("tar -tf .packed | tr '\\n' ' '; rm .packed");
  }
  // The last word on each name.
  static std::map<std::string, FileEntry> by_name(const std::vector<FileEntry>& entries) {
    std::map<std::string, FileEntry> all;
    for (const FileEntry& entry : entries) all[entry.name] = entry;
    return all;
  }
  template <class T>
  static int errno_of(const Result<T>& result) {
    return result ? 0 : result.error().sys_errno;
  }
};

// ------------------------------------------------------------------------------- what must not
// work

TEST_F(InitTar, NamesThatLeadOutAreRefused) {
  sh("mkdir t out; echo secret > out/f; echo x > t/ok");
  for (const char* name : {"../out/f", "/mnt/out/f", "a/../../out/f", "..", "", "."}) {
    const auto archive = pack("/mnt/t", {"ok", name});
    ASSERT_FALSE(archive) << name;
    EXPECT_EQ(archive.error().sys_errno, EINVAL) << name;
  }
  EXPECT_FALSE(pack("/mnt/t", {std::string("ok\0../out/f", 11)}));
  EXPECT_EQ(errno_of(pack("/mnt/none", {"f"})), ENOENT);
  EXPECT_EQ(errno_of(pack("/mnt/t/ok", {"f"})), ENOTDIR);
}

TEST_F(InitTar, NoLinkIsFollowedOnTheWay) {
  sh("mkdir t out; echo secret > out/f; ln -s ../out t/door; ln -s ../out/f t/link");
  EXPECT_EQ(listed(pack("/mnt/t", {"door/f", "door", "link"})), "door link ");
  EXPECT_EQ(pack("/mnt/t", {"door/f", "link"})->find("secret"), std::string::npos);
  // Unpacking opens no closed folder by way of a link either.
  sh("mkdir src; echo x > src/f; chmod 000 out");
  const std::string archive = tar_of("-C src --transform='s,^f,door/f,' f");
  EXPECT_EQ(errno_of(unpack("/mnt/t", archive, {.open_up = true})), ELOOP);
  EXPECT_EQ(sh("stat -c %a out"), "0\n");
}

TEST_F(InitTar, WhatIsNotTheUsersStaysClosed) {
  auto made = run(channel_->make_folder({0, 0}, "/mnt/theirs", false, 0700));
  ASSERT_TRUE(made) << made.error().message;
  sh("mkdir t; echo x > t/f");
  const auto listing = run(channel_->scan(kUser, "/mnt"));
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(by_name(listing->entries)["theirs"].mode, 0700U);
  EXPECT_EQ(errno_of(run(channel_->scan(kUser, "/mnt/theirs"))), EACCES);
  const std::string archive = tar_of("-C t f");
  EXPECT_EQ(errno_of(unpack("/mnt/theirs", archive, {.open_up = true})), EACCES);
  EXPECT_EQ(listed(pack("/mnt", {"theirs/f", "t/f"})), "t/f ");
}

// A closed folder is swapped for a link while it is opened: what lies outside keeps its mode.
TEST_F(InitTar, ASwappedFolderIsNotOpened) {
  sh("mkdir -p tree/sub outside; echo secret > outside/f; chmod 000 outside");
  const auto swapper = begin(channel_->execute(
      command("while :; do rm -rf tree/sub; ln -s ../outside tree/sub; rm -f tree/sub; "
              "mkdir -m 000 tree/sub; done 2>/dev/null")));
  for (int i = 0; i < 200; ++i) {
    const auto listing = run(channel_->scan(kUser, "/mnt/tree"));
    ASSERT_TRUE(listing) << listing.error().message;
    for (const FileEntry& entry : listing->entries) EXPECT_EQ(entry.name, "sub");
    const auto archive = pack("/mnt/tree", {"sub/f", "sub"});
    ASSERT_TRUE(archive) << archive.error().message;
    EXPECT_EQ(archive->find("secret"), std::string::npos);
  }
  EXPECT_FALSE(swapper->has_value());
  EXPECT_EQ(sh("stat -c %a outside"), "0\n");
}

// ------------------------------------------------------------------------------------------- tell

TEST_F(InitTar, UnpackingTellsWhatItMade) {
  sh("mkdir -p s/d/e; echo one > s/d/f; ln -s f s/d/link; ln s/d/f s/d/hard; echo run > s/x; "
     "chmod 755 s/x; chmod 500 s/d/e; touch -d '2001-02-03 04:05:06.789' s/d/f");
  const std::string archive = tar_of("--format=posix -C s .");
  const auto result = unpack("/mnt/t", archive, {.parents = true, .tell = true});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->made_truncated);
  auto made = by_name(result->made);
  ASSERT_EQ(made.size(), 6U);
  EXPECT_EQ(made["d"].type, EntryType::Folder);
  EXPECT_EQ(made["d/e"].mode, 0500U);
  EXPECT_EQ(made["d/link"].target, "f");
  EXPECT_EQ(made["x"].mode, 0755U);
  EXPECT_EQ(made["d/f"].size, 4U);
  EXPECT_EQ(made["d/f"].links, 2U);
  // As a scan sees them afterwards, to the last nanosecond.
  const auto listing = run(channel_->scan(kUser, "/mnt/t"));
  ASSERT_TRUE(listing);
  auto seen = by_name(listing->entries);
  ASSERT_EQ(seen.size(), made.size());
  for (const auto& [name, entry] : made) {
    EXPECT_EQ(entry.ctime_ns, seen[name].ctime_ns) << name;
    EXPECT_EQ(entry.mtime_ns, seen[name].mtime_ns) << name;
    EXPECT_EQ(entry.inode, seen[name].inode) << name;
    EXPECT_EQ(entry.size, seen[name].size) << name;
    EXPECT_EQ(entry.mode, seen[name].mode) << name;
    EXPECT_EQ(entry.depth, seen[name].depth) << name;
  }
}

TEST_F(InitTar, ParentsThatNobodyNamedAreToldToo) {
  sh("mkdir -p s/a/b; echo 1 > s/a/b/f");
  const auto result = unpack("/mnt/t", tar_of("-C s a/b/f"), {.parents = true, .tell = true});
  ASSERT_TRUE(result) << result.error().message;
  auto made = by_name(result->made);
  EXPECT_EQ(made.size(), 3U);
  EXPECT_EQ(made["a"].type, EntryType::Folder);
  EXPECT_EQ(made["a/b"].type, EntryType::Folder);
  EXPECT_EQ(made["a/b/f"].type, EntryType::File);
}

TEST_F(InitTar, TheLastWordOnANameCounts) {
  sh("mkdir s; echo one > s/f; tar -cf .tar -C s f; echo second > s/f; tar -rf .tar -C s f");
  const auto result = unpack("/mnt", read("/mnt/.tar"), {.tell = true});
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->made.size(), 2U);
  auto made = by_name(result->made);
  EXPECT_EQ(made["f"].size, 7U);
  EXPECT_EQ(made["f"].ctime_ns, run(channel_->stat(kUser, "/mnt/f", true))->ctime_ns);
  EXPECT_TRUE(unpack("/mnt", read("/mnt/.tar"), {})->made.empty());
}

TEST_F(InitTar, ThousandsOfEntriesComeWhole) {
  sh("mkdir s; cd s; i=0; while [ $i -lt 3000 ]; do echo $i > file-with-a-longer-name-$i; "
     "i=$((i+1)); done");
  const auto result = unpack("/mnt/t", tar_of("-C s ."), {.parents = true, .tell = true});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->made.size(), 3000U);
  const auto listing = run(channel_->scan(kUser, "/mnt/t"));
  ASSERT_TRUE(listing);
  EXPECT_EQ(listing->entries.size(), 3000U);
  EXPECT_FALSE(listing->truncated);
  auto seen = by_name(listing->entries);
  for (const FileEntry& entry : result->made)
    ASSERT_EQ(entry.ctime_ns, seen[entry.name].ctime_ns) << entry.name;
}

// ---------------------------------------------------------------------------------------- open up

TEST_F(InitTar, AScanOpensWhatIsClosed) {
  sh("mkdir -p t/a/b; echo x > t/a/b/f; chmod 000 t/a/b/f t/a/b; chmod 111 t/a; chmod 000 t");
  EXPECT_FALSE(run(channel_->list(kUser, "/mnt/t", true)));
  const auto listing = run(channel_->scan(kUser, "/mnt/t"));
  ASSERT_TRUE(listing) << listing.error().message;
  auto seen = by_name(listing->entries);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen["a"].mode, 0711U);  // told as it is now
  EXPECT_EQ(seen["a/b"].mode, 0700U);
  EXPECT_EQ(seen["a/b/f"].mode, 0U);  // nobody reads it here
  const auto again = run(channel_->scan(kUser, "/mnt/t"));
  ASSERT_TRUE(again);
  for (const auto& [name, entry] : by_name(again->entries))
    EXPECT_EQ(entry.ctime_ns, seen[name].ctime_ns) << name;
}

TEST_F(InitTar, AnArchiveReplacesInsideClosedFolders) {
  sh("mkdir -p s/a/b t/a/b; echo new > s/a/b/f; echo old > t/a/b/f; chmod 000 t/a/b/f t/a/b t/a t");
  const std::string archive = tar_of("-C s a/b/f");
  EXPECT_EQ(errno_of(unpack("/mnt/t", archive, {})), EACCES);
  const auto result = unpack("/mnt/t", archive, {.tell = true, .open_up = true});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(sh("cat t/a/b/f; stat -c %a t t/a t/a/b"), "new\n700\n700\n700\n");
  // A folder that the archive has itself gets the archive's mode, however closed it was.
  sh("chmod 000 t/a; chmod 750 s/a");
  ASSERT_TRUE(unpack("/mnt/t", tar_of("-C s --no-recursion a"), {.open_up = true}));
  EXPECT_EQ(sh("stat -c %a t/a"), "750\n");
}

TEST_F(InitTar, PackingReadsWhatIsClosedAndLeavesItSo) {
  sh("mkdir -p t/a; echo hidden > t/a/f; chmod 000 t/a/f t/a");
  const auto archive = pack("/mnt/t", {"a/f"});
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_NE(archive->find("hidden"), std::string::npos);
  EXPECT_EQ(listed(archive), "a/f ");
  EXPECT_EQ(sh("stat -c %a t/a t/a/f"), "700\n0\n");
}

// ------------------------------------------------------------------------------------------- pack

TEST_F(InitTar, PacksFilesLinksAndFoldersAndNothingElse) {
  sh("mkdir -p t/d/e; printf hello > t/f; ln -s nowhere t/link; ln t/f t/hard; mkfifo t/pipe; "
     "echo in > t/d/in; printf x > 't/two\nlines'; chmod 640 t/f; : > t/empty");
  const auto archive = pack("/mnt/t", {"f", "gone", "link", "pipe", "d", "d/e", "hard", "d/gone/f",
                                       "empty", "two\nlines", "./d//in"});
  ASSERT_TRUE(archive) << archive.error().message;
  write("/mnt/p.tar", *archive);
  sh("mkdir u; tar -xf p.tar -C u; rm -f t/pipe; diff -r --no-dereference t u");
  EXPECT_EQ(sh("stat -c '%a %h' u/f"), "640 1\n");
  EXPECT_EQ(listed(pack("/mnt/t", {})), "");
  EXPECT_EQ(listed(pack("/mnt/t", {"d"})), "d/ ");
}

TEST_F(InitTar, ManyNamesAndLargeFiles) {
  sh("mkdir t; cd t; i=0; while [ $i -lt 2000 ]; do echo $i > f$i; i=$((i+1)); done; "
     "head -c 3000000 /dev/urandom > big");
  std::vector<std::string> names{"big"};
  for (int i = 0; i < 20000; ++i) names.push_back("f" + std::to_string(i));
  const auto archive = pack("/mnt/t", names);
  ASSERT_TRUE(archive) << archive.error().message;
  write("/mnt/p.tar", *archive);
  EXPECT_EQ(sh("mkdir u; tar -xf p.tar -C u; diff -r t u; ls u | wc -l"), "2001\n");
}

TEST_F(InitTar, TheNamesOfOnePackHaveALimit) {
  sh("mkdir t");
  const std::string name(4000, 'n');
  const std::size_t fit = wire::kNamesBytesMax / (name.size() + 1);
  EXPECT_TRUE(pack("/mnt/t", std::vector<std::string>(fit, name)));
  EXPECT_EQ(pack("/mnt/t", std::vector<std::string>(fit + 1, name)).error().code,
            Errc::InvalidArgument);
  // init counts, too.
  auto stream = sandbox_.new_stream();
  engine::GuestLink link(std::move(stream), sandbox_.nonce());
  engine::OpOptions options;
  options.op = wire::OpKind::Pack;
  options.uid = options.gid = kUser.uid;
  options.path = "/mnt/t";
  ASSERT_TRUE(link.operate(5, options));
  const std::string bytes(wire::kInputWindow, 'n');
  std::optional<wire::FailedView> failed;
  const TimePoint limit = Clock::now() + seconds(20);
  while (!failed && Clock::now() < limit) {
    ASSERT_TRUE(link.input(5, std::as_bytes(std::span(bytes))) || link.death());
    ASSERT_TRUE(link.on_writable());
    pollfd fd{link.fd(), POLLIN, 0};
    (void)::poll(&fd, 1, 100);
    ASSERT_TRUE(link.on_readable());
    for (auto next = link.next(); next && *next; next = link.next()) {
      wire::FailedView view{};
      if ((*next)->kind == wire::Kind::Failed && wire::parse_failed((*next)->bytes(), view))
        failed = view;
    }
  }
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->body.sys_errno, E2BIG);
}

}  // namespace
}  // namespace caisson::test
