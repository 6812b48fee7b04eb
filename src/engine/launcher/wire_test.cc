#include "engine/launcher/wire.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace caisson::engine::launcher_wire {
namespace {

LaunchRequest full_request() {
  LaunchRequest request;
  request.id = "abcdefghijklmnopqrstuvwxyz";
  request.hostname = "box";
  request.root = RootMode::Writable;
  request.scratch = ScratchMode::ReadOnly;
  request.workspace = WorkspaceMode::ReadOnly;
  request.folders = {{"/a", FolderMode::PrivateCopy}, {"/b/c", FolderMode::Writable}};
  request.writable = {"/w", "/x/y"};
  request.aliases = {{"/z", "/w"}};
  request.limits = {.memory_bytes = 1ULL << 40U,
                    .processes = 7,
                    .cpu_millis = 1500,
                    .cpu_time_us = 3,
                    .life_us = 4,
                    .disk_bytes = 1 << 20,
                    .disk_files = 1000,
                    .open_files = 64};
  request.uid = 12;
  request.gid = 34;
  request.profile = seccomp::Profile::Debug | seccomp::Profile::NoSpawn;
  request.gate = true;
  request.gate_ports = {443, 5432};
  request.gate_proxy = 15004;
  request.memory = {"warm", "digest", "runtime", true};
  request.trust = std::string(kTrustBytesMax, 'x');  // longer than one string of a message
  request.scope_sockets = false;
  request.root_capabilities = true;
  request.stack = {{"sha256-0", "own"}, false};
  request.tier = policy::SandboxTier::Gvisor;
  request.storage = Storage::Disk;
  request.resume = true;
  request.persistent = true;
  request.program = Program::Layer;
  StoreMount mount;
  mount.kind = StoreMount::Kind::Volume;
  mount.at = "/data";
  mount.name = "v";
  mount.stack = {{"x"}, true};
  mount.read_only = false;
  mount.bytes_max = 77;
  request.store_mounts = {mount};
  return request;
}

template <class Value>
Bytes written(const Value& value) {
  Writer writer(Header{.kind = static_cast<std::uint32_t>(Request::Launch), .sequence = 9});
  write(writer, value);
  return writer.take();
}

// The reader behind the header.
Reader body(std::span<const std::byte> bytes) { return Reader(bytes.subspan(sizeof(Header))); }

// Where the fields stand that a test changes by hand: behind the header, two strings with lengths.
std::size_t modes_at(const LaunchRequest& request) {
  return sizeof(Header) + 4 + request.id.size() + 4 + request.hostname.size();
}

TEST(LauncherWire, ARequestComesBackAsItWas) {
  for (const LaunchRequest& request : {full_request(), LaunchRequest{}}) {
    const Bytes bytes = written(request);
    Reader reader(bytes);
    const auto header = reader.get<Header>();
    EXPECT_EQ(header.version, kLauncherVersion);
    EXPECT_EQ(header.sequence, 9U);
    EXPECT_EQ(read_launch_request(reader), request);
    EXPECT_TRUE(reader.finish());
  }
}

TEST(LauncherWire, RepliesComeBackAsTheyWere) {
  Status status;
  status.end = EndReason::OutOfMemory;
  status.frozen = true;
  status.usage = {.cpu_time_us = 1,
                  .memory_bytes = 2,
                  .memory_peak_bytes = 3,
                  .oom_kills = 4,
                  .processes = 5,
                  .reserved = 0,
                  .io_read_bytes = 6,
                  .io_write_bytes = 7};
  status.detail = "why";
  Bytes bytes = written(status);
  Reader reader = body(bytes);
  const Status back = read_status(reader);
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(back.end, status.end);
  EXPECT_TRUE(back.frozen);
  EXPECT_EQ(back.usage, status.usage);
  EXPECT_EQ(back.detail, "why");

  Record record;
  record.kernel = "6.12";
  record.landlock_abi = -1;
  record.seccomp = "abc";
  record.groups = "v2";
  record.ids = "slot";
  bytes = written(record);
  reader = body(bytes);
  EXPECT_EQ(read_record(reader), record);
  EXPECT_TRUE(reader.finish());

  const Error error{Errc::StoreFull, "full\n\x1b", 28, "disk_bytes"};
  bytes = written(error);
  reader = body(bytes);
  EXPECT_EQ(read_error(reader), error);
  EXPECT_TRUE(reader.finish());
}

Living full_living(const std::string& id) {
  Living living;
  living.id = id;
  living.init_pid = 77;
  living.record.kernel = "6.12";
  living.limits = full_request().limits;
  living.frozen = true;
  living.ended = true;
  living.age_us = 5;
  living.life_left_us = 6;
  return living;
}

TEST(LauncherWire, WhatAServerFindsComesBackAsItWas) {
  const Greeting greeting{7, "boot", "6.12"};
  Bytes bytes = written(greeting);
  Reader reader = body(bytes);
  EXPECT_EQ(read_greeting(reader), greeting);
  EXPECT_TRUE(reader.finish());

  bytes = written(full_living("a"));
  reader = body(bytes);
  EXPECT_EQ(read_living(reader), full_living("a"));
  EXPECT_TRUE(reader.finish());

  Status status;
  status.end = EndReason::Life;
  bytes = written(EndedNote{"a", status});
  reader = body(bytes);
  const EndedNote note = read_ended(reader);
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(note.id, "a");
  EXPECT_EQ(note.status.end, EndReason::Life);
}

LivingPage through_a_page(const std::vector<Living>& sandboxes, bool more, std::size_t& size) {
  Writer writer = begin(Request::Living, 3);
  write_page(writer, sandboxes, more);
  const Bytes bytes = writer.take();
  size = bytes.size();
  Reader reader = body(bytes);
  LivingPage page = read_page(reader);
  EXPECT_TRUE(reader.finish());
  return page;
}

// However long the strings are, a page is one message, and what did not fit is asked for again.
TEST(LauncherWire, APageIsOneMessageWhateverItHolds) {
  std::size_t size = 0;
  EXPECT_FALSE(through_a_page({}, false, size).more);
  EXPECT_TRUE(through_a_page({full_living("a")}, true, size).more);
  std::vector<Living> many(kLivingPerMessageMax + 5, full_living("a"));
  LivingPage page = through_a_page(many, false, size);
  EXPECT_TRUE(page.more);
  EXPECT_LE(page.sandboxes.size(), kLivingPerMessageMax);
  EXPECT_FALSE(page.sandboxes.empty());
  for (Living& one : many) {
    one.id = std::string(kStringBytesMax, 'i');
    one.record = {std::string(kStringBytesMax, 't'),
                  std::string(kStringBytesMax, 'k'),
                  1,
                  std::string(kStringBytesMax, 's'),
                  std::string(kStringBytesMax, 'g'),
                  std::string(kStringBytesMax, 'q'),
                  std::string(kStringBytesMax, 'i'),
                  std::string(kStringBytesMax, 'n')};
  }
  page = through_a_page(many, false, size);
  EXPECT_TRUE(page.more);
  EXPECT_FALSE(page.sandboxes.empty());
  EXPECT_LE(size, kMessageBytesMax);
}

TEST(LauncherWire, EveryErrorCodeTravels) {
  for (std::uint8_t code = 0; code <= static_cast<std::uint8_t>(Errc::Internal); ++code) {
    const Bytes bytes = written(Error{static_cast<Errc>(code), "m", 0, "f"});
    Reader reader = body(bytes);
    EXPECT_EQ(read_error(reader).code, static_cast<Errc>(code));
  }
}

template <class Read>
void expect_no_prefix_is_whole(const Bytes& bytes, Read read) {
  for (std::size_t size = sizeof(Header); size < bytes.size(); ++size) {
    // Bytes of its own size, so that a sanitizer sees a read beyond them.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    Reader reader = body(cut);
    (void)read(reader);
    const auto finished = reader.finish();
    ASSERT_FALSE(finished) << size;
    EXPECT_EQ(finished.error().code, Errc::Protocol) << size;
  }
  Bytes more = bytes;
  more.push_back(std::byte{0});
  Reader reader = body(more);
  (void)read(reader);
  EXPECT_EQ(reader.finish().error().code, Errc::Protocol);
}

TEST(LauncherWire, EveryTruncationAndEveryExtraByteIsAnError) {
  expect_no_prefix_is_whole(written(full_request()), read_launch_request);
  expect_no_prefix_is_whole(written(Limits{}), read_limits);
  expect_no_prefix_is_whole(written(Status{}), read_status);
  expect_no_prefix_is_whole(written(Record{}), read_record);
  expect_no_prefix_is_whole(written(Error{}), read_error);
  expect_no_prefix_is_whole(written(Greeting{}), read_greeting);
  expect_no_prefix_is_whole(written(full_living("a")), read_living);
  expect_no_prefix_is_whole(written(EndedNote{}), read_ended);
  Writer writer = begin(Request::Living);
  write_page(writer, {full_living("a"), full_living("b")}, true);
  expect_no_prefix_is_whole(writer.take(), read_page);
}

// What a flipped byte makes of a request is either not a message, or a request that check() judges.
TEST(LauncherWire, FlippedBytesNeverMakeMoreThanCheckAllows) {
  const Bytes whole = written(full_request());
  std::mt19937 random(20'000);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = whole;
    for (unsigned flips = 1 + random() % 4; flips > 0; --flips) {
      const std::size_t at = sizeof(Header) + random() % (bytes.size() - sizeof(Header));
      bytes[at] = static_cast<std::byte>(random());
    }
    Reader reader = body(bytes);
    const LaunchRequest request = read_launch_request(reader);
    EXPECT_LE(request.folders.size(), kFoldersMax);
    EXPECT_LE(request.writable.size(), kWritablePathsMax);
    if (const auto finished = reader.finish(); !finished) {
      EXPECT_EQ(finished.error().code, Errc::Protocol);
    } else if (check(request)) {
      EXPECT_LT(request.uid, kInitId);
      EXPECT_LT(request.gid, kInitId);
      EXPECT_TRUE(request.id.empty() || SandboxId::parse(request.id));
    }
  }
}

TEST(LauncherWire, UnknownModesBecomeTheStrictest) {
  const LaunchRequest request = full_request();
  Bytes bytes = written(request);
  const std::size_t at = modes_at(request);
  for (std::size_t i = 0; i < 3; ++i) bytes[at + i] = std::byte{0xff};
  const std::size_t folder_mode = at + 3 + 4 + 4 + request.folders[0].at.size();
  bytes[folder_mode] = std::byte{3};
  Reader reader = body(bytes);
  const LaunchRequest read = read_launch_request(reader);
  ASSERT_TRUE(reader.finish());
  EXPECT_EQ(read.root, RootMode::ReadOnly);
  EXPECT_EQ(read.scratch, ScratchMode::ReadOnly);
  EXPECT_EQ(read.workspace, WorkspaceMode::ReadOnly);
  EXPECT_EQ(read.folders[0].mode, FolderMode::ReadOnly);
  EXPECT_EQ(read.folders[1].mode, FolderMode::Writable);
}

TEST(LauncherWire, UnknownBitsOfAProfileAreDropped) {
  LaunchRequest request = full_request();
  request.stack.layers.clear();
  request.store_mounts.clear();
  request.memory = {};
  Bytes bytes = written(request);
  // Behind the profile: the scope, the capabilities, the gate, the number of its ports, two ports,
  // the proxy's, the tier, what it says of the store, the certificates as two strings, no memory.
  constexpr std::ptrdiff_t kStore = 1 + 1 + 4 + 1 + 1 + 1 + 1 + 4;
  constexpr std::ptrdiff_t kBehind =
      1 + 1 + 1 + 4 + 2 * 2 + 2 + kStore + 2 * 4 + kTrustBytesMax + 3 * 4 + 1;
  std::fill(bytes.end() - kBehind - 4, bytes.end() - kBehind, std::byte{0xfe});
  Reader reader = body(bytes);
  EXPECT_EQ(read_launch_request(reader).profile, seccomp::Profile::NoSpawn);
  EXPECT_TRUE(reader.finish());
}

TEST(LauncherWire, AGateTravelsWithItsDescriptors) {
  const auto open = [] { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); };
  for (const bool steered : {true, false}) {
    GateSockets gate;
    gate.resolver = open();
    if (steered) gate.steering = open();
    gate.listeners.push_back(open());
    gate.listeners.push_back(open());
    const int resolver = gate.resolver.get();
    const int listener = gate.listeners[1].get();
    Writer writer = begin(Request::OpenGate);
    write(writer, gate);
    std::vector<UniqueFd> fds;
    fds.push_back(open());  // a stream that goes before
    append(fds, std::move(gate));
    const Bytes bytes = writer.take();
    Reader reader = body(bytes);
    const GateShape shape = read_gate(reader);
    EXPECT_TRUE(reader.finish());
    ASSERT_EQ(fds.size(), 1 + shape.descriptors());
    const GateSockets got = take_gate(shape, fds);
    EXPECT_EQ(fds.size(), 1U);
    EXPECT_EQ(got.resolver.get(), resolver);
    EXPECT_EQ(static_cast<bool>(got.steering), steered);
    ASSERT_EQ(got.listeners.size(), 2U);
    EXPECT_EQ(got.listeners[1].get(), listener);
  }
}

