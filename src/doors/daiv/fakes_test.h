// doors/daiv/fakes_test.h — a door with nothing real behind it: sandboxes that are files in a map,
// commands that a test answers, and an exchange that remembers what was said.
#pragma once

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doors/daiv/daiv.h"
#include "doors/daiv/fake_exchange_test.h"
#include "doors/daiv/fake_fleet_test.h"
#include "doors/daiv/sessions.h"

namespace caisson::daiv::fake {

namespace asio = boost::asio;
namespace json = boost::json;

inline const std::string kId(26, 'a');
inline const std::string kOtherId(26, 'b');
inline constexpr std::string_view kKey = "notsosecret";

struct Node {
  wire::EntryType type = wire::EntryType::File;
  std::string content;  // or a link's target
  std::uint32_t mode = 0644;
  bool readable = true;
};

class Spool final : public control::Spool {
 public:
  Spool(std::uint64_t& largest, std::uint64_t max, bool keep)
      : largest_(largest), max_(max), keep_(keep) {}
  std::string bytes;
  awaitable<Result<void>> write(std::span<const std::byte> more) override {
    largest_ = std::max<std::uint64_t>(largest_, more.size());
    if (size_ + more.size() > max_) co_return failure(Errc::TooLarge, "the spool is full");
    size_ += more.size();
    if (keep_) bytes.append(reinterpret_cast<const char*>(more.data()), more.size());
    co_return Result<void>{};
  }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  awaitable<Result<std::size_t>> read(std::uint64_t offset, std::span<std::byte> out) override {
    const std::size_t count = std::min<std::size_t>(out.size(), bytes.size() - offset);
    std::memcpy(out.data(), bytes.data() + offset, count);
    co_return count;
  }

 private:
  std::uint64_t& largest_;
  std::uint64_t max_;
  bool keep_;
  std::uint64_t size_ = 0;
};

class Reader final : public control::ByteReader {
 public:
  explicit Reader(std::string content) : content_(std::move(content)) {}
  awaitable<Result<std::span<const std::byte>>> next() override {
    const std::size_t step = std::min<std::size_t>(7, content_.size() - at_);
    const std::size_t size =
        content_.size() > 4096 ? std::min<std::size_t>(4097, content_.size() - at_) : step;
    const auto piece = std::span(content_).subspan(at_, size);
    at_ += size;
    co_return std::as_bytes(piece);
  }

 private:
  std::string content_;
  std::size_t at_ = 0;
};

class Turn final : public control::SessionTurn {
 public:
  explicit Turn(std::set<std::string>& held, std::string id) : held_(held), id_(std::move(id)) {
    held_.insert(id_);
  }
  ~Turn() override { held_.erase(id_); }

 private:
  std::set<std::string>& held_;
  std::string id_;
};

class Kept final : public control::Baseline {};

class Pull final : public control::PullStream {
 public:
  explicit Pull(std::optional<Error> fails) : fails_(std::move(fails)) {}
  awaitable<Result<Item>> next() override {
    if (++count_ < 3) co_return Item(control::ImageProgress{});
    if (fails_) co_return std::unexpected(*fails_);
    co_return Item(control::ImageView{});
  }

 private:
  std::optional<Error> fails_;
  int count_ = 0;
};

class Fleet final : public EmptyFleet {
 public:
  std::map<std::string, control::SandboxView> boxes;
  std::map<std::string, Node> files;  // of whichever sandbox
  std::vector<std::string> calls;
  std::map<std::string, Error> fails;  // by the call's first word
  std::set<std::string> busy;          // sessions whose turn is taken
  std::function<void(const std::string& call)> on_call;
  std::map<std::string, std::string> secrets;
  control::CreateWish created;
  control::Caller creator;
  control::NetworkWish network;
  std::vector<control::ExecWish> execs;
  // What a command writes, and how it ends.
  std::function<control::ExecOutcome(const std::string& command, std::string& output)> on_exec;
  std::vector<control::ArchiveWish> archives;
  std::vector<std::string> archive_bytes;
  std::string patch_text;
  control::FindWish find_wish;
  std::vector<control::FileView> found;
  control::GrepWish grep_wish;
  control::GrepView grepped;
  std::set<std::string> image_names = {"alpine"};
  std::optional<Error> pull_fails;
  std::optional<Error> not_ready;
  bool disk = true;
  std::uint64_t largest_write = 0;
  std::uint64_t spool_max = UINT64_MAX;
  bool spool_keeps = true;
  std::size_t spools = 0;

