// File state in a launcher: stacks, seals, other stacks, layers in the making, volumes. The
// launcher runs in a child process, because it leaves the host's mounts for good.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "engine/host/features.h"
#include "engine/launcher/serve.h"
#include "engine/launcher/wire.h"
#include "engine/link/guest_session.h"
#include "engine/plan.h"
#include "guest/protocol/layer_job.h"
#include "sys/file.h"
#include "sys/socket.h"

namespace caisson::test {
namespace {

using engine::LayerStack;
using engine::Storage;
using engine::StoreMount;
namespace lw = engine::launcher_wire;

constexpr std::uint64_t kMiB = 1ULL << 20U;

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

struct Guest {
  std::string id;
  UniqueFd stream;
  std::unique_ptr<engine::GuestSession> session;

  std::string say(const std::string& script, std::uint32_t uid = 1000) const {
    engine::ExecRequest request;
    request.argv = {"/bin/sh", "-c", script};
    request.env = {"PATH=/usr/bin:/bin"};
    request.user = {uid, uid};
    const auto done = session->execute(request);
    if (!done) return "failed: " + done.error().message;
    const bool well = done->exit_code == 0 || done->signal == 0;
    return done->out + done->err + (well ? "" : "signal " + std::to_string(done->signal));
  }
};

class LayersTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/var/tmp/caisson-layers-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    state_ = name;
    ASSERT_EQ(::chmod(name, 0711), 0);
    begin();
  }
  void TearDown() override {
    end();
    std::error_code ignored;
    std::filesystem::remove_all(state_, ignored);
  }
  void begin() {
    sys::SocketPair pair = must(sys::packet_pair());
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      pair.ours.reset();
      engine::native::TierOptions options;
      options.host = engine::probe_host();
      options.state_dir = state_;
      options.lifetime = engine::native::Lifetime::Service;
      options.pool_bytes = 512 * kMiB;
      auto core = engine::LauncherCore::open(std::move(options));
      if (!core) ::fprintf(stderr, "%s\n", core.error().message.c_str());
      ::_exit(core && engine::serve(*core, pair.theirs.get()) ? 0 : 1);
    }
    socket_ = std::move(pair.ours);
  }
  void end() {
    socket_.reset();
    int status = 0;
    ASSERT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }

  Result<sys::Message> ask(lw::Writer writer) {
    TRY(sys::send_message(socket_.get(), writer.take(), {}));
    sys::Message answer = TRY(sys::receive_message(socket_.get(), lw::kMessageBytesMax));
    lw::Reader reader(answer.bytes);
    if (reader.get<lw::Header>().failed != 0) return std::unexpected(lw::read_error(reader));
    return answer;
  }
  static lw::Reader body(const sys::Message& answer) {
    return lw::Reader(std::span(answer.bytes).subspan(sizeof(lw::Header)));
  }

  Result<Guest> launch(const engine::LaunchRequest& request) {
    auto writer = lw::begin(lw::Request::Launch);
    lw::write(writer, request);
    sys::Message answer = TRY(ask(std::move(writer)));
    lw::Reader reader = body(answer);
    Guest guest;
    guest.id = reader.get_string();
    const auto nonce = reader.get<engine::Nonce>();
    if (request.program == engine::Program::Layer) {
      guest.stream = std::move(answer.fds.at(0));
    } else {
      guest.session = TRY(engine::GuestSession::connect(std::move(answer.fds.at(0)), nonce));
    }
    return guest;
  }
  Result<engine::Sealed> seal(const Guest& guest, const std::string& layer) {
    auto writer = lw::begin(lw::Request::Seal);
    writer.put_string(guest.id).put_string(layer);
    const sys::Message answer = TRY(ask(std::move(writer)));
    lw::Reader reader = body(answer);
    return lw::read_sealed(reader);
  }
  Result<void> restack(const Guest& guest, const LayerStack& stack, bool end_processes = false) {
    auto writer = lw::begin(lw::Request::Restack);
    writer.put_string(guest.id);
    lw::write(writer, stack);
    writer.put(static_cast<std::uint8_t>(end_processes ? 1 : 0));
    TRY(ask(std::move(writer)));
    return {};
  }
  Result<void> about(lw::Request kind, const std::string& id) {
    auto writer = lw::begin(kind);
    writer.put_string(id);
    TRY(ask(std::move(writer)));
    return {};
  }
  Result<void> drop(engine::StoreEntry::Kind kind, const std::string& name) {
    auto writer = lw::begin(lw::Request::Drop);
    lw::write_kind(writer, kind);
    writer.put_string(name);
    TRY(ask(std::move(writer)));
    return {};
  }
  Result<void> commit(const Guest& tool, const std::string& layer) {
    auto writer = lw::begin(lw::Request::CommitLayer);
    writer.put_string(tool.id).put_string(layer);
    TRY(ask(std::move(writer)));
    return {};
  }
  Result<void> set_volume(const std::string& name, std::uint64_t bytes) {
    auto writer = lw::begin(lw::Request::SetVolume);
    writer.put_string(name).put(bytes);
    TRY(ask(std::move(writer)));
    return {};
  }
  engine::PoolFacts pool() {
    const sys::Message answer = must(ask(lw::begin(lw::Request::Pool)));
    lw::Reader reader = body(answer);
    return lw::read_pool(reader);
  }

  static engine::LaunchRequest on_disk(LayerStack stack = {}) {
    engine::LaunchRequest request = engine::default_spec().request;
    request.storage = Storage::Disk;
    request.stack = std::move(stack);
    return request;
  }

  std::string state_;
  pid_t child_ = -1;
  UniqueFd socket_;
};

