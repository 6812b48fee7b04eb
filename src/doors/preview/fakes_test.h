// doors/preview/fakes_test.h — a door with nothing real behind it: two sandboxes of two tenants,
// tokens that are words, and a program that has said all it will say before it is asked.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <string>
#include <vector>

#include "doors/daiv/fake_exchange_test.h"
#include "doors/daiv/fake_fleet_test.h"
#include "doors/preview/preview.h"
#include "sys/socket.h"

namespace caisson::preview::fake {

namespace asio = boost::asio;
using control::Caller;
using daiv::fake::Exchange;

inline const std::string kRed(26, 'a');   // of the tenant "red"
inline const std::string kBlue(26, 'b');  // of the tenant "blue"
inline const std::string kNone(26, 'c');  // of nobody
inline const std::string kVhost = "box.example";
inline const std::string kRedToken = "cais_" + std::string(12, 'a') + "_" + std::string(52, 'a');
inline const std::string kBlueToken = "cais_" + std::string(12, 'b') + "_" + std::string(52, 'b');
inline const std::string kReadToken = "cais_" + std::string(12, 'r') + "_" + std::string(52, 'r');
inline const std::string kOldToken = "taken-over-from-another-system-1";  // of "red"

class Fleet final : public daiv::fake::EmptyFleet {
 public:
  std::map<std::string, control::SandboxView, std::less<>> all;
  control::PortsView listening{{}, {8000}};
  std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok";
  std::vector<std::string> calls;
  UniqueFd program;    // the other end of the last connection
  bool stays = false;  // it says nothing more, and does not close either
  std::vector<UniqueFd> staying{};
  std::optional<Error> refuses;

  Fleet() {
    add(kRed, "red");
    add(kBlue, "blue");
  }
  void add(const std::string& id, const std::string& tenant) {
    all[id].id = id;
    all[id].tenant = tenant;
  }
  std::string heard() const {
    std::string text(64UL * 1024, '\0');
    const ssize_t got = ::recv(program.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

  Result<control::SandboxView> look_up(std::string_view id) override {
    const auto found = all.find(id);
    if (found == all.end()) return failure(Errc::NotFound, "there is no sandbox");
    return found->second;
  }
  awaitable<Result<control::PortSocket>> connect_port(const Caller& caller, std::string id,
                                                      std::uint16_t port) override {
    calls.push_back("connect " + caller.tenant + " " + id.substr(0, 1) + " " +
                    std::to_string(port));
    co_return open();
  }
  awaitable<Result<control::PortSocket>> connect_again(const Caller& caller, std::string id,
                                                       std::uint16_t port) override {
    calls.push_back("again " + caller.tenant + " " + id.substr(0, 1) + " " + std::to_string(port));
    co_return open();
  }
  awaitable<Result<control::PortsView>> ports(const Caller&, std::string) override {
    calls.emplace_back("ports");
    co_return listening;
  }

#define CAISSON_NOT_HERE(type, name, ...) \
  awaitable<Result<type>> name(__VA_ARGS__) override { co_return not_here(); }
  CAISSON_NOT_HERE(control::SandboxView, create, const Caller&, control::CreateWish)
  CAISSON_NOT_HERE(void, destroy, const Caller&, std::string)
  CAISSON_NOT_HERE(control::ExecOutcome, exec, const Caller&, std::string, control::ExecWish)
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
  Result<control::SandboxView> get(const Caller&, std::string_view) override { return not_here(); }
  std::vector<control::SandboxView> list(const Caller&) override { return {}; }
  Result<std::shared_ptr<control::Spool>> spool(const Caller&) override { return not_here(); }
  Result<control::ImageView> image(const Caller&, std::string_view) override { return not_here(); }
  Result<std::vector<std::string>> secret_names(const Caller&) override { return not_here(); }
  [[nodiscard]] Result<void> ready() const override { return {}; }

 private:
  Result<UniqueFd> open() {
    if (refuses) return std::unexpected(*refuses);
    auto pair = sys::stream_pair();
    if (!pair) return std::unexpected(pair.error());
    program = std::move(pair->theirs);
    (void)::send(program.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (stays) {
      staying.push_back(std::move(program));
    } else {
      (void)::shutdown(program.get(), SHUT_WR);
    }
    return std::move(pair->ours);
  }
};

class Access final : public control::Access {
 public:
  bool open = false;
  int guesses = 0;
  std::optional<Error> refuses;

  Result<Caller> authenticate(std::string_view credential, std::string_view) override {
    if (refuses) return std::unexpected(*refuses);
    if (credential == kRedToken || credential == kOldToken) return caller("red");
    if (credential == kBlueToken) return caller("blue");
    if (credential == kReadToken) return caller("red", store::Scope::Read);
    ++guesses;
    return failure(Errc::Unauthenticated, "no such token");
  }
  Result<Caller> caller_of(std::string_view token) override;
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

  static Caller caller(std::string tenant, store::Scope scope = store::Scope::Use) {
    Caller out;
    out.tenant = std::move(tenant);
    out.actor = out.tenant + "-token";
    out.scopes = static_cast<std::uint8_t>(scope);
    return out;
  }
};

// Secrets are their numbers.
class Logins final : public control::Logins {
 public:
  struct Login {
    Caller caller;
    std::string purpose;
    seconds life{0};
  };
  std::map<std::string, Login, std::less<>> all;

  Result<std::string> open(const Caller& caller, std::string purpose, seconds life) override {
    std::string secret = "secret" + std::to_string(++last_);
    all[secret] = {caller, std::move(purpose), life};
    return secret;
  }
  Result<Caller> find(std::string_view secret, std::string_view purpose) override {
    const auto found = all.find(secret);
    if (found == all.end() || found->second.purpose != purpose) {
      return failure(Errc::Unauthenticated, "no such login");
    }
    return found->second.caller;
  }
  Result<Caller> take(std::string_view secret, std::string_view purpose) override {
    auto caller = find(secret, purpose);
    if (caller) close(secret);
    return caller;
  }
  void close(std::string_view secret) override { all.erase(all.find(secret)); }
  void close_purpose(std::string_view) override {}
  [[nodiscard]] std::size_t count() const override { return all.size(); }

 private:
  int last_ = 0;
};

}  // namespace caisson::preview::fake
