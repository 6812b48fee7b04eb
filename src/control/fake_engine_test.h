// A launcher and a store played by a test: sandboxes are FakeGuests on the test's own I/O thread,
// records and rows are vectors.
#pragma once

#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/id.h"
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
    bool frozen = false;
    bool ended = false;
    engine::EndReason reason = engine::EndReason::Running;
  };
  std::map<std::string, Box> boxes;
  std::vector<std::string> destroyed;
  std::vector<engine::LaunchRequest> requests;
  std::optional<Error> launch_fails;
  bool connected = true;
  bool stopped = false;
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
    engine::LaunchReply reply;
    reply.id = SandboxId::random()->str();
    reply.stream = connect(reply.id);
    reply.nonce = nonce_;
    world_.boxes[reply.id].limits = request.limits;
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
    world_.destroyed.push_back(std::move(id));
    co_return engine::Status{};
  }
  awaitable<Result<engine::Status>> status(std::string id) override {
    if (!world_.connected) co_return away();
    const auto at = world_.boxes.find(id);
    if (at == world_.boxes.end()) co_return none();
    engine::Status status;
    status.end = at->second.reason;
    status.usage.memory_bytes = 4711;
    co_return status;
  }
  awaitable<Result<void>> freeze(std::string id) override {
    world_.boxes.at(id).frozen = true;
    co_return Result<void>();
  }
  awaitable<Result<void>> thaw(std::string id) override {
    world_.boxes.at(id).frozen = false;
    co_return Result<void>();
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
      one.frozen = box.frozen;
      one.ended = box.ended;
      out.push_back(std::move(one));
    }
    co_return out;
  }
  awaitable<Result<UniqueFd>> socket_inside(std::string, int family) override {
    // The test's own network stands for the sandbox's.
    co_return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }
  awaitable<Result<engine::GateSockets>> open_gate(std::string,
                                                   std::vector<std::uint16_t>) override {
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
    done({});
  }
  Result<std::vector<store::AuditRow>> audit(const store::AuditQuery&) override { return none(); }
  Result<store::Verdict> verify() override { return none(); }
  Result<std::vector<store::TokenRecord>> tokens() override { return none(); }
  Result<std::vector<store::SandboxRecord>> living() override {
    std::vector<store::SandboxRecord> out;
    for (const auto& [id, record] : records) {
      if (record.state == store::RecordState::Living) out.push_back(record);
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
  std::uint64_t unwritten = 0;
  std::vector<store::AuditEvent> rows;
  std::map<std::string, store::SandboxRecord> records;

 private:
  static std::unexpected<Error> none() { return failure(Errc::Unsupported, "not in this test"); }
};

}  // namespace caisson::control::test