// One job, start to end: what came back last.
struct Answered {
  wire::AnswerKind kind{};
  wire::LayerDone done{};
  std::string text;
};

Answered run_job(const Guest& tool, const wire::Job& job, int descriptor) {
  std::vector<std::byte> message(sizeof(wire::JobHeader) + sizeof(job));
  const wire::JobHeader header{wire::kLayerVersion, static_cast<std::uint32_t>(job.kind),
                               sizeof(job)};
  std::memcpy(message.data(), &header, sizeof(header));
  std::memcpy(message.data() + sizeof(header), &job, sizeof(job));
  std::vector<int> fds;
  if (descriptor >= 0) fds.push_back(descriptor);
  must(sys::send_message(tool.stream.get(), message, fds));
  for (;;) {
    wire::JobHeader answer{};
    if (::recv(tool.stream.get(), &answer, sizeof(answer), MSG_WAITALL) != sizeof(answer))
      throw std::runtime_error("the layer program is gone");
    std::string bytes(answer.size, '\0');
    if (::recv(tool.stream.get(), bytes.data(), bytes.size(), MSG_WAITALL) !=
        static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("the layer program is gone");
    Answered out;
    out.kind = static_cast<wire::AnswerKind>(answer.kind);
    if (out.kind == wire::AnswerKind::Done) {
      std::memcpy(&out.done, bytes.data(), sizeof(out.done));
      return out;
    }
    if (out.kind == wire::AnswerKind::Failed) {
      out.text = bytes.substr(sizeof(wire::LayerFailed));
      return out;
    }
  }
}

// The volume "data", for writing.
StoreMount volume_at(const std::string& place) {
  StoreMount volume;
  volume.kind = StoreMount::Kind::Volume;
  volume.at = place;
  volume.name = "data";
  volume.read_only = false;
  return volume;
}

engine::LaunchRequest tool_request(std::vector<StoreMount> mounts) {
  engine::LaunchRequest request = engine::default_spec().request;
  request.program = engine::Program::Layer;
  request.profile = engine::seccomp::Profile::NoSpawn;
  StoreMount target;
  target.kind = StoreMount::Kind::Target;
  target.at = "/layer/out";
  target.bytes_max = 256 * kMiB;
  mounts.push_back(target);
  request.store_mounts = std::move(mounts);
  return request;
}

// ---------------------------------------------------------------------------------------------

TEST_F(LayersTest, TheStoreCanLimitAndCopy) {
  const engine::PoolFacts facts = pool();
  EXPECT_TRUE(facts.kind.starts_with("btrfs")) << facts.kind << ": " << facts.why;
  EXPECT_TRUE(facts.limits);
  EXPECT_TRUE(facts.live_snapshots);
}

TEST_F(LayersTest, AQuietSandboxIsSealedByStackingAndGoesOn) {
  const Guest guest = must(launch(on_disk()));
  EXPECT_EQ(guest.say("echo one > /workspace/a; echo t > /tmp/t; mkdir /workspace/d"), "");
  const auto sealed = seal(guest, "first");
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->kind, engine::SnapshotKind::Stacked);
  EXPECT_EQ(guest.say("cat /workspace/a /tmp/t; echo two > /workspace/a"), "one\nt\n");
  // The rules are those of the new root: programs start, and files move between folders.
  EXPECT_EQ(guest.say("cd /workspace && echo x > b && mv b d/b && ln d/b c && cat c"), "x\n");
  EXPECT_EQ(guest.say("ls /proc/self/status /dev/null && touch /usr/x"),
            "/dev/null\n/proc/self/status\ntouch: cannot touch '/usr/x': Read-only file system\n");

  const Guest fork = must(launch(on_disk({{"first"}, true})));
  EXPECT_EQ(fork.say("cat /workspace/a; ls /tmp /workspace"), "one\n/tmp:\n\n/workspace:\na\nd\n");
  EXPECT_EQ(fork.say("echo three > /workspace/a; cat /workspace/a"), "three\n");
  EXPECT_EQ(guest.say("cat /workspace/a"), "two\n");
}

