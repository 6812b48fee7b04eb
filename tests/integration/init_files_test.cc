// Files: every operation, as the guest's user, and every trap that must not work.
#include <gtest/gtest.h>

#include <thread>

#include "init_harness.h"

namespace caisson::test {
namespace {

using engine::FileEntry;
using engine::GuestSession;
using wire::EntryType;

class InitFiles : public testing::Test {
 protected:
  std::string run(const std::string& script) {
    engine::ExecRequest request;
    request.argv = {"/bin/sh", "-c", script};
    request.env = {"PATH=/usr/bin:/bin"};
    request.user = kUser;
    request.cwd = kScratch;
    request.output_bytes_max = 4 * 1024 * 1024;
    auto result = session_->execute(request);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    EXPECT_EQ(result ? result->err : "", "") << script;
    return result ? result->out : "";
  }
  // Unpacks bytes, by pieces of an awkward size.
  Result<engine::TarResult> unpack(const std::string& path, const std::string& archive) {
    std::size_t at = 0;
    return session_->tar_in(kUser, path, [&](std::span<std::byte> to) -> Result<std::size_t> {
      const std::size_t part = std::min({to.size(), archive.size() - at, std::size_t{7777}});
      std::memcpy(to.data(), archive.data() + at, part);
      at += part;
      return part;
    });
  }
  Result<std::string> pack(const std::string& path) {
    std::string archive;
    auto done =
        session_->tar_out(kUser, path, [&](std::span<const std::byte> bytes) -> Result<void> {
          archive.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return {};
        });
    if (!done) return std::unexpected(done.error());
    EXPECT_EQ(done->bytes, archive.size());
    return archive;
  }
  int errno_of(const Result<void>& result) { return result ? 0 : result.error().sys_errno; }

  InitSandbox sandbox_;
  std::unique_ptr<GuestSession> session_ = sandbox_.session();
};

TEST_F(InitFiles, WriteReadAndStat) {
  std::string content;
  for (int i = 0; i < 300000; ++i) content += static_cast<char>(i * 31);
  ASSERT_TRUE(
      session_->write_file(kUser, "/mnt/a/b/c.bin", content, {.mode = 0640, .parents = true}));
  auto read = session_->read_file(kUser, "/mnt/a/b/c.bin");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, content);
  auto part = session_->read_file(kUser, "/mnt/a/b/c.bin", 1000, 50);
  ASSERT_TRUE(part);
  EXPECT_EQ(*part, content.substr(1000, 50));
  auto entry = session_->stat(kUser, "/mnt/a/b/c.bin");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->type, EntryType::File);
  EXPECT_EQ(entry->mode, 0640U);
  EXPECT_EQ(entry->uid, kUser.uid);
  EXPECT_EQ(entry->size, content.size());
  auto too_large = session_->read_file(kUser, "/mnt/a/b/c.bin", 0, 0, 1000);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, Errc::Exhausted);
  EXPECT_TRUE(session_->ping());
}

TEST_F(InitFiles, AReplacedFileKeepsItsModeAndLeavesNothingBeside) {
  run("echo old > f; chmod 755 f; ln -s f link");
  ASSERT_TRUE(session_->write_file(kUser, "/mnt/link", "new"));
  EXPECT_EQ(run("cat f; stat -c %a f; readlink link; ls -A"), "new755\nf\nf\nlink\n");
  EXPECT_EQ(errno_of(session_->write_file(kUser, "/mnt/f", "x", {.exclusive = true})), EEXIST);
  EXPECT_EQ(errno_of(session_->write_file(kUser, "/mnt", "x")), EISDIR);
  EXPECT_EQ(errno_of(session_->write_file(kUser, "/no/such/f", "x")), ENOENT);
  EXPECT_EQ(errno_of(session_->write_file(kUser, "/etc/caisson-test", "x")), EACCES);
  EXPECT_EQ(run("ls -A"), "f\nlink\n");
}

TEST_F(InitFiles, AFailedUploadLeavesNothing) {
  std::size_t calls = 0;
  auto result =
      session_->tar_in(kUser, "/mnt", [&](std::span<std::byte> to) -> Result<std::size_t> {
        if (++calls > 3) return failure(Errc::Gone, "the client left");
        std::fill(to.begin(), to.end(), std::byte{0});
        return 512;
      });
  EXPECT_FALSE(result);
  EXPECT_EQ(run("ls -A"), "");
}

