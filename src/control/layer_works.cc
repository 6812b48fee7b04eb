#include "control/layer_works.h"

#include <fcntl.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>

#include "sys/socket.h"

namespace caisson::control {
namespace {

using Stream = boost::asio::local::stream_protocol::socket;

constexpr std::size_t kReadBytes = 64UL * 1024;
constexpr std::uint32_t kJobProcesses = 32;

engine::LaunchRequest request_of(const LayerJob& job) {
  engine::LaunchRequest request;
  request.program = engine::Program::Layer;
  request.hostname = "layer";
  request.store_mounts = job.mounts;
  request.limits.memory_bytes = kJobMemoryBytes;
  request.limits.processes = kJobProcesses;
  request.limits.life_us =
      static_cast<std::uint64_t>(duration_cast<microseconds>(kJobLife).count());
  return request;
}

std::vector<std::byte> message_of(const LayerJob& job) {
  wire::Job body{};
  body.kind = job.kind;
  body.flags = job.flags;
  body.bytes_max = job.bytes_max;
  body.entries_max = job.entries_max;
  body.ratio_max = job.ratio_max;
  body.layers = job.layers;
  body.a_layers = job.a_layers;
  body.b_layers = job.b_layers;
  body.prefix_size = static_cast<std::uint32_t>(job.prefix.size());
  const wire::JobHeader header{wire::kLayerVersion, static_cast<std::uint32_t>(job.kind),
                               static_cast<std::uint32_t>(sizeof(body) + job.prefix.size())};
  std::vector<std::byte> out(sizeof(header) + sizeof(body) + job.prefix.size());
  std::memcpy(out.data(), &header, sizeof(header));
  std::memcpy(out.data() + sizeof(header), &body, sizeof(body));
  if (!job.prefix.empty())
    std::memcpy(out.data() + sizeof(header) + sizeof(body), job.prefix.data(), job.prefix.size());
  return out;
}

}  // namespace

// The sandbox of one job. Its end is a coroutine of its own, so that it comes whatever became of
// the one who waited for the job.
class LayerWorks::Box {
 public:
  Box(std::shared_ptr<Core> core, std::string id) : core_(std::move(core)), id_(std::move(id)) {
    core_->boxes.insert(id_);
  }
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  ~Box() {
    core_->boxes.erase(id_);
    if (!gone_) boost::asio::co_spawn(core_->executor, clear(core_, id_), boost::asio::detached);
  }
  void gone() noexcept { gone_ = true; }

