// doors/rest/fakes_test.h — a door with nothing real behind it: one sandbox, three tokens, and an
// exchange that remembers what was answered.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <deque>
#include <string>
#include <vector>

#include "doors/rest/collected_test.h"
#include "doors/rest/fake_file_state_test.h"
#include "doors/rest/fake_streams_test.h"
#include "doors/rest/rest.h"
#include "guest/protocol/protocol.h"
#include "http/field.h"

namespace caisson::rest::fake {

namespace asio = boost::asio;
namespace json = boost::json;
class Socket final : public http::WebSocket {
 public:
  struct Memory {
    std::deque<http::Message> incoming;  // then: closed, or silent
    bool stays = false;
    std::vector<http::Message> sent;
    std::optional<std::uint16_t> closed;
  };
  explicit Socket(Memory& memory) : memory_(memory) {}
  awaitable<Result<std::optional<http::Message>>> read() override {
    if (memory_.incoming.empty()) {
      if (memory_.stays) co_await for_ever();
      co_return std::optional<http::Message>{};
    }
    std::optional<http::Message> message = std::move(memory_.incoming.front());
    memory_.incoming.pop_front();
    co_return message;
  }
  awaitable<Result<void>> write(std::string_view bytes, bool text) override {
    memory_.sent.push_back({text, std::string(bytes)});
    co_return Result<void>{};
  }
  awaitable<void> close(std::uint16_t code, std::string_view) override {
    memory_.closed = code;
    co_return;
  }

 private:
  Memory& memory_;
};

class Exchange final : public http::Exchange {
 public:
  http::Request wanted;
  std::string body_in;
  bool hangs_up = false;                   // as soon as somebody looks
  std::size_t takes_bytes_max = SIZE_MAX;  // of the answer; then it is gone
  Socket::Memory socket;
  std::string protocol;

  unsigned code = 0;
  std::vector<http::Field> fields;
  std::string type;
  std::string body{};
  std::optional<std::uint64_t> length;
  bool ended = false;
  bool closing = false;
  bool was_cut = false;

  [[nodiscard]] std::string field(std::string_view name) const {
    for (const auto& field : fields) {
      if (http::same_name(field.name, name)) return field.value;
    }
    return {};
  }

  [[nodiscard]] const http::Request& request() const noexcept override { return wanted; }
  awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) override {
    const std::size_t count = std::min(out.size(), body_in.size() - taken_);
    std::memcpy(out.data(), body_in.data() + taken_, count);
    taken_ += count;
    co_return count;
  }
  void set(std::string_view name, std::string_view value) override {
    for (auto& field : fields) {
      if (http::same_name(field.name, name)) {
        field.value = value;
        return;
      }
    }
    fields.push_back({std::string(name), std::string(value)});
  }
  awaitable<void> respond(unsigned status, std::string_view content_type,
                          std::string text) override {
    code = status;
    type = content_type;
    body = std::move(text);
    ended = true;
    co_return;
  }
  awaitable<Result<void>> begin(unsigned status, std::string_view content_type,
                                std::optional<std::uint64_t> size) override {
    code = status;
    type = content_type;
    length = size;
    co_return Result<void>{};
  }
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    if (body.size() > takes_bytes_max) co_return failure(Errc::Gone, "the caller hung up");
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    co_return Result<void>{};
  }
  awaitable<Result<void>> end() override {
    ended = true;
    co_return Result<void>{};
  }
  [[nodiscard]] bool begun() const noexcept override { return code != 0; }
  [[nodiscard]] unsigned status() const noexcept override { return code; }
  void close_after() override { closing = true; }
  void cut() override { was_cut = true; }
  awaitable<void> wait_for_hangup() override {
    if (!hangs_up) co_await for_ever();
  }
  awaitable<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(
      std::string_view name) override {
    code = 101;
    protocol = name;
    co_return std::make_unique<Socket>(socket);
  }
  awaitable<Result<std::size_t>> raw_read(std::span<std::byte>) override {
    co_return std::size_t{0};
  }
  awaitable<Result<void>> raw_write(std::span<const std::byte>) override {
    co_return Result<void>{};
  }

 private:
  std::size_t taken_ = 0;
};

// Knows kId only. What it was asked for is in `calls`.
class Fleet final : public FileStateFleet {
 public:
  std::string file = "hello world";
  wire::EntryType file_type = wire::EntryType::File;
  std::string etag = "\"1-11-1\"";
  std::deque<control::OutputStream::Item> output;
  bool output_ends = true;
  control::CreateWish created;
  control::ExecWish executed;
  control::ExecOutcome outcome;
  control::CodeWish ran;
  control::CodeOutcome code_outcome;
  std::optional<Error> not_ready;