// The connection goes in the middle of a Write: the temporary file goes, too.
TEST_F(InitFiles, ALostPeerLeavesNoTemporaryFile) {
  session_.reset();
  engine::GuestLink link(sandbox_.new_stream(), sandbox_.nonce());
  engine::OpOptions options;
  options.op = wire::OpKind::Write;
  options.uid = options.gid = kUser.uid;
  options.path = "/mnt/f";
  ASSERT_TRUE(link.operate(5, options));
  ASSERT_TRUE(link.input(5, std::as_bytes(std::span("part", 4))));
  while (link.wants_write()) ASSERT_TRUE(link.on_writable());
  // The first credit says that the child is at work.
  for (bool credited = false; !credited;) {
    pollfd fd{link.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&fd, 1, 10000), 1);
    ASSERT_TRUE(link.on_readable());
    for (auto next = link.next(); next && *next; next = link.next())
      credited |= (*next)->kind == wire::Kind::Credit;
  }
  session_ = sandbox_.session();
  // The old operation is over when nothing but this one is left to list.
  for (int i = 0; i < 1000; ++i) {
    if (run("ls -A").empty()) break;
  }
  EXPECT_EQ(run("ls -A"), "");
}

TEST_F(InitFiles, FoldersMoveListAndRemove) {
  ASSERT_TRUE(session_->make_folder(kUser, "/mnt/x/y/z", true));
  EXPECT_EQ(errno_of(session_->make_folder(kUser, "/mnt/x")), EEXIST);
  EXPECT_EQ(errno_of(session_->make_folder(kUser, "/mnt/q/r")), ENOENT);
  run("echo 1 > x/one; echo 2 > x/y/two; ln -s /etc/passwd x/y/link; mkfifo x/pipe");
  auto list = session_->list(kUser, "/mnt/x", true);
  ASSERT_TRUE(list) << list.error().message;
  std::map<std::string, FileEntry> found;
  for (const FileEntry& entry : *list) found[entry.name] = entry;
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found["y/link"].type, EntryType::Link);
  EXPECT_EQ(found["y/link"].target, "/etc/passwd");
  EXPECT_EQ(found["y/two"].depth, 1U);
  EXPECT_EQ(found["pipe"].type, EntryType::Fifo);
  auto flat = session_->list(kUser, "/mnt/x");
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->size(), 3U);
  EXPECT_EQ(errno_of(session_->move(kUser, "/mnt/x/one", "/mnt/x/y/two")), EEXIST);
  ASSERT_TRUE(session_->move(kUser, "/mnt/x/one", "/mnt/x/y/two", {.replace = true}));
  ASSERT_TRUE(session_->move(kUser, "/mnt/x/y/two", "/mnt/new/place", {.parents = true}));
  EXPECT_EQ(run("cat new/place"), "1\n");
  auto busy = session_->remove(kUser, "/mnt/x");
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().sys_errno, ENOTEMPTY);
  auto removed = session_->remove(kUser, "/mnt/x", true);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(*removed, 5U);
  EXPECT_EQ(run("ls -A"), "new\n");
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

TEST_F(InitFiles, FifosDevicesAndFoldersDoNotHang) {
  run("mkfifo pipe; mkdir d");
  auto fifo = session_->read_file(kUser, "/mnt/pipe");
  ASSERT_FALSE(fifo);
  EXPECT_EQ(fifo.error().sys_errno, EINVAL);
  EXPECT_EQ(errno_of(session_->write_file(kUser, "/mnt/pipe", "x")), EINVAL);
  auto folder = session_->read_file(kUser, "/mnt/d");
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().sys_errno, EISDIR);
  auto device = session_->read_file(kUser, "/dev/zero");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().sys_errno, EINVAL);
}

TEST_F(InitFiles, TheUsersRightsAreTheOnesThatCount) {
  auto shadow = session_->read_file(kUser, "/etc/shadow");
  ASSERT_FALSE(shadow);
  EXPECT_EQ(shadow.error().code, Errc::Denied);
  auto own = session_->read_file(kUser, "/proc/1/environ");
  EXPECT_FALSE(own);
  // What procfs says of the process that reads is about init's own image.
  for (const char* path : {"/proc/self/maps", "/proc/self/status", "/proc/thread-self/stat"}) {
    const auto image = session_->read_file(kUser, path);
    ASSERT_FALSE(image) << path;
    EXPECT_EQ(image.error().code, Errc::Denied) << path;
  }
  EXPECT_FALSE(session_->list(kUser, "/proc/self"));
  // Root of the guest is nobody on the host's files either.
  auto as_root = session_->read_file({0, 0}, "/etc/shadow");
  EXPECT_FALSE(as_root);
  ASSERT_TRUE(session_->write_file({0, 0}, "/mnt/root-file", "x", {.mode = 0600}));
  auto foreign = session_->read_file(kUser, "/mnt/root-file");
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, Errc::Denied);
}

