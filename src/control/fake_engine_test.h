// A launcher and a store played by a test: sandboxes are FakeGuests on the test's own I/O thread,
// records and rows are vectors.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "control/fake_layers_test.h"
#include "control/open_fleet.h"
#include "engine/channel/fake_guest_test.h"
#include "store/store.h"

namespace caisson::control::test {

using engine::test::FakeGuest;

// What the launcher keeps; it outlives the channels of several servers.
struct FakeWorld {
  struct Box {
    std::shared_ptr<FakeGuest> guest;
    engine::Limits limits;
    engine::LayerStack stack;
    engine::Storage storage = engine::Storage::Memory;
    engine::Program program = engine::Program::Init;
    bool frozen = false;
    bool standing = false;
    std::string memory;  // that it stands still with
    bool ended = false;
    engine::EndReason reason = engine::EndReason::Running;
  };
  std::map<std::string, Box> boxes;
  std::vector<std::string> destroyed;
  std::vector<engine::LaunchRequest> requests;
  std::optional<Error> launch_fails;
  std::optional<policy::SandboxTier> refused_tier;
  bool connected = true;
  bool stopped = false;
  int launches_waiting = 0;
  int thaws = 0;
  int reclaims = 0;
  std::uint64_t cpu_us = 0;           // of every sandbox
  std::uint64_t cpu_us_per_look = 0;  // what it has used more at each look
  FakeStoreWorld store;
  std::map<std::string, std::map<std::string, std::string>> image_files;  // by topmost layer
};

class FakeLauncher final : public engine::LauncherChannel {
 public:
  FakeLauncher(boost::asio::any_io_executor executor, FakeWorld& world, Watcher watcher)
      : executor_(std::move(executor)), world_(world), watcher_(std::move(watcher)) {
    nonce_.fill(std::byte{3});
  }

  Watcher& watcher() { return watcher_; }
  void end(const std::string& id, engine::EndReason reason) {
    FakeWorld::Box& box = world_.boxes.at(id);
    box.ended = true;
    box.reason = reason;
    engine::Status status;
    status.end = reason;
    watcher_.on_ended(id, status);
  }

  awaitable<Result<engine::LaunchReply>> launch(engine::LaunchRequest request,
                                                std::vector<UniqueFd>) override {
    if (!world_.connected) co_return away();
    if (world_.launch_fails) co_return std::unexpected(*world_.launch_fails);
    if (auto bad = inject("launch")) co_return std::unexpected(*bad);
    if (const auto gate = world_.store.launch_waits) {
      ++world_.launches_waiting;
      if (co_await gate->wait() != engine::Wake::Woken) co_return failure(Errc::Gone, "left");
      --world_.launches_waiting;
    }
    if (world_.refused_tier == request.tier)
      co_return failure(Errc::Internal, "that kernel does not start");
    engine::LaunchReply reply;
    reply.id = request.id.empty() ? SandboxId::random()->str() : request.id;
    reply.nonce = nonce_;
    if (request.resume && !world_.store.uppers.contains(reply.id)) co_return none();
    for (const std::string& layer : request.stack.layers) {
      if (!world_.store.layers.contains(layer)) co_return none();
    }
    if (request.program == engine::Program::Layer) {
      auto ends = engine::test::socket_pair();
      reply.stream = std::move(ends.ours);
      boost::asio::co_spawn(executor_,
                            play_layer_tool(world_.store, request, std::move(ends.theirs)),
                            boost::asio::detached);
      world_.store.making[reply.id] = true;
    } else {
      reply.stream = connect(reply.id);
    }
    FakeWorld::Box& box = world_.boxes[reply.id];
    box.limits = request.limits;
    box.stack = request.stack;
    box.storage = request.storage;
    box.program = request.program;
    if (box.guest && !request.stack.layers.empty()) {
      const auto at = world_.image_files.find(request.stack.layers.front());
      if (at != world_.image_files.end()) box.guest->files = at->second;
    }
    if (request.storage == engine::Storage::Disk) world_.store.uppers.insert(reply.id);
    world_.requests.push_back(std::move(request));
    co_return reply;
  }
  awaitable<Result<engine::Joined>> join(std::string id) override {
    if (!world_.boxes.contains(id)) co_return none();
    engine::Joined joined;
    joined.stream = connect(id);
    joined.nonce = nonce_;
    co_return joined;
  }
  awaitable<Result<engine::Status>> destroy(std::string id) override {
    if (!world_.connected) co_return away();
    const auto at = world_.boxes.find(id);
    if (at == world_.boxes.end()) co_return none();
    if (at->second.guest) at->second.guest->close();
    world_.boxes.erase(at);
    world_.store.uppers.erase(id);
    world_.store.making.erase(id);
    world_.destroyed.push_back(std::move(id));
    co_return engine::Status{};
  }
  awaitable<Result<engine::Status>> stop(std::string id) override {
    if (!world_.connected) co_return away();
    if (auto bad = inject("stop")) co_return std::unexpected(*bad);
    const auto at = world_.boxes.find(id);
    if (at == world_.boxes.end()) co_return none();
    if (at->second.guest) at->second.guest->close();
    world_.boxes.erase(at);
    co_return engine::Status{};
  }