  Fleet() { add(kId); }
  control::SandboxView& add(const std::string& id, std::string tenant = "default") {
    control::SandboxView view;
    view.id = id;
    view.tenant = std::move(tenant);
    view.persistent = true;
    view.labels[std::string(kTypeLabel)] = kTypeSession;
    return boxes[id] = view;
  }
  [[nodiscard]] std::size_t count(std::string_view word) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        calls, [&](const std::string& one) { return one.substr(0, one.find(' ')) == word; }));
  }
  std::optional<Error> begin(const std::string& call) {
    calls.push_back(call);
    if (on_call) on_call(call);
    const auto at = fails.find(call.substr(0, call.find(' ')));
    return at == fails.end() ? std::nullopt : std::optional(at->second);
  }
  Result<control::SandboxView*> box(const Caller& caller, std::string_view id) {
    const auto at = boxes.find(std::string(id));
    if (at == boxes.end() || at->second.tenant != caller.tenant)
      return failure(Errc::NotFound, "no such sandbox");
    return &at->second;
  }
  Result<Node*> node(const std::string& path, bool follow) {
    std::string at = path;
    for (int i = 0; i < 4; ++i) {
      const auto found_node = files.find(at);
      if (found_node == files.end())
        return std::unexpected(Error{Errc::NotFound, "stat: No such file", ENOENT, {}});
      if (!follow || found_node->second.type != wire::EntryType::Link) return &found_node->second;
      at = found_node->second.content;
      if (!at.starts_with('/')) at = path.substr(0, path.rfind('/') + 1) + at;
    }
    return std::unexpected(Error{Errc::Internal, "stat: Too many links", ELOOP, {}});
  }
  static control::FileView view_of(const std::string& path, const Node& node) {
    control::FileView view;
    view.path = path;
    view.entry.name = path.substr(path.rfind('/') + 1);
    view.entry.type = node.type;
    view.entry.mode = node.mode;
    view.entry.size = node.content.size();
    view.entry.inode = reinterpret_cast<std::uintptr_t>(&node);
    if (node.type == wire::EntryType::Link) view.entry.target = node.content;
    view.etag = "\"1\"";
    return view;
  }

#define CAISSON_BEGIN(what) \
  if (auto bad = begin(what)) co_return std::unexpected(*bad)