  control::FileView file_view() const {
    control::FileView out;
    out.entry.type = file_type;
    out.entry.size = file.size();
    out.entry.mode = 0644;
    out.path = "/workspace/a.txt";
    out.etag = etag;
    return out;
  }
  static control::ProcessView process_view(bool running) {
    control::ProcessView out;
    out.id = 4;
    out.running = running;
    out.terminal = true;
    if (!running) out.exit_code = 3;
    return out;
  }

#define CAISSON_FAKE(what) \
  if (auto bad = trouble(id, what)) co_return std::unexpected(*bad)
  awaitable<Result<control::SandboxView>> create(const Caller&, control::CreateWish wish) override {
    calls.emplace_back("create");
    if (fails) co_return std::unexpected(*fails);
    created = std::move(wish);
    co_return view();
  }
  Result<control::SandboxView> get(const Caller&, std::string_view id) override {
    if (id != kId) return std::unexpected(unknown());
    return view();
  }
  std::vector<control::SandboxView> list(const Caller&) override { return {view()}; }
  awaitable<Result<void>> destroy(const Caller&, std::string id) override {
    CAISSON_FAKE("destroy");
    co_return Result<void>{};
  }
  awaitable<Result<json::object>> execute_tool(const Caller&, std::string id, std::string tool,
                                               json::object arguments,
                                               engine::AdmitOutput admit) override {
    CAISSON_FAKE("tool " + tool);
    if (tool == "shell_exec") arguments["stdout"] = collected(outcome, admit).out;
    co_return arguments;
  }
  [[nodiscard]] json::array tools() const override { return {}; }
  awaitable<Result<control::ExecOutcome>> exec(const Caller&, std::string id,
                                               control::ExecWish wish) override {
    CAISSON_FAKE("exec");
    const control::ExecOutcome kept = collected(outcome, wish.admit);
    executed = std::move(wish);
    co_return kept;
  }
  awaitable<Result<control::OnceView>> run_once(const Caller&, control::CreateWish wish,
                                                control::ExecWish exec) override {
    calls.emplace_back("run " + wish.name);
    if (fails) co_return std::unexpected(*fails);
    const control::ExecOutcome kept = collected(outcome, exec.admit);
    executed = std::move(exec);
    co_return control::OnceView{view().id, kept};
  }
  awaitable<Result<control::ProcessView>> start(const Caller&, std::string id,
                                                control::ProcessWish wish) override {
    CAISSON_FAKE("start");
    executed = std::move(wish.exec);
    co_return process_view(true);
  }
  awaitable<Result<std::vector<control::ProcessView>>> processes(const Caller&,
                                                                 std::string id) override {
    CAISSON_FAKE("processes");
    co_return std::vector<control::ProcessView>{};
  }
  awaitable<Result<control::ProcessView>> process(const Caller&, std::string id,
                                                  std::uint32_t) override {
    CAISSON_FAKE("process");
    co_return process_view(true);
  }
  awaitable<Result<std::unique_ptr<control::OutputStream>>> attach(const Caller&, std::string id,
                                                                   std::uint32_t, std::uint64_t out,
                                                                   std::uint64_t err) override {
    CAISSON_FAKE("attach " + std::to_string(out) + " " + std::to_string(err));
    co_return std::make_unique<Output>(output, output_ends);
  }
  awaitable<Result<void>> write_input(const Caller&, std::string id, std::uint32_t,
                                      std::string bytes, bool close) override {
    CAISSON_FAKE("input " + bytes + (close ? "|" : ""));
    co_return Result<void>{};
  }
  awaitable<Result<void>> signal(const Caller&, std::string id, std::uint32_t, int number,
                                 bool tree) override {
    CAISSON_FAKE("signal " + std::to_string(number) + (tree ? " tree" : ""));
    co_return Result<void>{};
  }
  awaitable<Result<void>> resize(const Caller&, std::string id, std::uint32_t, std::uint16_t rows,
                                 std::uint16_t columns) override {
    CAISSON_FAKE("resize " + std::to_string(rows) + " " + std::to_string(columns));
    co_return Result<void>{};
  }
  awaitable<Result<control::ProcessView>> wait(const Caller&, std::string id, std::uint32_t,
                                               milliseconds timeout) override {
    CAISSON_FAKE("wait " + std::to_string(timeout.count()));
    co_return process_view(false);
  }
  awaitable<Result<void>> forget(const Caller&, std::string id, std::uint32_t) override {
    CAISSON_FAKE("forget");
    co_return Result<void>{};
  }
  awaitable<Result<control::CodeOutcome>> run_code(const Caller&, std::string id,
                                                   control::CodeWish wish) override {
    CAISSON_FAKE("code " + wish.code);
    ran = std::move(wish);
    co_return code_outcome;
  }
  awaitable<Result<control::ContextView>> create_context(const Caller&, std::string id,
                                                         control::ContextWish wish) override {
    CAISSON_FAKE("context " + std::string(control::to_string(wish.language)));
    control::ContextView made;
    made.id = "context";
    made.language = wish.language;
    co_return made;
  }
  awaitable<Result<std::vector<control::ContextView>>> contexts(const Caller&,
                                                                std::string id) override {
    CAISSON_FAKE("contexts");
    co_return std::vector<control::ContextView>(1);
  }
  awaitable<Result<void>> interrupt_context(const Caller&, std::string id,
                                            std::string context) override {
    CAISSON_FAKE("interrupt " + context);
    co_return Result<void>{};
  }
  awaitable<Result<void>> remove_context(const Caller&, std::string id,
                                         std::string context) override {
    CAISSON_FAKE("delete " + context);
    co_return Result<void>{};
  }
  awaitable<Result<control::FileView>> stat(const Caller&, std::string id, std::string path,
                                            bool) override {
    CAISSON_FAKE("stat " + path);
    co_return file_view();
  }
  awaitable<Result<std::vector<control::FileView>>> list_files(const Caller&, std::string id,
                                                               std::string path, bool) override {
    CAISSON_FAKE("list " + path);
    co_return std::vector<control::FileView>{file_view()};
  }
  awaitable<Result<std::string>> resolve_path(const Caller&, std::string, std::string) override {
    co_return failure(Errc::Unsupported, "the fake resolves no path");
  }
  awaitable<Result<std::unique_ptr<control::ByteReader>>> read_resolved(const Caller&, std::string,
                                                                        std::string) override {
    co_return failure(Errc::Unsupported, "the fake reads no resolved path");
  }
  awaitable<Result<control::Download>> read_file(const Caller&, std::string id, std::string path,
                                                 std::optional<control::Range> range) override {
    CAISSON_FAKE("read " + path);
    control::Download out;
    out.file = file_view();
    out.offset = range ? *range->first : 0;
    out.length = range ? *range->last - *range->first + 1 : file.size();
    out.bytes = std::make_unique<Reader>(file.substr(out.offset, out.length));
    co_return out;
  }
  awaitable<Result<std::unique_ptr<control::ByteWriter>>> write_file(const Caller&, std::string id,
                                                                     std::string path,
                                                                     WriteWish) override {
    CAISSON_FAKE("write " + path);
    co_return std::make_unique<Writer>(file);
  }
  awaitable<Result<void>> make_folder(const Caller&, std::string id, std::string path,
                                      bool) override {
    CAISSON_FAKE("mkdir " + path);
    co_return Result<void>{};
  }
  awaitable<Result<void>> move(const Caller&, std::string id, std::string from, std::string to,
                               bool) override {
    CAISSON_FAKE("move " + from + " " + to);
    co_return Result<void>{};
  }
  awaitable<Result<std::uint64_t>> remove(const Caller&, std::string id, std::string path,
                                          bool) override {
    CAISSON_FAKE("remove " + path);
    co_return std::uint64_t{1};
  }
  awaitable<Result<std::unique_ptr<control::WatchStream>>> watch(const Caller&, std::string id,
                                                                 std::string path, bool) override {
    CAISSON_FAKE("watch " + path);
    co_return std::make_unique<Watch>();
  }
  awaitable<Result<std::unique_ptr<control::ByteReader>>> tar_out(const Caller&, std::string id,
                                                                  std::string path) override {
    CAISSON_FAKE("tar_out " + path);
    co_return std::make_unique<Reader>("tar bytes");
  }
  awaitable<Result<std::unique_ptr<control::ByteWriter>>> tar_in(const Caller&, std::string id,
                                                                 std::string path) override {
    CAISSON_FAKE("tar_in " + path);
    co_return std::make_unique<Writer>(file);
  }
  awaitable<Result<control::SandboxView>> pause(const Caller&, std::string id) override {
    CAISSON_FAKE("pause");
    co_return view();
  }
  awaitable<Result<control::SandboxView>> resume(const Caller&, std::string id) override {
    CAISSON_FAKE("resume");
    co_return view();
  }
  awaitable<Result<control::SandboxView>> hibernate(const Caller&, std::string id) override {
    CAISSON_FAKE("hibernate");
    co_return view();
  }
  awaitable<Result<control::SandboxView>> set_limits(const Caller&, std::string id,
                                                     control::LimitWish) override {
    CAISSON_FAKE("limits");
    co_return view();
  }
  awaitable<Result<control::SandboxView>> set_network(const Caller&, std::string id,
                                                      control::NetworkWish) override {
    CAISSON_FAKE("network");
    co_return view();
  }
  awaitable<Result<void>> put_secret(const Caller&, std::string id, std::string value) override {
    CAISSON_FAKE("put_secret " + value);
    co_return Result<void>{};
  }
  Result<std::vector<std::string>> secret_names(const Caller&) override {
    return std::vector<std::string>{"a", "b"};
  }
  awaitable<Result<control::UsageView>> record_usage(const Caller&, std::string id,
                                                     control::UsageWish) override {
    CAISSON_FAKE("record_usage");
    co_return control::UsageView{};
  }
  awaitable<Result<void>> remove_secret(const Caller&, std::string id) override {
    CAISSON_FAKE("remove_secret");
    co_return Result<void>{};
  }
  awaitable<Result<control::UsageView>> usage(const Caller&, std::string id) override {
    CAISSON_FAKE("usage");
    co_return control::UsageView{};
  }
  std::function<Result<UniqueFd>()> on_connect;
  awaitable<Result<control::PortSocket>> connect_port(const Caller&, std::string id,
                                                      std::uint16_t port) override {
    CAISSON_FAKE("connect " + std::to_string(port));
    if (!on_connect) co_return failure(Errc::Protocol, "nobody listens there");
    auto inside = on_connect();
    if (!inside) co_return std::unexpected(inside.error());
    co_return control::PortSocket{*std::move(inside), nullptr};
  }
  awaitable<Result<control::PortSocket>> connect_again(const Caller& caller, std::string id,
                                                       std::uint16_t port) override {
    return connect_port(caller, std::move(id), port);
  }
  control::PortsView open_ports{{80}, {80, 8080}};
  awaitable<Result<control::PortsView>> ports(const Caller&, std::string id) override {
    CAISSON_FAKE("ports");
    co_return open_ports;
  }
  awaitable<Result<void>> wait_for_port(const Caller&, std::string id, std::uint16_t port,
                                        milliseconds) override {
    CAISSON_FAKE("wait for port " + std::to_string(port));
    co_return Result<void>();
  }
  Result<control::SandboxView> look_up(std::string_view id) override {
    return get(Caller{"default", "server", 8, 0, {}, {}}, id);
  }
  std::size_t living_of(std::string_view) const override { return 1; }
#undef CAISSON_FAKE
  Result<std::unique_ptr<control::EventStream>> events(const Caller&, std::optional<std::string>,
                                                       std::uint64_t after) override {
    calls.push_back("events " + std::to_string(after));
    return std::make_unique<Events>();
  }
  [[nodiscard]] control::FleetCounters counters() const override { return {}; }
  [[nodiscard]] Result<void> ready() const override {
    if (not_ready) return std::unexpected(*not_ready);
    return {};
  }
};

