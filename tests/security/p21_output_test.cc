// P21: output cannot exhaust us, hold up others, or be mistaken for anything but bytes.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <map>

#include "base/id.h"
#include "engine/launcher/client.h"
#include "engine/link/guest_link.h"
#include "sys/process.h"
#include "tests/security/host_view.h"
#include "tests/support/box.h"

namespace caisson::test {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kGrowthMax = 16 * kMiB;

control::ExecuteOptions keeping(std::uint32_t bytes) {
  control::ExecuteOptions options;
  options.output_bytes_max = bytes;
  return options;
}

// One endless line, as fast as it goes.
TEST(P21, EndlessOutputWithoutNewlineCostsUsNothing) {
  Box box;
  (void)box.sh("head -c 4000000 /dev/zero");  // buffers of the usual size exist from here on
  const std::uint64_t ours = resident_bytes(::getpid());
  const std::uint64_t launcher = resident_bytes(manager().launcher_pid());
  const auto result = box.sh("tr '\\0' x </dev/zero", within(seconds(4)));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.out.size(), kMiB);
  EXPECT_EQ(result.out.find_first_not_of('x'), std::string::npos);
  EXPECT_GT(result.out_lost, 256 * kMiB);
  EXPECT_LT(resident_bytes(::getpid()), ours + kGrowthMax);
  EXPECT_LT(resident_bytes(manager().launcher_pid()), launcher + kGrowthMax);
  EXPECT_LT(box.status().usage.memory_peak_bytes, 64 * kMiB) << "init kept more than its ring";
  RecordProperty("lost_mib", std::to_string(result.out_lost / kMiB));
}

TEST(P21, HeadAndTailAreKeptAndTheRestIsCounted) {
  Box box;
  constexpr std::uint32_t kKept = 64 * 1024;
  const auto result = box.python(R"(
import sys
out = sys.stdout.buffer
out.write(b'HEAD')
for _ in range(64): out.write(b'x' * (1 << 20))
out.write(b'TAIL')
sys.stderr.write('E' * 200000)
)",
                                 keeping(kKept));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.size(), kKept);
  EXPECT_TRUE(result.out.starts_with("HEADxxx"));
  EXPECT_TRUE(result.out.ends_with("xxxTAIL"));
  EXPECT_EQ(result.out_lost, 64 * kMiB + 8 - kKept);
  EXPECT_EQ(result.err.size() + result.err_lost, 200000U);
}

TEST(P21, EveryByteArrivesAsItWasSent) {
  Box box;
  std::string all;
  for (int round = 0; round < 64; ++round) {
    for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  }
  all += "\xff\xfe\xc0\x80\xed\xa0\x80";                           // no UTF-8 in any reading
  all += "\x1b]0;owned\x07\x1b[2J\x1b]52;c;cm0gLXJm\x1b\\";        // a terminal's words
  all += "\n\ndata: {\"exit_code\":0}\n\nevent: done\ndata:\n\n";  // somebody else's framing
  all += std::string("\0\0\0\5\1\0\1\0\1\0\0\0", 12);              // a frame of ours
  control::ExecuteOptions options;
  options.input = all;
  EXPECT_EQ(box.run({"/bin/cat"}, options).out, all);
  EXPECT_EQ(box.sh("cat >&2", options).err, all);
}

// ---------------------------------------------------------------------------------------------
// Streams, seen by the one who reads them frame by frame.

class Streams : public testing::Test {
 protected:
  static constexpr std::uint32_t kRing = 64 * 1024;
  static constexpr std::uint32_t kWindow = 32 * 1024;

  void SetUp() override {
    auto launcher = engine::LauncherClient::spawn(caisson_program(), state_dir());
    ASSERT_TRUE(launcher) << launcher.error().message;
    launcher_ = std::move(*launcher);
    engine::LaunchRequest request = engine::default_spec().request;
    request.id = SandboxId::random().value().str();
    auto reply = launcher_->launch(request, {});
    ASSERT_TRUE(reply) << reply.error().message;
    link_ = std::make_unique<engine::GuestLink>(std::move(reply->stream), reply->nonce);
  }

  void start(std::uint32_t id, const std::string& script, std::uint32_t flags) {
    engine::StartOptions options;
    options.argv = {"/bin/sh", "-c", script};
    options.env = {"PATH=/usr/bin:/bin"};
    options.uid = options.gid = 1000;
    options.flags = flags;
    options.ring_bytes = kRing;
    options.window_bytes = kWindow;
    ASSERT_TRUE(link_->start(id, options));
  }

