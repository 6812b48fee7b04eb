// doors/grpc/fakes_test.h — a door with nothing real behind it: sandboxes that are names, a token
// that is a word, and calls by gRPC-Web, whose status stands in the body.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doors/daiv/fake_exchange_test.h"
#include "doors/daiv/fake_fleet_test.h"
#include "doors/grpc/frame.h"
#include "doors/grpc/grpc.h"

namespace caisson::grpc::fake {

namespace asio = boost::asio;
using control::Caller;
using daiv::fake::Exchange;

inline constexpr std::string_view kToken = "red-token";

class Fleet final : public daiv::fake::EmptyFleet {
 public:
  std::map<std::string, control::SandboxView> boxes;
  std::optional<Error> destroy_fails;
  std::function<void()> on_create;
  std::function<void()> on_exec;
  bool is_ready = true;
  std::size_t made = 0;

  awaitable<Result<control::SandboxView>> create(const Caller& caller,
                                                 control::CreateWish wish) override {
    if (on_create) on_create();
    control::SandboxView view;
    view.id = "box" + std::to_string(++made);
    view.tenant = caller.tenant;
    view.labels = wish.labels;
    co_return boxes[view.id] = view;
  }
  Result<control::SandboxView> get(const Caller&, std::string_view id) override {
    const auto at = boxes.find(std::string(id));
    if (at == boxes.end()) return failure(Errc::NotFound, "no such sandbox");
    return at->second;
  }
  std::vector<control::SandboxView> list(const Caller& caller) override {
    std::vector<control::SandboxView> out;
    for (const auto& [id, view] : boxes) {
      if (view.tenant == caller.tenant) out.push_back(view);
    }
    return out;
  }
  awaitable<Result<void>> destroy(const Caller&, std::string id) override {
    if (destroy_fails) co_return std::unexpected(*destroy_fails);
    if (boxes.erase(id) == 0) co_return failure(Errc::NotFound, "no such sandbox");
    co_return Result<void>{};
  }
  awaitable<Result<control::ExecOutcome>> exec(const Caller&, std::string,
                                               control::ExecWish) override {
    if (on_exec) on_exec();
    co_return control::ExecOutcome{};
  }
  [[nodiscard]] Result<void> ready() const override {
    if (!is_ready) return failure(Errc::Busy, "not now");
    return {};
  }

#define CAISSON_NOT_HERE(type, name, ...) \
  awaitable<Result<type>> name(__VA_ARGS__) override { co_return not_here(); }
  CAISSON_NOT_HERE(control::FileView, stat, const Caller&, std::string, std::string, bool)
  CAISSON_NOT_HERE(std::vector<control::FileView>, list_files, const Caller&, std::string,
                   std::string, bool)
  CAISSON_NOT_HERE(control::Download, read_file, const Caller&, std::string, std::string,
                   std::optional<control::Range>)
  CAISSON_NOT_HERE(std::string, resolve_path, const Caller&, std::string, std::string)
  CAISSON_NOT_HERE(std::unique_ptr<control::ByteReader>, read_resolved, const Caller&, std::string,
                   std::string)
  CAISSON_NOT_HERE(std::unique_ptr<control::ByteWriter>, write_file, const Caller&, std::string,
                   std::string, WriteWish)
  CAISSON_NOT_HERE(void, make_folder, const Caller&, std::string, std::string, bool)
  CAISSON_NOT_HERE(std::uint64_t, remove, const Caller&, std::string, std::string, bool)
  CAISSON_NOT_HERE(control::ArchiveView, put_archive, const Caller&, std::string,
                   control::ArchiveWish)
  CAISSON_NOT_HERE(std::string, patch_since, const Caller&, std::string,
                   std::shared_ptr<const control::Baseline>)
  CAISSON_NOT_HERE(std::vector<control::FileView>, find_files, const Caller&, std::string,
                   control::FindWish)
  CAISSON_NOT_HERE(control::GrepView, grep_files, const Caller&, std::string, control::GrepWish)
  CAISSON_NOT_HERE(std::unique_ptr<control::SessionTurn>, session_turn, const Caller&, std::string,
                   milliseconds)
  CAISSON_NOT_HERE(control::SandboxView, set_labels, const Caller&, std::string,
                   std::map<std::string, std::string>)
  CAISSON_NOT_HERE(std::unique_ptr<control::PullStream>, pull_image, const Caller&,
                   control::PullWish)
  CAISSON_NOT_HERE(control::SandboxView, stop_sandbox, const Caller&, std::string)
  CAISSON_NOT_HERE(control::SandboxView, start_sandbox, const Caller&, std::string)
  CAISSON_NOT_HERE(engine::PoolFacts, storage, const Caller&)
  CAISSON_NOT_HERE(control::SandboxView, pause, const Caller&, std::string)
  CAISSON_NOT_HERE(control::SandboxView, resume, const Caller&, std::string)
  CAISSON_NOT_HERE(control::SandboxView, set_network, const Caller&, std::string,
                   control::NetworkWish)
  CAISSON_NOT_HERE(void, put_secret, const Caller&, std::string, std::string)
  CAISSON_NOT_HERE(void, remove_secret, const Caller&, std::string)
#undef CAISSON_NOT_HERE
  Result<std::shared_ptr<control::Spool>> spool(const Caller&) override { return not_here(); }
  Result<control::ImageView> image(const Caller&, std::string_view) override { return not_here(); }
  Result<std::vector<std::string>> secret_names(const Caller&) override { return not_here(); }
};

class Access final : public control::Access {
 public:
  Result<Caller> authenticate(std::string_view credential, std::string_view) override {
    if (credential != kToken) return failure(Errc::Unauthenticated, "no such token");
    Caller out;
    out.tenant = "default";
    out.actor = kToken;
    out.scopes = static_cast<std::uint8_t>(store::Scope::Admin);
    return out;
  }
  Result<Caller> caller_of(std::string_view) override { return authenticate(kToken, ""); }
  std::shared_ptr<void> watch(const Caller&, const asio::any_io_executor&,
                              std::function<void()>) override {
    return nullptr;
  }
  void denied(const Caller&, std::string_view) override {}
  awaitable<Result<control::NewToken>> create(const Caller&, control::TokenWish) override {
    co_return failure(Errc::Unsupported, "not in this test");
  }
  awaitable<Result<void>> revoke(const Caller&, std::string) override { co_return Result<void>{}; }
  [[nodiscard]] std::vector<store::TokenRecord> list(const Caller&) const override { return {}; }
  [[nodiscard]] bool empty() const override { return false; }
  [[nodiscard]] std::uint64_t failures() const override { return 0; }
};

// What came back: messages, and the status at their end.
struct Answer {
  std::vector<std::string> messages;
  std::string status;  // "0"; empty: there is none yet
  std::string words;
};

inline std::string framed(std::string_view message) {
  std::string out;
  const std::size_t begun = begin_frame(out);
  out += message;
  end_frame(out, begun);
  return out;
}

// What waits goes first, by a step of its own: it uses the door, and its timers are the loop's.
class Loop : public asio::io_context {
 public:
  void drop_waiting() { shutdown(); }
};

class DoorTest : public testing::Test {
 protected:
  DoorTest() {
    options_.on_failure = [this](std::string_view, const Error& error) {
      failures_.push_back(error.message);
    };
  }