TEST_F(LayersTest, WithAProcessRunningTheSealIsACopyOnWrite) {
  const Guest guest = must(launch(on_disk()));
  EXPECT_EQ(guest.say("echo one > /workspace/a; (exec sleep 1000 > /dev/null 2>&1 &)"), "");
  // A shell's child dies with its exec; one that runs on needs an exec of its own.
  engine::ExecRequest request;
  request.argv = {"/bin/sleep", "1000"};
  request.env = {"PATH=/usr/bin:/bin"};
  request.user = {1000, 1000};
  std::jthread running([&](const std::stop_token& stop) {
    request.stop = stop;
    (void)guest.session->execute(request);
  });
  while (guest.say("pgrep -c sleep || true") == "0\n") {
  }
  const auto sealed = seal(guest, "live");
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->kind, engine::SnapshotKind::Cow);
  EXPECT_EQ(guest.say("echo two > /workspace/a; cat /workspace/a"), "two\n");
  EXPECT_EQ(must(launch(on_disk({{"live"}, true}))).say("cat /workspace/a"), "one\n");

  const auto busy = restack(guest, {{"live"}, true});
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::Busy);
  EXPECT_EQ(guest.say("cat /workspace/a"), "two\n");
  const auto forced = restack(guest, {{"live"}, true}, true);
  EXPECT_TRUE(forced) << forced.error().message;
  EXPECT_EQ(guest.say("cat /workspace/a; pgrep -c sleep"), "one\n0\n");
}

TEST_F(LayersTest, RemovedFilesStayRemovedAboveALayer) {
  const Guest guest = must(launch(on_disk()));
  EXPECT_EQ(guest.say("cd /workspace; mkdir d; echo x > d/f; echo y > e"), "");
  ASSERT_TRUE(seal(guest, "one"));
  EXPECT_EQ(guest.say("cd /workspace; rm -r d; rm e; mkdir d; echo z > d/g"), "");
  ASSERT_TRUE(seal(guest, "two"));
  EXPECT_EQ(guest.say("cd /workspace; find . | sort"), ".\n./d\n./d/g\n");
  EXPECT_EQ(must(launch(on_disk({{"two", "one"}, true}))).say("cd /workspace; find . | sort"),
            ".\n./d\n./d/g\n");
  ASSERT_TRUE(restack(guest, {{"one"}, true}));
  EXPECT_EQ(guest.say("cd /workspace; find . | sort; cat d/f"), ".\n./d\n./d/f\n./e\nx\n");
}

TEST_F(LayersTest, AWritableSystemFolderIsPartOfTheLayer) {
  auto request = on_disk();
  request.root = engine::RootMode::Writable;
  request.uid = request.gid = 0;
  const Guest guest = must(launch(request));
  EXPECT_EQ(guest.say("echo mine > /usr/share/mine; echo etc > /etc/mine", 0), "");
  ASSERT_TRUE(seal(guest, "sys"));
  EXPECT_EQ(guest.say("cat /usr/share/mine /etc/mine; echo new > /usr/share/new", 0),
            "mine\netc\n");
  EXPECT_EQ(must(launch(on_disk({{"sys"}, true}))).say("cat /usr/share/mine /etc/mine"),
            "mine\netc\n");
}

TEST_F(LayersTest, TheDiskLimitHoldsBeforeAndAfterASeal) {
  auto request = on_disk();
  request.limits.disk_bytes = 32 * kMiB;
  const Guest guest = must(launch(request));
  const std::string fill = "dd if=/dev/zero of=/workspace/big bs=1M count=64 2>&1 | grep -c quota";
  EXPECT_EQ(guest.say(fill), "1\n");
  EXPECT_EQ(guest.say("rm /workspace/big; sync -f /workspace; echo a > /workspace/a"), "");
  ASSERT_TRUE(seal(guest, "small"));
  EXPECT_EQ(guest.say(fill), "1\n");
}