// Tokens are the words for their scopes: "read", "use", "create", "admin".
class Access final : public control::Access {
 public:
  bool open = false;
  bool withdrawn = false;  // as soon as a call begins
  std::vector<std::string> denials;
  Result<Caller> authenticate(std::string_view credential, std::string_view) override {
    Caller caller{"default", std::string(credential), 0, 0, {}, {}};
    if (open) caller.scopes = static_cast<std::uint8_t>(store::Scope::Admin);
    if (credential == "limited") return failure(Errc::Exhausted, "too many failures");
    constexpr std::pair<std::string_view, store::Scope> kTokens[] = {
        {"read", store::Scope::Read},
        {"use", store::Scope::Use},
        {"create", store::Scope::Create},
        {"admin", store::Scope::Admin}};
    for (const auto& [token, scope] : kTokens) {
      if (credential == token) caller.scopes = static_cast<std::uint8_t>(scope);
    }
    if (caller.scopes == 0) return failure(Errc::Unauthenticated, "a token is needed");
    if (caller.actor.empty()) caller.actor = "open";
    return caller;
  }
  Result<Caller> caller_of(std::string_view token) override { return authenticate(token, ""); }
  std::shared_ptr<void> watch(const Caller&, const asio::any_io_executor&,
                              std::function<void()> cut) override {
    if (withdrawn) cut();
    return nullptr;
  }
  void denied(const Caller&, std::string_view what) override { denials.emplace_back(what); }
  awaitable<Result<control::NewToken>> create(const Caller&, control::TokenWish wish) override {
    control::NewToken token;
    token.record.tenant = wish.tenant;
    token.record.scopes = wish.scopes;
    token.secret = "cais_secret";
    co_return token;
  }
  awaitable<Result<void>> revoke(const Caller&, std::string) override { co_return Result<void>{}; }
  [[nodiscard]] std::vector<store::TokenRecord> list(const Caller&) const override { return {}; }
  [[nodiscard]] bool empty() const override { return false; }
  [[nodiscard]] std::uint64_t failures() const override { return 7; }
};