 private:
  static awaitable<void> clear(std::shared_ptr<Core> core, std::string id) {
    if (core->launcher != nullptr) (void)co_await core->launcher->destroy(std::move(id));
  }
  std::shared_ptr<Core> core_;
  std::string id_;
  bool gone_ = false;
};

LayerWorks::LayerWorks(boost::asio::any_io_executor executor, milliseconds stall)
    : core_(std::make_shared<Core>()),
      held_(std::make_shared<Held>()),
      unpacks_(executor, kUnpacksMax),
      jobs_(executor, kJobsMax) {
  core_->executor = std::move(executor);
  core_->stall = stall;
}

LayerWorks::~LayerWorks() { close(); }

awaitable<Result<LayerResult>> LayerWorks::run(LayerJob job) {
  auto turn = co_await jobs_.take();
  if (!turn) co_return std::unexpected(turn.error());
  co_return co_await run(std::move(job), *std::move(turn));
}

awaitable<Result<LayerResult>> LayerWorks::run(LayerJob job, Turns::Turn turn) {
  const Turns::Turn held = std::move(turn);
  const auto core = core_;
  if (core->launcher == nullptr) co_return failure(Errc::Gone, "the server ends");
  std::vector<UniqueFd> no_folders;
  auto reply = co_await core->launcher->launch(request_of(job), std::move(no_folders));
  if (!reply) co_return std::unexpected(reply.error().within("layer"));
  Box box(core, reply->id);
  LayerResult result;
  auto outcome = co_await talk(core, std::move(reply->stream), job);
  if (!outcome) co_return std::unexpected(outcome.error());
  result.outcome = *std::move(outcome);
  if (job.layer.empty()) co_return result;
  if (job.keep) {
    const auto keep = job.keep(result.outcome);
    if (!keep) co_return std::unexpected(keep.error());
    if (!*keep) co_return result;
  }
  if (core->launcher == nullptr) co_return failure(Errc::Gone, "the server ends");
  const auto bytes = co_await core->launcher->commit_layer(reply->id, job.layer);
  if (!bytes) co_return std::unexpected(bytes.error().within("layer"));
  box.gone();
  result.kept = true;
  result.bytes = *bytes;
  co_return result;
}

awaitable<Result<LayerOutcome>> LayerWorks::talk(std::shared_ptr<Core> core, UniqueFd stream,
                                                 const LayerJob& job) {
  boost::system::error_code failed;
  const std::vector<std::byte> message = message_of(job);
  std::vector<int> fds;
  if (job.file) fds.push_back(job.file.get());
  if (job.out) fds.push_back(job.out.get());
  // The first message of a fresh socket, and far smaller than its buffer: it does not wait.
  if (const auto sent = sys::send_message(stream.get(), message, fds); !sent)
    co_return std::unexpected(sent.error().within("layer"));
  auto socket = std::make_shared<Stream>(core->executor);
  (void)socket->assign(boost::asio::local::stream_protocol(), stream.get(), failed);
  if (failed) co_return failure(Errc::Internal, "layer: " + failed.message());
  (void)stream.release();
  LayerAnswers answers(job.entries_kept);
  answers.progress = job.progress;
  std::vector<std::byte> buffer(kReadBytes);
  boost::asio::steady_timer patience(core->executor);
  const auto late = std::make_shared<bool>(false);
  for (;;) {
    patience.expires_after(core->stall);
    patience.async_wait([socket, late](const boost::system::error_code& stopped) {
      boost::system::error_code ignored;
      if (stopped) return;
      *late = true;
      (void)socket->cancel(ignored);
    });
    const std::size_t count = co_await socket->async_read_some(
        boost::asio::buffer(buffer),
        boost::asio::redirect_error(boost::asio::use_awaitable, failed));
    if (*late) co_return failure(Errc::TimedOut, "layer: its process stopped saying anything");
    if (failed || count == 0)
      co_return failure(Errc::Gone, "layer: its process ended before its job did");
    const auto over = answers.take(std::span(buffer).first(count));
    if (!over) co_return std::unexpected(over.error().within("layer"));
    if (*over) co_return std::move(answers.outcome());
  }
}

awaitable<Result<Turns::Turn>> LayerWorks::alone(std::string name) {
  std::erase_if(alone_, [](const auto& one) {
    return one.second->free() == 1 && one.second.use_count() == 1;
  });
  auto& turns = alone_[name];
  if (!turns) turns = std::make_shared<Turns>(core_->executor, 1);
  const auto kept = turns;
  co_return co_await kept->take();
}

LayerWorks::Hold::Hold(std::shared_ptr<Held> held, std::vector<std::string> names)
    : held_(std::move(held)), names_(std::move(names)) {
  for (const std::string& name : names_) ++held_->counts[name];
}

LayerWorks::Hold& LayerWorks::Hold::operator=(Hold&& other) noexcept {
  let_go();
  held_ = std::move(other.held_);
  names_ = std::move(other.names_);
  return *this;
}

LayerWorks::Hold::~Hold() { let_go(); }

void LayerWorks::Hold::let_go() noexcept {
  const auto held = std::exchange(held_, nullptr);
  if (!held) return;
  for (const std::string& name : names_) {
    const auto at = held->counts.find(name);
    if (at == held->counts.end() || --at->second > 0) continue;
    held->counts.erase(at);
    if (held->released) held->released(name);
  }
}

}  // namespace caisson::control
