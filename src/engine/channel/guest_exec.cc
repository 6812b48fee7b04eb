// execute(): one Start frame in the caller's turn, one resume at the end.
#include <algorithm>
#include <utility>

#include "engine/channel/guest_core.h"
#include "engine/link/exec_exit.h"

namespace caisson::engine {
namespace {

using wire::Kind;

constexpr milliseconds kAnswerMargin{5'000};  // beyond the command's own deadline

StartOptions start_options(ExecRequest& request) {
  StartOptions options;
  options.argv = std::move(request.argv);
  options.env = std::move(request.env);
  options.cwd = std::move(request.cwd);
  options.uid = request.user.uid;
  options.gid = request.user.gid;
  options.groups = std::move(request.groups);
  options.flags = wire::kStartQuiet | wire::kStartAutoForget | wire::kStartAttach;
  if (!request.input.empty()) options.flags |= wire::kStartStdin;
  if (request.merge_error) options.flags |= wire::kStartMergeError;
  if (!request.keep_background && !request.hold) options.flags |= wire::kStartKillTree;
  if (request.hold) options.flags |= wire::kStartHold;
  options.mode = wire::Mode::Collect;
  options.timeout = request.timeout;
  options.grace = request.grace;
  options.ring_bytes = request.output_bytes_max;
  options.window_bytes = 0;
  return options;
}

// One running exec: what has come, and what is still to be fed.
class Run {
 public:
  Run(GuestLink& link, std::uint32_t id, std::string input, AdmitOutput admit)
      : link_(link), id_(id), input_(std::move(input)), admit_(std::move(admit)) {}

  void feed() {
    if (input_.empty() || closed_) return;
    const auto taken = link_.input(id_, std::as_bytes(std::span(input_)).subspan(fed_));
    if (!taken) return;  // the link's death answers the call
    fed_ += *taken;
    if (fed_ == input_.size()) closed_ = link_.close_input(id_).has_value();
  }

  void take(const Frame& frame) {
    if (frame.kind == Kind::Data) {
      const auto bytes = frame.payload.subspan(sizeof(wire::DataHeader));
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const bool out = frame.stream == static_cast<std::uint16_t>(wire::Stream::Output);
      if (out) keep(text, result.out, result.out_lost);
      if (!out) keep(text, result.err, result.err_lost);
    } else if (frame.kind == Kind::Credit) {
      feed();
    } else if (frame.kind == Kind::Exited) {
      wire::ExitedBody body{};
      if (wire::parse_exact(frame.bytes(), body)) take_exit(result, body);
    }
  }

  ExecResult result;

 private:
  // What is kept is a beginning without holes.
  void keep(std::string_view text, std::string& kept, std::uint64_t& lost) {
    if (lost == 0 && (!admit_ || admit_(text.size()))) {
      kept += text;
    } else {
      lost += text.size();
    }
  }

  GuestLink& link_;
  std::uint32_t id_;
  std::string input_;
  AdmitOutput admit_;
  std::size_t fed_ = 0;
  bool closed_ = false;
};

}  // namespace

awaitable<Result<ExecResult>> GuestCore::execute(ExecRequest request) {
  const auto self = shared_from_this();
  const std::string name = request.argv.empty() ? "exec" : request.argv.front();
  auto call = enlist();
  if (!call) co_return std::unexpected(call.error());
  std::optional<TimePoint> deadline;
  if (request.timeout.count() > 0)
    deadline = Clock::now() + request.timeout + request.grace + kAnswerMargin;
  const StartOptions options = start_options(request);
  Run run(link_, (*call)->id, std::move(request.input), std::move(request.admit));
  if (const auto sent = link_.start((*call)->id, options); !sent) {
    dismiss(**call);
    co_return std::unexpected(sent.error());
  }
  (*call)->on_frame = [&run](const Frame& frame) { run.take(frame); };
  CallGuard guard(self, *call, CallGuard::Kind::Exec);
  run.feed();
  flush();
  while (!guard.call().done) {
    const Wake wake = co_await guard.call().wakeup.wait(deadline);
    if (wake == Wake::TimedOut)
      co_return failure(Errc::TimedOut, "exec: init did not answer within the deadline");
    if (wake == Wake::Cancelled) co_return failure(Errc::Gone, "exec: the caller left");
  }
  if (const auto& error = guard.call().error)
    co_return std::unexpected(error->code == Errc::Gone ? *error : error->within(name));
  co_return std::move(run.result);
}

}  // namespace caisson::engine