class Store final : public store::Store {
 public:
  store::AuditQuery asked;
  void write(Batch, Done done) override { done({}); }
  Result<std::vector<store::AuditRow>> audit(const store::AuditQuery& query) override {
    asked = query;
    store::AuditRow row;
    row.sequence = 5;
    row.event.object = "bad \xff utf8";
    return std::vector<store::AuditRow>{row};
  }
  Result<store::Verdict> verify() override { return store::Verdict{true, 5, "ab", {}, ""}; }
  Result<std::vector<store::TokenRecord>> tokens() override { return {}; }
  Result<std::vector<store::SandboxRecord>> living() override { return {}; }
  Result<std::optional<store::SandboxRecord>> sandbox(std::string_view) override { return {}; }
  Result<void> flush() override { return {}; }
  [[nodiscard]] Counters counters() const override { return {}; }
};

class Log final : public rest::Log {
 public:
  std::vector<unsigned> statuses;
  std::vector<std::string> failures;
  void request(const RequestLine& line) override { statuses.push_back(line.status); }
  void failed(std::string_view, const Error& error) override { failures.push_back(error.message); }
};

// A request in one line, with the token "admin" unless told otherwise.
struct Ask {
  http::Method method = http::Method::Get;
  std::string path{};
  std::string query{};
  std::string body{};
  std::string token = "admin";
  std::string host = "localhost:8080";
  std::vector<http::Field> fields{};
  bool json = true;  // the body's type
};