TEST_F(LayersTest, FilesInMemoryAreNotSealedButOtherStacksWork) {
  engine::LaunchRequest request = engine::default_spec().request;
  const Guest guest = must(launch(request));
  EXPECT_EQ(guest.say("echo kept > /workspace/a; echo t > /tmp/t"), "");
  const auto sealed = seal(guest, "none");
  ASSERT_FALSE(sealed);
  EXPECT_EQ(sealed.error().code, Errc::Busy);

  StoreMount upper;
  upper.kind = StoreMount::Kind::Upper;
  upper.at = "/layer/in/0";
  upper.name = guest.id;
  const Guest tool = must(launch(tool_request({upper})));
  wire::Job job{};
  job.kind = wire::JobKind::Flatten;
  job.bytes_max = 64 * kMiB;
  job.entries_max = 1000;
  job.layers = 1;
  const Answered answer = run_job(tool, job, -1);
  ASSERT_EQ(answer.kind, wire::AnswerKind::Done) << answer.text;
  ASSERT_TRUE(commit(tool, "copied"));
  EXPECT_EQ(must(launch(on_disk({{"copied"}, true}))).say("stat -c %u:%g /workspace/a"),
            "1000:1000\n");
  EXPECT_EQ(must(launch(on_disk({{"copied"}, true}))).say("cat /workspace/a; rm /workspace/a"),
            "kept\n");
  EXPECT_EQ(guest.say("echo more > /workspace/b"), "");
  const auto back = restack(guest, {{"copied"}, true});
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(guest.say("ls /workspace; cat /tmp/t"), "a\nt\n");
}

TEST_F(LayersTest, ALayerInUseIsNotDropped) {
  const Guest guest = must(launch(on_disk()));
  ASSERT_TRUE(seal(guest, "used"));
  const auto busy = drop(engine::StoreEntry::Kind::Layer, "used");
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::Busy);
  ASSERT_TRUE(about(lw::Request::Destroy, guest.id));
  EXPECT_TRUE(drop(engine::StoreEntry::Kind::Layer, "used"));
  EXPECT_FALSE(launch(on_disk({{"used"}, true})));
  EXPECT_FALSE(drop(engine::StoreEntry::Kind::Layer, "../../etc"));
}

TEST_F(LayersTest, AStoppedSandboxComesBackWithItsFiles) {
  auto request = on_disk();
  request.id = must(SandboxId::random()).str();
  Guest guest = must(launch(request));
  EXPECT_EQ(guest.say("echo one > /workspace/a"), "");
  ASSERT_TRUE(seal(guest, "below"));
  EXPECT_EQ(guest.say("echo two > /workspace/b; sync"), "");
  ASSERT_TRUE(about(lw::Request::StopOne, guest.id));
  end();  // and the launcher with it
  begin();
  request.resume = true;
  request.stack.layers = {"below"};
  const Guest again = must(launch(request));
  EXPECT_EQ(again.say("cat /workspace/a /workspace/b"), "one\ntwo\n");
}

TEST_F(LayersTest, AVolumeIsSharedAndLimited) {
  ASSERT_TRUE(set_volume("data", 16 * kMiB));
  const StoreMount volume = volume_at("/data");
  engine::LaunchRequest request = engine::default_spec().request;
  request.store_mounts = {volume};
  const Guest writer = must(launch(request));
  EXPECT_EQ(writer.say("echo shared > /data/f"), "");
  request.store_mounts[0].read_only = true;
  const Guest reader = must(launch(request));
  EXPECT_EQ(reader.say("cat /data/f; echo x > /data/g"),
            "shared\n/bin/sh: 1: cannot create /data/g: Read-only file system\n");
  EXPECT_EQ(writer.say("dd if=/dev/zero of=/data/big bs=1M count=32 2>&1 | grep -c quota"), "1\n");
  const auto busy = drop(engine::StoreEntry::Kind::Volume, "data");
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::Busy);
}

TEST_F(LayersTest, NobodyBecomesAnOwnerOfTheHost) {
  const Guest guest = must(launch(on_disk()));
  EXPECT_EQ(guest.say("echo a > /workspace/a; stat -c %u:%g /workspace/a"), "1000:1000\n");
  ASSERT_TRUE(seal(guest, "owners"));
  // In the store the owner is the store range's, seen through a slot it is the guest's own.
  EXPECT_EQ(must(launch(on_disk({{"owners"}, true}))).say("stat -c %u:%g /workspace/a"),
            "1000:1000\n");
}