  ~DoorTest() override { io_.drop_waiting(); }

  Door& door() {
    if (!door_) door_ = std::make_unique<Door>(fleet_, access_, options_);
    return *door_;
  }
  // Begins a call; the exchange lives as long as the test.
  Exchange& begin(const std::string& path, std::string body, bool token = true,
                  const std::string& peer = "127.0.0.1") {
    Exchange& exchange = *exchanges_.emplace_back(std::make_unique<Exchange>());
    exchange.wanted.method = http::Method::Post;
    exchange.wanted.path = path;
    exchange.wanted.peer = {peer, 1, true};
    exchange.wanted.fields = {{"content-type", "application/grpc-web+proto"}};
    if (token) exchange.wanted.fields.push_back({"authorization", std::string(kToken)});
    exchange.body_in = std::move(body);
    asio::co_spawn(io_, door().handle(exchange), asio::detached);
    turn();
    return exchange;
  }
  Answer ask(const std::string& path, std::string_view message, bool token = true) {
    return read(begin(path, framed(message), token));
  }
  template <class Request>
  Answer call(const std::string& method, const Request& request) {
    return ask("/sandbox.v1.SandboxService/" + method, request.SerializeAsString());
  }
  void turn() {
    io_.restart();
    io_.poll();
  }
  void sweep() {
    asio::co_spawn(io_, door().sweep(), asio::detached);
    turn();
  }
  static Answer read(const Exchange& exchange) {
    Answer out;
    std::string_view body = exchange.body;
    while (body.size() >= kFrameHeadBytes) {
      std::size_t size = 0;
      for (std::size_t i = 1; i < kFrameHeadBytes; ++i)
        size = size << 8U | static_cast<unsigned char>(body[i]);
      const bool trailers = static_cast<unsigned char>(body[0]) == kFlagTrailer;
      const std::string text(body.substr(kFrameHeadBytes, size));
      body.remove_prefix(kFrameHeadBytes + size);
      if (!trailers) {
        out.messages.push_back(text);
        continue;
      }
      const auto value = [&text](std::string_view name) {
        const std::size_t at = text.find(std::string(name) + ": ");
        if (at == std::string::npos) return std::string();
        const std::size_t begin = at + name.size() + 2;
        return text.substr(begin, text.find("\r\n", begin) - begin);
      };
      out.status = value("grpc-status");
      out.words = value("grpc-message");
    }
    return out;
  }

  Loop io_;
  Fleet fleet_;
  Access access_;
  GrpcOptions options_;
  std::vector<std::string> failures_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::unique_ptr<Door> door_;
};

}  // namespace caisson::grpc::fake