#define CAISSON_BOX(what)      \
  CAISSON_BEGIN(what);         \
  auto view = box(caller, id); \
  if (!view) co_return std::unexpected(view.error())
  awaitable<Result<control::SandboxView>> create(const Caller& caller,
                                                 control::CreateWish wish) override {
    creator = caller;
    created = wish;
    CAISSON_BEGIN("create " + wish.image.value_or(""));
    control::SandboxView& made = add(kOtherId, caller.tenant);
    made.labels = wish.labels;
    made.persistent = wish.persistent.value_or(false);
    co_return made;
  }
  Result<control::SandboxView> get(const Caller& caller, std::string_view id) override {
    return *TRY(box(caller, id));
  }
  std::vector<control::SandboxView> list(const Caller& caller) override {
    std::vector<control::SandboxView> out;
    for (const auto& [id, view] : boxes) {
      if (view.tenant == caller.tenant) out.push_back(view);
    }
    return out;
  }
  awaitable<Result<void>> destroy(const Caller& caller, std::string id) override {
    CAISSON_BOX("destroy " + id);
    boxes.erase(id);
    co_return Result<void>{};
  }
  awaitable<Result<control::ExecOutcome>> exec(const Caller& caller, std::string id,
                                               control::ExecWish wish) override {
    CAISSON_BOX("exec " + wish.argv.back());
    std::string output;
    control::ExecOutcome outcome;
    if (on_exec) outcome = on_exec(wish.argv.back(), output);
    execs.push_back(wish);
    for (std::size_t at = 0; at < output.size(); at += 5000) {
      auto taken = co_await wish.sink(false, std::string_view(output).substr(at, 5000));
      if (!taken) co_return std::unexpected(taken.error());
    }
    co_return outcome;
  }
  awaitable<Result<control::FileView>> stat(const Caller& caller, std::string id, std::string path,
                                            bool follow) override {
    CAISSON_BOX("stat " + path);
    auto at = node(path, follow);
    if (!at) co_return std::unexpected(at.error());
    co_return view_of(path, **at);
  }
  awaitable<Result<std::vector<control::FileView>>> list_files(const Caller& caller, std::string id,
                                                               std::string path, bool) override {
    CAISSON_BOX("list " + path);
    while (path.ends_with('/')) path.pop_back();
    auto at = node(path, true);
    if (!at) co_return std::unexpected(at.error());
    if ((*at)->type != wire::EntryType::Folder)
      co_return std::unexpected(Error{Errc::NotFound, "list: Not a directory", ENOTDIR, {}});
    if (!(*at)->readable)
      co_return std::unexpected(Error{Errc::Denied, "list: Permission denied", EACCES, {}});
    std::vector<control::FileView> out;
    for (const auto& [name, one] : files) {
      if (name.starts_with(path + "/") && name.find('/', path.size() + 1) == name.npos)
        out.insert(out.begin(), view_of(name, one));
    }
    co_return out;
  }
  awaitable<Result<std::string>> resolve_path(const Caller&, std::string, std::string) override {
    co_return failure(Errc::Unsupported, "the fake resolves no path");
  }
  awaitable<Result<std::unique_ptr<control::ByteReader>>> read_resolved(const Caller&, std::string,
                                                                        std::string) override {
    co_return failure(Errc::Unsupported, "the fake reads no resolved path");
  }
  awaitable<Result<control::Download>> read_file(const Caller& caller, std::string id,
                                                 std::string path,
                                                 std::optional<control::Range>) override {
    CAISSON_BOX("read " + path);
    auto at = node(path, true);
    if (!at) co_return std::unexpected(at.error());
    if (!(*at)->readable)
      co_return std::unexpected(Error{Errc::Denied, "read: Permission denied", EACCES, {}});
    control::Download out;
    out.bytes = std::make_unique<Reader>((*at)->content);
    co_return out;
  }
  class Writer final : public control::ByteWriter {
   public:
    Writer(Fleet& fleet, std::string path, WriteWish wish)
        : fleet_(fleet), path_(std::move(path)), wish_(std::move(wish)) {}
    awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
      content_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      co_return Result<void>{};
    }
    awaitable<Result<Written>> finish() override {
      Node& node = fleet_.files[path_];
      if (wish_.mode != 0) node.mode = wish_.mode;
      node.type = wire::EntryType::File;
      node.content = content_;
      co_return Written{content_.size(), 1};
    }

   private:
    Fleet& fleet_;
    std::string path_;
    WriteWish wish_;
    std::string content_;
  };
  awaitable<Result<std::unique_ptr<control::ByteWriter>>> write_file(const Caller& caller,
                                                                     std::string id,
                                                                     std::string path,
                                                                     WriteWish wish) override {
    CAISSON_BOX("write " + path);
    const auto parent = files.find(path.substr(0, path.rfind('/')));
    if (parent != files.end() && parent->second.type == wire::EntryType::File)
      co_return std::unexpected(Error{Errc::NotFound, "write: Not a directory", ENOTDIR, {}});
    co_return std::make_unique<Writer>(*this, path, wish);
  }
  awaitable<Result<void>> make_folder(const Caller& caller, std::string id, std::string path,
                                      bool) override {
    CAISSON_BOX("mkdir " + path);
    fails.erase("exec");
    co_return Result<void>{};
  }
  awaitable<Result<std::uint64_t>> remove(const Caller& caller, std::string id, std::string path,
                                          bool) override {
    CAISSON_BOX("remove " + path);
    co_return std::uint64_t{files.erase(path)};
  }
  Result<std::shared_ptr<control::Spool>> spool(const Caller&) override {
    ++spools;
    if (auto bad = begin("spool")) return std::unexpected(*bad);
    return std::make_shared<Spool>(largest_write, spool_max, spool_keeps);
  }
  awaitable<Result<control::ArchiveView>> put_archive(const Caller& caller, std::string id,
                                                      control::ArchiveWish wish) override {
    archives.push_back(wish);
    archive_bytes.push_back(dynamic_cast<Spool&>(*wish.archive).bytes);
    CAISSON_BOX("archive " + wish.path);
    control::ArchiveView out;
    if (wish.baseline) out.baseline = std::make_shared<Kept>();
    co_return out;
  }
  awaitable<Result<std::string>> patch_since(
      const Caller& caller, std::string id,
      std::shared_ptr<const control::Baseline> baseline) override {
    CAISSON_BOX(std::string(baseline ? "patch" : "patch without a baseline"));
    co_return patch_text;
  }
  awaitable<Result<std::vector<control::FileView>>> find_files(const Caller& caller, std::string id,
                                                               control::FindWish wish) override {
    CAISSON_BOX("find " + wish.pattern);
    find_wish = std::move(wish);
    co_return found;
  }
  awaitable<Result<control::GrepView>> grep_files(const Caller& caller, std::string id,
                                                  control::GrepWish wish) override {
    CAISSON_BOX("grep " + wish.pattern);
    grep_wish = std::move(wish);
    co_return grepped;
  }
  awaitable<Result<std::unique_ptr<control::SessionTurn>>> session_turn(const Caller& caller,
                                                                        std::string id,
                                                                        milliseconds) override {
    CAISSON_BOX("turn " + id);
    if (busy.contains(id)) co_return failure(Errc::Busy, "in use");
    co_return std::make_unique<Turn>(busy, id);
  }
  awaitable<Result<control::SandboxView>> set_labels(
      const Caller& caller, std::string id, std::map<std::string, std::string> labels) override {
    CAISSON_BOX("labels " + labels.begin()->first + "=" + labels.begin()->second);
    for (const auto& [name, value] : labels) {
      (*view)->labels[name] = value;
      if (value.empty()) (*view)->labels.erase(name);
    }
    co_return **view;
  }
  awaitable<Result<std::unique_ptr<control::PullStream>>> pull_image(
      const Caller&, control::PullWish wish) override {
    CAISSON_BEGIN("pull " + wish.reference);
    if (wish.refresh) co_return failure(Errc::Internal, "nobody asked to refresh it");
    co_return std::make_unique<Pull>(pull_fails);
  }
  Result<control::ImageView> image(const Caller&, std::string_view reference) override {
    if (reference.empty() || reference == "UPPER")
      return bad_field("image", "image: is no reference");
    if (!image_names.contains(std::string(reference)))
      return failure(Errc::NotFound, "image is not here");
    return control::ImageView{};
  }
  awaitable<Result<control::SandboxView>> change(const Caller& caller, std::string id,
                                                 std::string what, control::State state) {
    CAISSON_BOX(what + " " + id);
    (*view)->state = state;
    co_return **view;
  }
  awaitable<Result<control::SandboxView>> stop_sandbox(const Caller& caller,
                                                       std::string id) override {
    co_return co_await change(caller, id, "stop", control::State::Stopped);
  }
  awaitable<Result<control::SandboxView>> start_sandbox(const Caller& caller,
                                                        std::string id) override {
    co_return co_await change(caller, id, "start", control::State::Running);
  }
  awaitable<Result<control::SandboxView>> pause(const Caller& caller, std::string id) override {
    co_return co_await change(caller, id, "pause", control::State::Paused);
  }
  awaitable<Result<control::SandboxView>> resume(const Caller& caller, std::string id) override {
    co_return co_await change(caller, id, "resume", control::State::Running);
  }
  awaitable<Result<control::SandboxView>> hibernate(const Caller& caller, std::string id) override {
    co_return co_await change(caller, id, "hibernate", control::State::Hibernated);
  }
  awaitable<Result<engine::PoolFacts>> storage(const Caller&) override {
    CAISSON_BEGIN("storage");
    engine::PoolFacts facts;
    facts.limits = disk;
    co_return facts;
  }
  awaitable<Result<control::SandboxView>> set_network(const Caller& caller, std::string id,
                                                      control::NetworkWish wish) override {
    CAISSON_BOX("network " + id);
    creator = caller;
    network = std::move(wish);
    co_return **view;
  }
  awaitable<Result<void>> put_secret(const Caller&, std::string name, std::string value) override {
    CAISSON_BEGIN("put_secret " + name);
    secrets[name] = value;
    co_return Result<void>{};
  }
  Result<std::vector<std::string>> secret_names(const Caller&) override {
    std::vector<std::string> out;
    for (const auto& [name, value] : secrets) out.push_back(name);
    return out;
  }
  awaitable<Result<void>> remove_secret(const Caller&, std::string name) override {
    CAISSON_BEGIN("remove_secret " + name);
    secrets.erase(name);
    co_return Result<void>{};
  }
  [[nodiscard]] Result<void> ready() const override {
    if (not_ready) return std::unexpected(*not_ready);
    return {};
  }