TEST(LauncherWire, AGateWithMoreListenersThanThereCanBeIsNone) {
  Writer writer = begin(Request::OpenGate);
  writer.put(std::uint8_t{1}).put(std::uint8_t{1}).put(std::uint32_t{1000});
  const Bytes bytes = writer.take();
  Reader reader = body(bytes);
  EXPECT_EQ(read_gate(reader).descriptors(), 0U);
}

TEST(LauncherWire, UnknownReasonsAndErrorsAreTheWorstOnes) {
  Bytes bytes = written(Status{});
  bytes[sizeof(Header)] = std::byte{200};
  Reader reader = body(bytes);
  EXPECT_EQ(read_status(reader).end, EndReason::InitDied);
  bytes = written(Error{});
  bytes[sizeof(Header)] = std::byte{99};
  reader = body(bytes);
  EXPECT_EQ(read_error(reader).code, Errc::Internal);
}

// A count is believed only when that many elements can still follow: no loop, no memory for lies.
TEST(LauncherWire, CountsThatCannotBeTrueAreErrors) {
  for (const std::uint32_t count :
       {std::uint32_t{kFoldersMax + 1}, std::uint32_t{3}, 0x7fffffffU, 0xffffffffU}) {
    Writer writer(Header{});
    writer.put(count).put(std::uint16_t{0});
    const Bytes bytes = writer.take();
    Reader reader = body(bytes);
    EXPECT_EQ(reader.get_count(kFoldersMax), 0U) << count;
    EXPECT_FALSE(reader.finish()) << count;
  }
}

TEST(LauncherWire, StringsThatAreTooLongAreErrorsAndAfterOneNothingIsRead) {
  Writer writer(Header{});
  writer.put(static_cast<std::uint32_t>(kStringBytesMax + 1));
  for (std::size_t i = 0; i <= kStringBytesMax; ++i) writer.put('x');
  writer.put_string("after");
  const Bytes bytes = writer.take();
  Reader reader = body(bytes);
  EXPECT_EQ(reader.get_string(), "");
  EXPECT_EQ(reader.get_string(), "");
  EXPECT_EQ(reader.get<std::uint32_t>(), 0U);
  EXPECT_EQ(reader.get_count(10), 0U);
  EXPECT_EQ(reader.finish().error().code, Errc::Protocol);
}

TEST(LauncherWire, AWriterNeverWritesAStringThatAReaderRefuses) {
  Writer writer(Header{});
  writer.put_string(std::string(kStringBytesMax + 100, 'x'));
  const Bytes bytes = writer.take();
  Reader reader = body(bytes);
  EXPECT_EQ(reader.get_string(), std::string(kStringBytesMax, 'x'));
  EXPECT_TRUE(reader.finish());
}

}  // namespace
}  // namespace caisson::engine::launcher_wire