  // Moves frames until `ready`, and says whether it came to that.
  bool pump(const std::function<bool()>& ready, seconds within = seconds(20)) {
    const TimePoint deadline = Clock::now() + within;
    while (!ready()) {
      if (Clock::now() >= deadline || link_->death()) return false;
      if (link_->wants_write()) (void)link_->on_writable();
      const auto readable = sys::wait_ready(link_->fd(), POLLIN, Clock::now() + milliseconds(20));
      if (readable && *readable) (void)link_->on_readable();
      for (;;) {
        const auto frame = link_->next();
        if (!frame || !*frame) break;
        take(**frame);
      }
    }
    return true;
  }

  void take(const engine::Frame& frame) {
    if (frame.kind == wire::Kind::Data) {
      wire::DataHeader header{};
      std::memcpy(&header, frame.payload.data(), sizeof(header));
      if (!first_offset_.contains(frame.id)) first_offset_[frame.id] = header.offset;
      received_[frame.id] += frame.payload.size() - sizeof(header);
    } else if (frame.kind == wire::Kind::Exited) {
      exited_.insert(frame.id);
    } else if (frame.kind == wire::Kind::ListEntry) {
      wire::ListEntryBody body{};
      std::memcpy(&body, frame.payload.data(), sizeof(body));
      listed_[body.process] = body;
    } else if (frame.kind == wire::Kind::Done) {
      done_.insert(frame.id);
    }
  }

  wire::ListEntryBody look_at(std::uint32_t process) {
    done_.erase(kLook);
    EXPECT_TRUE(link_->list(kLook));
    EXPECT_TRUE(pump([&] { return done_.contains(kLook); }));
    return listed_[process];
  }

  static constexpr std::uint32_t kLook = 900;
  std::unique_ptr<engine::LauncherClient> launcher_;
  std::unique_ptr<engine::GuestLink> link_;
  std::map<std::uint32_t, std::uint64_t> received_;
  std::map<std::uint32_t, std::uint64_t> first_offset_;
  std::map<std::uint32_t, wire::ListEntryBody> listed_;
  std::set<std::uint32_t> exited_;
  std::set<std::uint32_t> done_;
};

// A reader who does not read stops the writer at a full ring, and nobody else.
TEST_F(Streams, ASlowReaderStopsOnlyItsOwnProcess) {
  start(1, "exec cat /dev/zero", wire::kStartAttach);
  ASSERT_TRUE(pump([&] { return look_at(1).end[0] >= kWindow + kRing; }));
  EXPECT_EQ(received_[1], kWindow);
  for (std::uint32_t id = 2; id < 12; ++id) {
    start(id, "echo hello", wire::kStartAttach);
    ASSERT_TRUE(pump([&] { return exited_.contains(id); }));
    EXPECT_EQ(received_[id], 6U);
  }
  const wire::ListEntryBody blocked = look_at(1);
  EXPECT_EQ(blocked.end[0], kWindow + kRing) << "the process went on writing";
  EXPECT_FALSE(exited_.contains(1));
  // Credit moves it on by as much, and not a byte is missing.
  ASSERT_TRUE(link_->credit(1, wire::Stream::Output, kWindow));
  ASSERT_TRUE(pump([&] { return look_at(1).end[0] == 2 * kWindow + kRing; }));
  EXPECT_EQ(received_[1], 2 * kWindow);
}

// When the reader leaves, the process goes on; what was overwritten shows as a gap.
TEST_F(Streams, WithoutAReaderTheOldestBytesGoAndAreCounted) {
  start(1, "head -c 4000000 /dev/zero", wire::kStartAttach);
  ASSERT_TRUE(pump([&] { return look_at(1).end[0] >= kWindow + kRing; }));
  ASSERT_TRUE(link_->detach(1));
  ASSERT_TRUE(pump(
      [&] { return look_at(1).state == static_cast<std::uint32_t>(wire::ProcessState::Ended); }));
  const wire::ListEntryBody ended = look_at(1);
  EXPECT_EQ(ended.end[0], 4'000'000U);
  EXPECT_EQ(ended.begin[0], 4'000'000U - kRing);
  EXPECT_EQ(ended.exited.lost[0], 4'000'000U - kRing - kWindow);
  received_.clear();
  first_offset_.clear();
  ASSERT_TRUE(link_->attach(1, {0, 0}, 1U << 20U));
  ASSERT_TRUE(pump([&] { return exited_.contains(1); }));
  EXPECT_EQ(first_offset_[1], 4'000'000U - kRing);
  EXPECT_EQ(received_[1], kRing);
}

}  // namespace
}  // namespace caisson::test