  awaitable<Result<engine::PoolFacts>> pool() override {
    engine::PoolFacts facts;
    facts.kind = "btrfs";
    facts.limits = facts.live_snapshots = world_.store.live_snapshots;
    co_return facts;
  }
  awaitable<Result<engine::Sealed>> seal(std::string id, std::string layer) override {
    if (auto bad = inject("seal")) co_return std::unexpected(*bad);
    const auto at = world_.boxes.find(id);
    if (at == world_.boxes.end()) co_return none();
    if (at->second.storage != engine::Storage::Disk) co_return busy();
    const bool running = world_.store.processes.contains(id);
    if (running && !world_.store.live_snapshots) co_return busy();
    world_.store.layers.insert(layer);
    if (!running) at->second.stack.layers.insert(at->second.stack.layers.begin(), layer);
    if (const auto gate = world_.store.seal_waits) {
      if (co_await gate->wait() != engine::Wake::Woken) co_return failure(Errc::Gone, "left");
    }
    // A launcher never answers in the same turn.
    co_await boost::asio::post(boost::asio::use_awaitable);
    if (world_.store.sealed_but) co_return std::unexpected(*world_.store.sealed_but);
    co_return engine::Sealed{running ? engine::SnapshotKind::Cow : engine::SnapshotKind::Stacked,
                             7};
  }
  awaitable<Result<void>> restack(std::string id, engine::LayerStack stack,
                                  bool end_processes) override {
    if (auto bad = inject("restack")) co_return std::unexpected(*bad);
    const auto at = world_.boxes.find(id);
    if (at == world_.boxes.end()) co_return none();
    if (world_.store.processes.contains(id) && !end_processes) co_return busy();
    world_.store.processes.erase(id);
    for (const std::string& layer : stack.layers) {
      if (!world_.store.layers.contains(layer)) co_return none();
    }
    at->second.stack = std::move(stack);
    co_return Result<void>();
  }
  awaitable<Result<std::uint64_t>> commit_layer(std::string id, std::string layer) override {
    if (auto bad = inject("commit")) co_return std::unexpected(*bad);
    if (world_.store.making.erase(id) == 0) co_return none();
    world_.boxes.erase(id);
    world_.store.layers.insert(std::move(layer));
    co_return 11;
  }
  awaitable<Result<void>> drop(engine::StoreEntry::Kind kind, std::string name) override {
    if (auto bad = inject("drop")) co_return std::unexpected(*bad);
    for (const auto& [id, box] : world_.boxes) {
      if (box.standing && box.memory == name) co_return busy();
      if (std::ranges::find(box.stack.layers, name) != box.stack.layers.end()) co_return busy();
    }
    const bool was = kind == engine::StoreEntry::Kind::Layer   ? world_.store.layers.erase(name) > 0
                     : kind == engine::StoreEntry::Kind::Upper ? world_.store.uppers.erase(name) > 0
                     : kind == engine::StoreEntry::Kind::Memory
                         ? world_.store.memories.erase(name) > 0
                         : world_.store.volumes.erase(name) > 0;
    if (!was) co_return none();
    world_.store.dropped.push_back(std::move(name));
    co_return Result<void>();
  }
  awaitable<Result<std::vector<engine::StoreEntry>>> stored() override {
    if (auto bad = inject("stored")) co_return std::unexpected(*bad);
    std::vector<engine::StoreEntry> out;
    using Kind = engine::StoreEntry::Kind;
    for (const std::string& name : world_.store.layers) out.push_back({Kind::Layer, name, 5});
    for (const std::string& name : world_.store.uppers) out.push_back({Kind::Upper, name, 0});
    for (const auto& [name, bytes] : world_.store.volumes) out.push_back({Kind::Volume, name, 3});
    for (const std::string& name : world_.store.memories) out.push_back({Kind::Memory, name, 7});
    co_return out;
  }
  awaitable<Result<void>> set_volume(std::string name, std::uint64_t bytes_max) override {
    if (auto bad = inject("volume")) co_return std::unexpected(*bad);
    world_.store.volumes[name] = bytes_max;
    co_return Result<void>();
  }
  awaitable<Result<void>> sync_store() override {
    if (auto bad = inject("sync")) co_return std::unexpected(*bad);
    ++world_.store.synced;
    co_return Result<void>();
  }
  awaitable<Result<engine::SavedMemory>> save_memory(std::string id, std::string memory,
                                                     bool) override {
    if (auto bad = inject("save_memory")) co_return std::unexpected(*bad);
    if (!world_.boxes.contains(id)) co_return none();
    world_.boxes.at(id).standing = true;
    world_.boxes.at(id).memory = memory;
    world_.store.memories.insert(memory);
    if (const auto gate = world_.store.save_waits) {
      if (co_await gate->wait() != engine::Wake::Woken) co_return failure(Errc::Gone, "left");
      if (!world_.boxes.contains(id)) co_return none();
    }
    engine::SavedMemory saved;
    saved.runtime = "fake 1";
    saved.files = world_.store.files_in_memories;
    co_return saved;
  }
  awaitable<Result<void>> go_on(std::string id) override {
    if (auto bad = inject("go_on")) co_return std::unexpected(*bad);
    if (!world_.boxes.contains(id)) co_return none();
    if (world_.store.saving > 0 && world_.store.saving-- > 0) co_return busy();
    world_.boxes.at(id).standing = false;
    co_return Result<void>();
  }
  awaitable<Result<engine::SavedMemory>> measure(std::string memory) override {
    if (auto bad = inject("measure")) co_return std::unexpected(*bad);
    if (!world_.store.memories.contains(memory)) co_return none();
    engine::SavedMemory found;
    found.bytes = 7;
    found.digest = "digest of " + memory;
    co_return found;
  }
  awaitable<Result<engine::Status>> status(std::string id) override {
    if (!world_.connected) co_return away();
    const auto at = world_.boxes.find(id);
    if (at == world_.boxes.end()) co_return none();
    engine::Status status;
    status.end = at->second.reason;
    status.usage.memory_bytes = 4711;
    status.usage.cpu_time_us = world_.cpu_us += world_.cpu_us_per_look;
    co_return status;
  }
  awaitable<Result<void>> freeze(std::string id) override {
    if (auto bad = inject("freeze")) co_return std::unexpected(*bad);
    world_.boxes.at(id).frozen = true;
    co_await boost::asio::post(boost::asio::use_awaitable);
    co_return Result<void>();
  }
  awaitable<Result<void>> thaw(std::string id) override {
    if (auto bad = inject("thaw")) co_return std::unexpected(*bad);
    ++world_.thaws;
    world_.boxes.at(id).frozen = false;
    co_await boost::asio::post(boost::asio::use_awaitable);
    co_return Result<void>();
  }
  awaitable<Result<engine::Status>> reclaim(std::string id) override {
    ++world_.reclaims;
    co_return co_await status(std::move(id));
  }
  awaitable<Result<void>> set_limits(std::string id, engine::Limits limits) override {
    world_.boxes.at(id).limits = limits;
    co_return Result<void>();
  }
  awaitable<Result<std::vector<engine::Living>>> living() override {
    std::vector<engine::Living> out;
    for (const auto& [id, box] : world_.boxes) {
      engine::Living one;
      one.id = id;
      one.limits = box.limits;
      one.stack = box.stack;
      one.storage = box.storage;
      one.frozen = box.frozen;
      one.standing = box.standing;
      one.ended = box.ended;
      out.push_back(std::move(one));
    }
    co_return out;
  }
  awaitable<Result<UniqueFd>> socket_inside(std::string, int family) override {
    // The test's own network stands for the sandbox's.
    co_return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  awaitable<Result<engine::GateSockets>> open_gate(std::string, std::vector<std::uint16_t>,
                                                   std::uint16_t) override {
    co_return failure(Errc::Unsupported, "no way out in a test without a kernel");
  }
  awaitable<Result<void>> stop_launcher() override {
    world_.stopped = true;
    co_return Result<void>();
  }
  bool connected() const noexcept override { return world_.connected; }

 private:
  static std::unexpected<Error> away() {
    return failure(Errc::LauncherGone, "the launcher is away");
  }
  static std::unexpected<Error> none() { return failure(Errc::NotFound, "no such sandbox"); }
  static std::unexpected<Error> busy() { return failure(Errc::Busy, "something runs in it"); }
  std::optional<Error> inject(const std::string& call) {
    const auto at = world_.store.fails.find(call);
    if (at != world_.store.fails.end()) return at->second;
    if (world_.store.fails_in >= 0 && world_.store.fails_in-- == 0)
      return Error{Errc::Internal, call + " fails", 0};
    return std::nullopt;
  }

  UniqueFd connect(const std::string& id) {
    auto ends = engine::test::socket_pair();
    auto guest = std::make_shared<FakeGuest>(executor_, std::move(ends.theirs), nonce_);
    FakeWorld::Box& box = world_.boxes[id];
    if (box.guest) {
      guest->files = box.guest->files;
      guest->processes = box.guest->processes;
      for (auto& [number, process] : guest->processes) process.attached = false;
      box.guest->close();
    }
    box.guest = guest;
    guest->begin();
    return std::move(ends.ours);
  }

  boost::asio::any_io_executor executor_;
  FakeWorld& world_;
  Watcher watcher_;
  engine::Nonce nonce_{};
};

class FakeStore final : public store::Store {
 public:
  void write(Batch batch, Done done) override {
    if (fails) {
      unwritten += batch.audit.size();
      return done(failure(Errc::StoreFull, "the disk is full"));
    }
    for (auto& event : batch.audit) rows.push_back(std::move(event));
    for (auto& record : batch.sandboxes) records[record.id] = std::move(record);
    for (const auto& key : batch.forgotten_files)
      std::erase_if(kept, [&](const auto& one) { return one.key == key; });
    for (auto& record : batch.files) {
      std::erase_if(kept, [&](const auto& one) { return one.key == record.key; });
      kept.push_back(std::move(record));
    }
    if (holds) {
      held.push_back(std::move(done));
    } else {
      done({});
    }
  }
  // What was written is written; whoever waits for it hears of it from here on.
  void tell() {
    holds = false;
    for (Done& done : std::exchange(held, {})) done({});
  }
  Result<std::vector<store::AuditRow>> audit(const store::AuditQuery&) override { return none(); }
  Result<store::Verdict> verify() override { return none(); }
  Result<std::vector<store::TokenRecord>> tokens() override { return none(); }
  Result<std::vector<store::SandboxRecord>> living() override {
    std::vector<store::SandboxRecord> out;
    for (const auto& [id, record] : records) {
      if (record.state != store::RecordState::Ended) out.push_back(record);
    }
    return out;
  }
  Result<std::vector<store::FileRecord>> files(store::FileKind kind) override {
    std::vector<store::FileRecord> out;
    for (const auto& record : kept) {
      if (record.key.kind == kind) out.push_back(record);
    }
    return out;
  }
  Result<std::optional<store::SandboxRecord>> sandbox(std::string_view) override { return none(); }
  Result<void> flush() override { return {}; }
  Counters counters() const override {
    Counters out;
    out.unwritten = unwritten;
    return out;
  }

  [[nodiscard]] const store::AuditEvent& last() const { return rows.back(); }

  bool fails = false;
  bool holds = false;
  std::vector<Done> held;
  std::uint64_t unwritten = 0;
  std::vector<store::AuditEvent> rows;
  std::map<std::string, store::SandboxRecord> records;
  std::vector<store::FileRecord> kept;

  [[nodiscard]] std::size_t count(store::FileKind kind) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(kept, [&](const auto& one) { return one.key.kind == kind; }));
  }
  [[nodiscard]] std::size_t actions(std::string_view action) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(rows, [&](const auto& one) { return one.action == action; }));
  }

 private:
  static std::unexpected<Error> none() { return failure(Errc::Unsupported, "not in this test"); }
};

}  // namespace caisson::control::test