// A guest swaps a folder for a link in a loop; removing and packing never leave the tree.
TEST_F(InitFiles, ASwappedFolderLeadsNowhere) {
  run("mkdir victim outside; echo keep > outside/file");
  std::stop_source source;
  std::jthread swapper([&] {
    engine::ExecRequest request;
    request.argv = {"/bin/sh", "-c",
                    "while :; do mkdir -p victim/sub; echo x > victim/sub/file; rm -rf victim/sub; "
                    "ln -s ../outside "
                    "victim/sub; rm -f victim/sub; done 2>/dev/null"};
    request.env = {"PATH=/usr/bin:/bin"};
    request.user = kUser;
    request.cwd = kScratch;
    request.stop = source.get_token();
    (void)session_->execute(request);
  });
  for (int i = 0; i < 300; ++i) {
    (void)session_->remove(kUser, "/mnt/victim", true);
    auto archive = pack("/mnt/victim");
    if (archive) EXPECT_EQ(archive->find("keep"), std::string::npos);
  }
  source.request_stop();
  swapper.join();
  EXPECT_EQ(run("cat outside/file"), "keep\n");
}

TEST_F(InitFiles, TarRoundTripAgreesWithTar) {
  const std::string longest(120, 'n');
  run("mkdir -p t/deep/" + longest + "/" + longest +
      "; cd t; echo hi > plain; head -c 100000 /dev/urandom > big; "
      "printf x > 'with space'; printf y > 'ünïcode'; ln -s ../../../etc/passwd link; mkdir empty; "
      "chmod 700 empty; "
      "echo z > deep/" +
      longest + "/" + longest +
      "/leaf; chmod 600 plain; touch -d '2001-02-03 04:05:06.789' plain; "
      "mkfifo pipe; : > zero");
  auto archive = pack("/mnt/t");
  ASSERT_TRUE(archive) << archive.error().message;
  // Debian's tar unpacks ours…
  ASSERT_TRUE(session_->write_file(kUser, "/mnt/ours.tar", *archive));
  run("mkdir u && tar -xf ours.tar -C u && rm t/pipe && diff -r --no-dereference t u");
  EXPECT_EQ(run("cd t; find . -printf '%p %m %T@ %l\\n' | sort | grep -v '^. '"),
            run("cd u; find . -printf '%p %m %T@ %l\\n' | sort | grep -v '^. '"));
  // …and we unpack what it packs, in each of its formats.
  for (const std::string format : {"gnu", "posix", "ustar --exclude=nnn*", "oldgnu"}) {
    run("rm -rf v theirs.tar; tar -cf theirs.tar --format=" + format + " -C t .");
    auto theirs = session_->read_file(kUser, "/mnt/theirs.tar");
    ASSERT_TRUE(theirs);
    auto unpacked = session_->tar_in(
        kUser, "/mnt/v",
        [at = std::size_t{0}, &theirs](std::span<std::byte> to) mutable -> Result<std::size_t> {
          const std::size_t part = std::min(to.size(), theirs->size() - at);
          std::memcpy(to.data(), theirs->data() + at, part);
          at += part;
          return part;
        },
        true);
    ASSERT_TRUE(unpacked) << format << ": " << unpacked.error().message;
    if (format.starts_with("ustar")) {
      EXPECT_EQ(run("cat v/plain"), "hi\n");
    } else {
      EXPECT_EQ(run("diff -r --no-dereference t v && echo same"), "same\n") << format;
    }
  }
}