#undef CAISSON_BOX
#undef CAISSON_BEGIN
};

// Tokens are "TENANT/SCOPE".
class Access final : public control::Access {
 public:
  bool open = false;
  std::vector<std::string> tenants;
  std::size_t asked = 0;
  Result<Caller> authenticate(std::string_view credential, std::string_view) override {
    ++asked;
    if (open) return Caller{"default", "open", 8, 0, {}, {}};
    if (credential == "limited") return failure(Errc::Exhausted, "too many failures");
    const std::size_t slash = credential.find('/');
    if (slash == credential.npos) return failure(Errc::Unauthenticated, "a token is needed");
    const std::string_view scope = credential.substr(slash + 1);
    const std::uint8_t scopes = scope == "admin"    ? 8
                                : scope == "create" ? 7
                                : scope == "use"    ? 3
                                                    : 1;
    return Caller{std::string(credential.substr(0, slash)), "token", scopes, 0, {}, {}};
  }
  Result<Caller> caller_of(std::string_view token) override { return authenticate(token, ""); }
  std::shared_ptr<void> watch(const Caller&, const asio::any_io_executor&,
                              std::function<void()>) override {
    return nullptr;
  }
  void denied(const Caller&, std::string_view) override {}
  awaitable<Result<control::NewToken>> create(const Caller&, control::TokenWish) override {
    co_return control::NewToken{};
  }
  awaitable<Result<void>> revoke(const Caller&, std::string) override { co_return Result<void>{}; }
  [[nodiscard]] std::vector<store::TokenRecord> list(const Caller&) const override {
    std::vector<store::TokenRecord> out;
    for (const std::string& tenant : tenants) out.emplace_back().tenant = tenant;
    return out;
  }
  [[nodiscard]] bool empty() const override { return false; }
  [[nodiscard]] std::uint64_t failures() const override { return 0; }
};

