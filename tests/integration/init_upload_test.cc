// Uploads that go past init, and descriptors that nobody asked for: what the real init makes of
// them.
#include <gtest/gtest.h>

#include <map>

#include "init_harness.h"
#include "sys/socket.h"

namespace caisson::test {
namespace {

using engine::GuestLink;
using engine::OpOptions;
using wire::Kind;

struct Way {
  UniqueFd ours;
  UniqueFd theirs;
};

Way way() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class InitUpload : public testing::Test {
 protected:
  InitUpload() {
    until([this] { return link().greeted(); });
  }

  [[nodiscard]] GuestLink& link() { return *link_; }

  bool until(const std::function<bool()>& ready) {
    const TimePoint deadline = Clock::now() + seconds(10);
    while (!ready()) {
      if (link().death() || Clock::now() > deadline) return false;
      pollfd fd{link().fd(), static_cast<short>(POLLIN | (link().wants_write() ? POLLOUT : 0)), 0};
      (void)::poll(&fd, 1, 100);
      if (link().wants_write() && !link().on_writable()) return false;
      if ((fd.revents & (POLLIN | POLLHUP)) == 0) continue;
      const bool alive = link().on_readable().has_value();
      for (auto next = link().next(); next && *next; next = link().next()) take(**next);
      if (!alive) return ready();
    }
    return true;
  }
  void take(const engine::Frame& frame) {
    if (frame.kind == Kind::Pong) ++pongs_;
    if (frame.kind == Kind::Done) (void)wire::parse_exact(frame.bytes(), done_[frame.id]);
    if (frame.kind != Kind::Failed) return;
    wire::FailedView view{};
    ASSERT_TRUE(wire::parse_failed(frame.bytes(), view));
    failed_[frame.id] = view.body.sys_errno;
  }
  bool settle() {
    const int seen = pongs_;
    return link().ping(1, {}).has_value() && until([&] { return pongs_ > seen; });
  }
  bool answered(std::uint32_t id) {
    return until([&] { return done_.contains(id) || failed_.contains(id); });
  }

  static OpOptions write(const std::string& path) {
    OpOptions options;
    options.op = wire::OpKind::Write;
    options.uid = options.gid = kUser.uid;
    options.path = path;
    return options;
  }
  // An upload whose reading end is inside.
  UniqueFd begin(std::uint32_t id, const std::string& path) {
    Way both = way();
    const auto passed = link().operate_with(id, write(path), both.theirs.get());
    EXPECT_TRUE(passed && *passed);
    return std::move(both.ours);
  }
  static bool send_all(const UniqueFd& to, const std::string& bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t sent = ::send(to.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<std::size_t>(sent);
    }
    return true;
  }
  // Raw bytes with a descriptor beside them.
  void pass(const std::string& bytes, int fd) {
    const auto sent = sys::send_message(link().fd(), std::as_bytes(std::span(bytes)), {{fd}});
    ASSERT_TRUE(sent) << sent.error().message;
  }
  static std::string frame(Kind kind, std::uint32_t id, const std::string& payload) {
    const wire::FrameHeader header{static_cast<std::uint32_t>(payload.size()),
                                   static_cast<std::uint16_t>(kind), 0, id};
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + payload;
  }
  static std::string op(std::uint32_t id, std::uint32_t flags, const std::string& path) {
    wire::OpBody body{};
    body.op = static_cast<std::uint32_t>(wire::OpKind::Write);
    body.flags = flags;
    body.uid = body.gid = kUser.uid;
    body.path_size = static_cast<std::uint32_t>(path.size());
    return frame(Kind::Op, id,
                 std::string(reinterpret_cast<const char*>(&body), sizeof(body)) + path);
  }
  // Nobody holds the other end of this one any more.
  static bool alone(const UniqueFd& end) {
    pollfd look{end.get(), POLLIN, 0};
    char byte = 0;
    return ::poll(&look, 1, 10'000) == 1 && ::recv(end.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  // The files below the guest's scratch folder, hidden ones too.
  std::string listing() {
    std::string out;
    for (const auto& entry : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(sandbox_.pid()) + "/root/mnt"))
      out += entry.path().filename().string() + " ";
    return out;
  }
  std::string content(const std::string& name) {
    std::ifstream file("/proc/" + std::to_string(sandbox_.pid()) + "/root/mnt/" + name,
                       std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  InitSandbox sandbox_;
  std::unique_ptr<GuestLink> link_ =
      std::make_unique<GuestLink>(sandbox_.take_stream(), sandbox_.nonce());
  int pongs_ = 0;
  std::map<std::uint32_t, wire::DoneBody> done_;
  std::map<std::uint32_t, int> failed_;
};

TEST_F(InitUpload, TheFileIsThereAfterTheCommitAndNotBefore) {
  std::string bytes;
  for (int i = 0; bytes.size() < 3'000'001; ++i) bytes += std::to_string(i);
  UniqueFd socket = begin(5, "/mnt/f");
  ASSERT_TRUE(send_all(socket, bytes));
  socket.reset();
  ASSERT_TRUE(settle());
  EXPECT_EQ(content("f"), "");
  EXPECT_TRUE(done_.empty());  // the end of the bytes alone is not the end of the upload
  ASSERT_TRUE(link().commit(5, bytes.size()));
  ASSERT_TRUE(answered(5));
  EXPECT_EQ(done_[5].bytes, bytes.size());
  EXPECT_TRUE(content("f") == bytes);
  EXPECT_EQ(listing(), "f ");
}

TEST_F(InitUpload, OddSizesArriveWhole) {
  std::uint32_t id = 10;
  for (const std::size_t size : {0UL, 1UL, 4095UL, 65537UL}) {
    UniqueFd socket = begin(++id, "/mnt/g");
    ASSERT_TRUE(send_all(socket, std::string(size, 'x')));
    ASSERT_TRUE(link().commit(id, size));  // before the last byte was read, even
    socket.reset();
    ASSERT_TRUE(answered(id));
    EXPECT_EQ(done_[id].bytes, size);
    EXPECT_EQ(content("g").size(), size);
  }
}

TEST_F(InitUpload, AnotherCountThanTheBytesLeavesNothing) {
  for (const std::uint64_t count : {99UL, 101UL}) {
    const auto id = static_cast<std::uint32_t>(count);
    UniqueFd socket = begin(id, "/mnt/f");
    ASSERT_TRUE(send_all(socket, std::string(100, 'x')));
    socket.reset();
    ASSERT_TRUE(link().commit(id, count));
    ASSERT_TRUE(answered(id));
    EXPECT_EQ(failed_[id], EIO);
    EXPECT_EQ(listing(), "");
  }
}

TEST_F(InitUpload, ABrokenUploadLeavesNothing) {
  UniqueFd socket = begin(5, "/mnt/f");
  ASSERT_TRUE(send_all(socket, std::string(1'000'000, 'x')));
  socket.reset();
  ASSERT_TRUE(link().cancel(5));
  ASSERT_TRUE(answered(5));
  EXPECT_EQ(failed_[5], ECANCELED);
  EXPECT_EQ(listing(), "");
}

TEST_F(InitUpload, ALostPeerLeavesNothing) {
  UniqueFd socket = begin(5, "/mnt/f");
  ASSERT_TRUE(send_all(socket, std::string(1'000'000, 'x')));  // so the reader is at work
  link_ = std::make_unique<GuestLink>(sandbox_.new_stream(), sandbox_.nonce());
  socket.reset();
  EXPECT_TRUE(until([this] { return listing().empty(); }));
}

TEST_F(InitUpload, AFailureBeforeTheFirstByteClosesTheWay) {
  const UniqueFd socket = begin(5, "/no/such/folder/f");
  ASSERT_TRUE(answered(5));
  EXPECT_EQ(failed_[5], ENOENT);
  EXPECT_TRUE(alone(socket));
  ASSERT_TRUE(link().commit(5, 0));  // it is late, and harmless
  EXPECT_TRUE(settle());
}

TEST_F(InitUpload, DescriptorsThatNobodyAskedForAreClosed) {
  const std::string ping = frame(Kind::Ping, 77, "");
  const std::string plain = op(6, 0, "/mnt/f");
  for (const std::string& request : {ping, plain}) {
    Way both = way();
    pass(request, both.theirs.get());
    both.theirs.reset();
    EXPECT_TRUE(alone(both.ours));
    EXPECT_TRUE(settle());
  }
}

TEST_F(InitUpload, ADescriptorBesideHalfARequestIsNotItsOwn) {
  const std::string whole = op(6, wire::kOpSocket, "/mnt/f");
  Way both = way();
  pass(whole.substr(0, 20), both.theirs.get());
  both.theirs.reset();
  ASSERT_EQ(::send(link().fd(), whole.data() + 20, whole.size() - 20, MSG_NOSIGNAL),
            static_cast<ssize_t>(whole.size() - 20));
  ASSERT_TRUE(answered(6));
  EXPECT_EQ(failed_[6], EBADF);
  EXPECT_TRUE(alone(both.ours));
}

TEST_F(InitUpload, OnlyAStreamSocketWillDo) {
  const std::string request = op(6, wire::kOpSocket, "/mnt/f");
  ASSERT_EQ(::send(link().fd(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  ASSERT_TRUE(answered(6));
  EXPECT_EQ(failed_[6], EBADF);
  failed_.clear();
  int pipe[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  UniqueFd from(pipe[0]);
  const UniqueFd to(pipe[1]);
  pass(request, from.get());
  from.reset();
  ASSERT_TRUE(answered(6));
  EXPECT_EQ(failed_[6], EBADF);
  pollfd look{to.get(), 0, 0};
  EXPECT_EQ(::poll(&look, 1, 10'000), 1);  // POLLERR: nobody reads
  EXPECT_EQ(listing(), "");
}

TEST_F(InitUpload, ACommitOfWhatHasNoSocketEndsTheStream) {
  ASSERT_TRUE(link().operate(5, write("/mnt/f")));
  ASSERT_TRUE(link().commit(5, 0));
  EXPECT_FALSE(settle());
  link_ = std::make_unique<GuestLink>(sandbox_.new_stream(), sandbox_.nonce());
  EXPECT_TRUE(until([this] { return listing().empty(); }));
}

}  // namespace
}  // namespace caisson::test