TEST_F(InitFiles, ArchivesThatWantOutAreRefused) {
  run("mkdir s safe; cd s; echo evil > file; tar -cPf ../abs.tar --transform='s,^,/mnt/abs-,' "
      "file; "
      "tar -cPf ../dots.tar --transform='s,^,../safe/,' file; "
      "ln -s ../safe trap; tar -cf ../one.tar trap; rm trap; mkdir trap; echo evil > trap/file; "
      "tar -cf ../two.tar trap/file; mkfifo pipe; tar -cf ../fifo.tar pipe; "
      "tar -cf ../dotlink.tar --transform='s,^file$,.,' file");
  run("cat one.tar two.tar | tar -i -cf /dev/null --files-from=/dev/null; mkdir t");
  const auto load = [&](const std::string& name) {
    auto bytes = session_->read_file(kUser, "/mnt/" + name);
    EXPECT_TRUE(bytes);
    return bytes ? *bytes : "";
  };
  for (const char* name : {"abs.tar", "dots.tar", "fifo.tar", "dotlink.tar"}) {
    auto result = unpack("/mnt/t", load(name));
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().sys_errno, EPERM) << name << ": " << result.error().message;
  }
  // A link in one archive, a file through it in the next.
  ASSERT_TRUE(unpack("/mnt/t", load("one.tar")));
  auto through = unpack("/mnt/t", load("two.tar"));
  ASSERT_FALSE(through);
  EXPECT_EQ(through.error().sys_errno, ELOOP) << through.error().message;
  EXPECT_EQ(run("ls -A safe; ls -d abs-file 2>/dev/null; readlink t/trap"), "../safe\n");
}

TEST_F(InitFiles, HardLinksOnlyToWhatTheArchiveBrought) {
  run("mkdir s t; cd s; echo one > a; ln a b; tar -cf ../good.tar a b; tar -cf ../bad.tar b a; cd "
      "..; "
      "tar --delete -f bad.tar b; echo mine > t/other");
  auto good = session_->read_file(kUser, "/mnt/good.tar");
  ASSERT_TRUE(good);
  ASSERT_TRUE(unpack("/mnt/t", *good));
  EXPECT_EQ(run("stat -c %h t/a; cat t/b"), "2\none\n");
  auto bad = session_->read_file(kUser, "/mnt/bad.tar");
  ASSERT_TRUE(bad);
  // Its link names 'b', which this archive does not bring, though an earlier one did.
  auto result = unpack("/mnt/t", *bad);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().sys_errno, EPERM);
}

TEST_F(InitFiles, ATruncatedArchiveIsAnError) {
  run("head -c 5000 /dev/zero > f; tar -cf f.tar f");
  auto bytes = session_->read_file(kUser, "/mnt/f.tar");
  ASSERT_TRUE(bytes);
  auto result = unpack("/mnt", bytes->substr(0, 2000));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().sys_errno, EINVAL);
}

TEST_F(InitFiles, WatchSeesChangesInNewFoldersToo) {
  run("mkdir -p w/sub");
  std::vector<std::pair<std::uint32_t, std::string>> seen;
  std::jthread worker;
  auto result = session_->watch(kUser, "/mnt/w", true, [&](const engine::WatchEvent& event) {
    if (event.mask == 0) {
      worker = std::jthread([this] {
        run("echo 1 > w/f; mkdir w/new; until echo 2 > w/new/g; do :; done; mv w/f w/sub/h; rm -r "
            "w/new; touch w/last");
      });
    }
    seen.emplace_back(event.mask, event.name);
    return event.name != "last";
  });
  worker.join();
  ASSERT_TRUE(result) << result.error().message;
  const auto has = [&](std::uint32_t mask, const std::string& name) {
    return std::find(seen.begin(), seen.end(), std::pair(mask, name)) != seen.end();
  };
  EXPECT_TRUE(has(wire::kEventCreated, "f"));
  EXPECT_TRUE(has(wire::kEventChanged, "f"));
  EXPECT_TRUE(has(wire::kEventCreated | wire::kEventFolder, "new"));
  EXPECT_TRUE(has(wire::kEventMovedFrom, "f"));
  EXPECT_TRUE(has(wire::kEventMovedTo, "sub/h"));
  EXPECT_TRUE(has(wire::kEventRemoved | wire::kEventFolder, "new"));
  EXPECT_TRUE(session_->ping());
}

TEST_F(InitFiles, AWatchCanBeStopped) {
  std::stop_source source;
  auto result = session_->watch(
      kUser, "/mnt", false,
      [&](const engine::WatchEvent&) {
        source.request_stop();
        return true;
      },
      source.get_token());
  EXPECT_TRUE(result);
  auto missing = session_->watch(kUser, "/nowhere", false, [](const auto&) { return true; });
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::NotFound);
}

}  // namespace
}  // namespace caisson::test