struct Ask {
  http::Method method = http::Method::Post;
  std::string path{};
  std::string body{};
  std::string query{};
  std::string key = std::string(kKey);
  std::string type = "application/json";
};

class House {
 public:
  asio::io_context io;
  Fleet fleet;
  Access access;
  DaivOptions options;
  std::vector<std::string> failures;
  TimePoint now{seconds(1'000'000)};
  store::WallTime wall = 5'000'000'000'000'000;

  House() {
    options.api_key = kKey;
    options.now = [this] { return now; };
    options.wall = [this] { return wall; };
    options.on_failure = [this](std::string_view, const Error& error) {
      failures.push_back(error.message);
    };
  }
  Door& door() {
    if (!door_) door_ = std::make_unique<Door>(fleet, access, options);
    return *door_;
  }
  static void fill(Exchange& exchange, const Ask& ask) {
    http::Request& request = exchange.wanted;
    request.method = ask.method;
    request.method_text = std::string(http::to_string(ask.method));
    request.path = ask.path;
    request.query = ask.query;
    request.peer = {"127.0.0.1", 1, true};
    request.fields.push_back({"Host", "sandbox:8000"});
    if (!ask.key.empty()) request.fields.push_back({"X-API-KEY", ask.key});
    if (!ask.type.empty()) request.fields.push_back({"Content-Type", ask.type});
    exchange.body_in = ask.body;
    request.has_body = !ask.body.empty();
    if (request.has_body) request.content_length = ask.body.size();
  }
  void finish(awaitable<void> work) {
    bool done = false;
    asio::co_spawn(io, std::move(work), [&done](const std::exception_ptr& bug) {
      done = true;
      if (bug) std::rethrow_exception(bug);
    });
    io.restart();
    const auto deadline = Clock::now() + seconds(60);
    while (!done && Clock::now() < deadline) io.run_one_for(milliseconds(100));
  }
  void run(Exchange& exchange) { finish(door().handle(exchange)); }
  std::unique_ptr<Exchange> ask(const Ask& wanted) {
    auto exchange = std::make_unique<Exchange>();
    fill(*exchange, wanted);
    run(*exchange);
    return exchange;
  }
  // On the session kId.
  std::unique_ptr<Exchange> post(const std::string& rest, std::string body) {
    return ask({http::Method::Post, "/session/" + kId + "/" + rest, std::move(body)});
  }
  void sweep() { finish(door().sweep()); }
  void close() { door().close(); }

 private:
  std::unique_ptr<Door> door_;
};

}  // namespace caisson::daiv::fake