class House {
 public:
  asio::io_context io;
  Fleet fleet;
  Access access;
  Store store;
  Log log;
  DoorOptions options;

  House() {
    options.hosts.names = {"localhost", "127.0.0.1:8080"};
    options.version = "9.9";
  }

  static void fill(Exchange& exchange, const Ask& ask) {
    http::Request& request = exchange.wanted;
    request.method = ask.method;
    request.method_text = std::string(http::to_string(ask.method));
    request.path = ask.path;
    request.query = ask.query;
    request.id = "00c4d7f1a2b3e596";
    request.peer = {"127.0.0.1", 1, true};
    request.fields = ask.fields;
    if (!ask.host.empty()) request.fields.push_back({"Host", ask.host});
    if (!ask.token.empty()) request.fields.push_back({"Authorization", "Bearer " + ask.token});
    exchange.body_in = ask.body;
    request.has_body = !ask.body.empty();
    if (request.has_body) request.content_length = ask.body.size();
    if (request.has_body && ask.json)
      request.fields.push_back({"Content-Type", "application/json"});
    for (const auto& field : ask.fields) {
      if (http::same_name(field.name, "Upgrade")) request.wants_websocket = true;
    }
  }
  // Runs until the door has answered; a door that waits for ever is a test that fails.
  void run(Exchange& exchange) {
    if (!door_) door_ = std::make_unique<Door>(fleet, access, store, log, options);
    bool done = false;
    asio::co_spawn(io, door_->handle(exchange),
                   [&done](const std::exception_ptr&) { done = true; });
    io.restart();
    const auto deadline = Clock::now() + seconds(10);
    while (!done && Clock::now() < deadline) io.run_one_for(milliseconds(100));
    if (!done) exchange.code = 0;
  }
  void close() { door_->close(); }
  std::unique_ptr<Exchange> ask(const Ask& ask) {
    auto exchange = std::make_unique<Exchange>();
    fill(*exchange, ask);
    run(*exchange);
    return exchange;
  }

 private:
  std::unique_ptr<Door> door_;
};

inline json::object error_of(const Exchange& exchange) {
  return json::parse(exchange.body).as_object().at("error").as_object();
}
inline std::string sandbox_path(std::string_view rest) {
  return "/api/v1/sandboxes/" + kId + std::string(rest);
}

}  // namespace caisson::rest::fake