// init does not listen while its sandbox is paused: the launcher must not wait for it.
TEST_F(LayersTest, SnapshotsOfAPausedSandboxHoldUpNobody) {
  const Guest guest = must(launch(on_disk()));
  EXPECT_EQ(guest.say("echo one > /workspace/a"), "");
  ASSERT_TRUE(about(lw::Request::Freeze, guest.id));
  for (int i = 0; i < 70; ++i) {
    const auto sealed = seal(guest, "p" + std::to_string(i));
    ASSERT_TRUE(sealed) << i << " " << sealed.error().message;
    EXPECT_EQ(sealed->kind, engine::SnapshotKind::Cow);
  }
  const auto busy = restack(guest, {{"p0"}, true}, true);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, Errc::Busy);
  ASSERT_TRUE(about(lw::Request::Thaw, guest.id));
  EXPECT_EQ(guest.say("cat /workspace/a"), "one\n");
}

// A subvolume of the guest's own would have no limit.
TEST_F(LayersTest, AGuestMakesNoSubvolumeInAVolume) {
  ASSERT_TRUE(set_volume("data", 16 * kMiB));
  const StoreMount volume = volume_at("/data");
  engine::LaunchRequest request = engine::default_spec().request;
  request.store_mounts = {volume};
  const Guest guest = must(launch(request));
  EXPECT_EQ(guest.say(R"(python3 -c "
import fcntl, os
fd = os.open('/data', os.O_RDONLY)
for request in (0x5000940e, 0x50009401, 0x50009417, 0x50009418):  # create, snapshot, both second forms
    try: print(fcntl.ioctl(fd, request, bytearray(bytes(8) + b'n' + bytes(4087)), True))
    except OSError as error: print(error.strerror)
open('/data/a', 'w').write('x' * 9000)
print(fcntl.ioctl(os.open('/data/b', os.O_RDWR | os.O_CREAT), 0x40049409, os.open('/data/a', os.O_RDONLY)))
")"),
            "Operation not permitted\nOperation not permitted\nOperation not permitted\n"
            "Operation not permitted\n0\n");
}

TEST_F(LayersTest, UndoTwiceOverADeepTree) {
  engine::LaunchRequest request = engine::default_spec().request;
  const Guest first = must(launch(on_disk()));
  ASSERT_TRUE(seal(first, "base"));
  const Guest guest = must(launch(request));
  const std::string deep =
      "cd /workspace; i=0; while [ $i -lt 200 ]; do mkdir d && cd d; i=$((i+1)); done";
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(guest.say(deep), "");
    const auto back = restack(guest, {{"base"}, true});
    ASSERT_TRUE(back) << round << " " << back.error().message;
    EXPECT_EQ(guest.say("ls /workspace; echo x > /workspace/x; cat /workspace/x"), "x\n");
  }
}

// Whoever may write the root moves a folder that holds a mount, and puts a link in its place.
TEST_F(LayersTest, AMountThatWasMovedAwayIsNotFollowed) {
  ASSERT_TRUE(set_volume("data", 16 * kMiB));
  const StoreMount volume = volume_at("/v/etc");
  auto request = on_disk();
  request.root = engine::RootMode::Writable;
  request.uid = request.gid = 0;
  request.store_mounts = {volume};
  const Guest guest = must(launch(request));
  EXPECT_EQ(guest.say("mv /v /w; ln -s / /v", 0), "");
  const auto sealed = seal(guest, "moved");
  ASSERT_TRUE(sealed) << sealed.error().message;  // as a copy: the sandbox goes on as it is
  EXPECT_EQ(sealed->kind, engine::SnapshotKind::Cow);
  const auto back = restack(guest, {{"moved"}, true});
  ASSERT_FALSE(back);
  EXPECT_EQ(guest.say("echo x > /etc/new; cat /etc/new /w/etc/none 2>&1 | head -1", 0), "x\n");
}

TEST_F(LayersTest, AnUpperThatIsMissingIsMadeAnew) {
  auto request = on_disk();
  request.id = must(SandboxId::random()).str();
  request.resume = true;
  request.limits.disk_bytes = 32 * kMiB;
  const Guest guest = must(launch(request));
  EXPECT_EQ(guest.say("dd if=/dev/zero of=/workspace/big bs=1M count=64 2>&1 | grep -c quota"),
            "1\n");
}

}  // namespace
}  // namespace caisson::test
