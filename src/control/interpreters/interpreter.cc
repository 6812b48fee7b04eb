#include "control/interpreters/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>

#include "control/interpreters/boot.h"
#include "control/text.h"

namespace caisson::control::interpreters {

namespace json = boost::json;
using engine::Wake;

namespace {

constexpr milliseconds kKillWait{5'000};
// Credit goes out in parts of this size: with less owed than that, the run has some left.
constexpr std::uint64_t kCreditPart = kStreamCredit / 2;
constexpr std::size_t kAskCost = 64;  // of one ask in the queue, beside its bytes

std::string tail_of(std::string_view text, std::size_t bytes_max) {
  return std::string(text.substr(text.size() - std::min(text.size(), bytes_max)));
}

}  // namespace

struct Interpreter::Opening {
  explicit Opening(const boost::asio::any_io_executor& on) : wakeup(on) {}
  engine::Wakeup wakeup;
  std::optional<Result<void>> result;
};

// One run, from the question to its end. It stays known until the interpreter has told that end,
// also when nobody waits any more: what it says of it until then is not a lie.
struct Interpreter::Run {
  Run(const boost::asio::any_io_executor& on, std::uint32_t number, const RunWish& wish)
      : wakeup(on),
        timer(on),
        id(number),
        context(wish.context),
        streamed(static_cast<bool>(wish.sink)),
        admit(wish.admit),
        room{streamed ? kStreamCredit : wish.output_bytes_max,
             streamed ? kStreamCredit : wish.output_bytes_max} {}

  // Bytes in pieces that are worth to be sent, in the order in which they came. Whoever writes
  // single bytes to both streams in turn loses that order, and no byte.
  void keep(bool error, std::string_view bytes) {
    const bool full = pieces.size() >= kPiecesMax;
    for (auto at = pieces.rbegin(); at != pieces.rend(); ++at) {
      if (at->first == error && (full || at->second.size() + bytes.size() <= kFrameBytesMax)) {
        at->second.append(bytes);
        return;
      }
      if (!full) break;
    }
    pieces.emplace_back(error, bytes);
  }

  engine::Wakeup wakeup;
  boost::asio::steady_timer timer;
  std::uint32_t id;
  std::uint32_t context;
  bool streamed;
  engine::AdmitOutput admit;  // asked while somebody waits
  bool refused = false;       // there was no room for its answer
  std::uint64_t room[2];      // what may still come
  std::uint64_t owed[2]{};    // of that, what the interpreter has not been told
  std::uint64_t held[2]{};    // of streams: in pieces, or in the hand of the sink
  std::uint64_t lost[2]{};    // of streams: what nobody has heard
  bool flows = false;         // credit is given as the bytes come
  bool wanted = true;         // somebody waits
  bool chased = false;
  bool timed_out = false;
  std::deque<std::pair<bool, std::string>> pieces;
  std::string answer;
  std::optional<Done> done;
  std::optional<Error> failed;
};

// Whoever leaves his run ends it.
class Interpreter::Abandon {
 public:
  Abandon(std::shared_ptr<Interpreter> interpreter, std::uint32_t id, std::shared_ptr<Run> run)
      : interpreter_(std::move(interpreter)), id_(id), run_(std::move(run)) {}
  Abandon(const Abandon&) = delete;
  Abandon& operator=(const Abandon&) = delete;
  ~Abandon() {
    run_->wanted = false;
    run_->pieces.clear();
    interpreter_->let_flow(*run_);
    if (run_->done || run_->failed || run_->chased) return;
    boost::asio::co_spawn(interpreter_->executor_, chase(interpreter_, id_), boost::asio::detached);
  }

 private:
  std::shared_ptr<Interpreter> interpreter_;
  std::uint32_t id_;
  std::shared_ptr<Run> run_;
};

Interpreter::Interpreter(boost::asio::any_io_executor executor,
                         std::shared_ptr<engine::GuestChannel> guest, Language language)
    : executor_(std::move(executor)),
      guest_(std::move(guest)),
      language_(language),
      writer_(executor_) {}

void Interpreter::begin(engine::StartOptions options, const std::vector<std::string>& imports,
                        ProcessSink process_is) {
  json::array names;
  for (const std::string& one : imports) names.emplace_back(one);
  options.argv =
      boot_command(language_, json::serialize(json::object{{"imports", std::move(names)}}));
  options.flags = wire::kStartStdin | wire::kStartKillTree;
  environment_ = options.env;
  starting_ = true;
  send(boot_text(program_of(language_).text));
  boost::asio::co_spawn(executor_,
                        live(shared_from_this(), std::move(options), std::move(process_is)),
                        boost::asio::detached);
}

awaitable<void> Interpreter::live(std::shared_ptr<Interpreter> self, engine::StartOptions options,
                                  ProcessSink process_is) {
  const std::string name = options.argv.front();
  auto process = co_await self->guest_->start(std::move(options));
  self->starting_ = false;
  self->wake_waiting();
  if (!process) {
    Error error = process.error();
    if (error.code == Errc::NotFound)
      error.message = fmt::format(
          "{} is not in this sandbox's image: use another language, or an image that has it", name);
    co_return self->die(std::move(error));
  }
  self->process_ = process->id;
  self->started_ = true;
  self->process_is_ = std::move(process_is);
  self->process_is_(process->id, true);
  // Whoever ended it meanwhile had nothing to kill.
  if (self->death_) co_return co_await self->kill_process();
  auto output = co_await self->guest_->attach(process->id, 0, 0);
  if (!output) {
    self->die(output.error());
  } else {
    boost::asio::co_spawn(self->executor_, write(self), boost::asio::detached);
    boost::asio::co_spawn(self->executor_, await_greeting(self), boost::asio::detached);
    const auto heard = co_await self->listen(**output);
    if (!heard) self->die(heard.error());
    output->reset();
  }
  co_await self->kill_process();
}

awaitable<void> Interpreter::await_greeting(std::shared_ptr<Interpreter> self) {
  const auto deadline = Clock::now() + kReadyTimeout;
  const auto ready = co_await self->ready(deadline);
  if (!ready && !self->death_) self->die(ready.error());
}

// Returns with the reason why there is nothing more to hear.
awaitable<Result<void>> Interpreter::listen(engine::GuestOutput& output) {
  FrameReader reader;
  for (;;) {
    auto item = co_await output.next();
    if (!item) co_return std::unexpected(item.error());
    if (const auto* exited = std::get_if<wire::ExitedBody>(&*item)) {
      const std::string how = exited->signal != 0 ? fmt::format("by signal {}", exited->signal)
                                                  : fmt::format("with status {}", exited->code);
      co_return failure(Errc::Gone, ending("ended " + how));
    }
    const auto& data = std::get<engine::GuestData>(*item);
    if (data.error) {
      complaint_ = tail_of(complaint_ + data.bytes, kComplaintBytesMax);
      continue;
    }
    if (data.lost != 0) co_return failure(Errc::Protocol, "the interpreter's words were lost");
    reader.feed(data.bytes);
    for (;;) {
      auto next = reader.next();
      if (!next) co_return std::unexpected(next.error());
      if (!*next) break;
      auto fits = hear(**next);
      if (!fits) co_return fits;
    }
  }
}

awaitable<void> Interpreter::kill_process() {
  if (!started_ || over_) co_return;
  (void)co_await guest_->signal(process_, SIGKILL, wire::SignalTarget::Tree);
  (void)co_await guest_->wait(process_, kKillWait);
  (void)co_await guest_->forget(process_);
  over_ = true;
  process_is_(process_, false);
}

awaitable<void> Interpreter::end(std::string why) {
  const auto self = shared_from_this();
  die(Error{Errc::Gone, std::move(why), 0});
  if (starting_) {
    const auto mine = std::make_shared<engine::Wakeup>(executor_);
    waiting_.push_back(mine);
    const auto deadline = Clock::now() + kKillWait;
    while (starting_ && co_await mine->wait(deadline) == Wake::Woken) {
    }
    std::erase(waiting_, mine);
  }
  if (!started_ || over_) co_return;
  (void)co_await guest_->signal(process_, SIGKILL, wire::SignalTarget::Tree);
  (void)co_await guest_->wait(process_, kKillWait);
}

std::string Interpreter::ending(const std::string& what) const {
  std::string out =
      fmt::format("the {} interpreter of this sandbox {}", to_string(language_), what);
  if (!complaint_.empty() && !hello_)
    out += ": " + cut_text(tail_of(complaint_, kComplaintBytesMax), kComplaintBytesMax);
  return out;
}

// Everybody who waits hears of it at once.
void Interpreter::die(Error error) {
  if (death_) return;
  if (error.code == Errc::Protocol)
    error = Error{Errc::Gone,
                  ending("said what is not in its protocol, and was ended; the next call starts "
                         "another"),
                  0};
  death_ = std::move(error);
  for (const auto& [id, run] : runs_) {
    run->failed = death_;
    run->wakeup.wake();
  }
  for (const auto& [id, opening] : openings_) {
    opening->result = std::unexpected(*death_);
    opening->wakeup.wake();
  }
  runs_.clear();
  openings_.clear();
  contexts_.clear();
  asks_.clear();
  writer_.wake();
  wake_waiting();
  if (started_ && !over_)
    boost::asio::co_spawn(
        executor_,
        [](std::shared_ptr<Interpreter> self) -> awaitable<void> {
          (void)co_await self->guest_->signal(self->process_, SIGKILL, wire::SignalTarget::Tree);
        }(shared_from_this()),
        boost::asio::detached);
}

void Interpreter::wake_waiting() {
  for (const auto& one : waiting_) one->wake();
}

awaitable<Result<void>> Interpreter::ready(TimePoint deadline) {
  const auto self = shared_from_this();
  const auto mine = std::make_shared<engine::Wakeup>(executor_);
  waiting_.push_back(mine);
  Wake wake = Wake::Woken;
  while (!hello_ && !death_ && wake == Wake::Woken) wake = co_await mine->wait(deadline);
  std::erase(waiting_, mine);
  if (death_) co_return std::unexpected(*death_);
  if (hello_) co_return Result<void>();
  if (wake == Wake::Cancelled) co_return failure(Errc::Gone, "the caller left");
  co_return failure(Errc::TimedOut, ending("does not answer: it may still import; try again"));
}

// --- asking

awaitable<void> Interpreter::write(std::shared_ptr<Interpreter> self) {
  while (!self->death_) {
    if (self->asks_.empty()) {
      (void)co_await self->writer_.wait();
      continue;
    }
    std::string bytes = std::move(self->asks_.front());
    self->asks_.pop_front();
    const std::size_t size = bytes.size() + kAskCost;
    const auto taken = co_await self->guest_->input(self->process_, std::move(bytes), false);
    self->ask_bytes_ -= size;
    // Its end is told by its output; this only cannot go on.
    if (!taken) co_return;
  }
}

void Interpreter::send(std::string bytes) {
  if (death_) return;
  ask_bytes_ += bytes.size() + kAskCost;
  if (ask_bytes_ > kAskBytesMax + kOrderBytesMax)
    return die(Error{Errc::Gone, ending("does not take what it is told, and was ended"), 0});
  asks_.push_back(std::move(bytes));
  writer_.wake();
}

Result<void> Interpreter::ask(Ask kind, std::uint32_t id, std::string_view payload) {
  if (death_) return std::unexpected(*death_);
  if (ask_bytes_ + kHeadBytes + payload.size() + kAskCost > kAskBytesMax)
    return failure(Errc::Exhausted, ending("has more to do than it takes; try again"));
  send(frame(kind, id, payload));
  return {};
}

awaitable<Result<std::uint32_t>> Interpreter::open(json::object wish, milliseconds timeout) {
  const auto self = shared_from_this();
  const std::uint32_t id = next_++;
  const auto opening = std::make_shared<Opening>(executor_);
  if (const auto asked = ask(Ask::Open, id, json::serialize(wish)); !asked)
    co_return std::unexpected(asked.error());
  openings_[id] = opening;
  const TimePoint deadline = Clock::now() + timeout;
  Wake wake = Wake::Woken;
  while (!opening->result && wake == Wake::Woken) wake = co_await opening->wakeup.wait(deadline);
  if (opening->result && *opening->result) co_return id;
  if (opening->result) co_return std::unexpected(opening->result->error());
  openings_.erase(id);
  close(id);
  if (wake == Wake::Cancelled) co_return failure(Errc::Gone, "the caller left");
  co_return failure(Errc::TimedOut, "the context was not opened in time");
}

void Interpreter::close(std::uint32_t context) {
  contexts_.erase(context);
  send(frame(Ask::Close, context, {}));
}

bool Interpreter::busy(std::uint32_t context) const {
  return std::ranges::any_of(runs_,
                             [context](const auto& one) { return one.second->context == context; });
}

void Interpreter::interrupt(std::uint32_t context) {
  for (const auto& [id, run] : runs_) {
    if (run->context == context && !run->done) (void)ask(Ask::Interrupt, id, {});
  }
}

awaitable<Result<CodeOutcome>> Interpreter::run(RunWish wish) {
  const auto self = shared_from_this();
  if (runs_.size() >= kCodeRunsMax)
    co_return failure(
        Errc::Exhausted,
        fmt::format("{} runs are under way in this sandbox: wait for one", kCodeRunsMax));
  const std::uint32_t id = next_++;
  json::object said{{"code", wish.code},
                    {"context", wish.context},
                    {"env", std::move(wish.environment)},
                    {"cwd", wish.workdir},
                    {"result_max", kCodeResultBytesMax / 2},
                    {"limit", wish.sink ? 0 : wish.output_bytes_max},
                    {"credit", wish.sink ? kStreamCredit : 0}};
  if (wish.input) said["stdin"] = *wish.input;
  if (const auto asked = ask(Ask::Run, id, json::serialize(said)); !asked)
    co_return std::unexpected(asked.error());
  const auto run = std::make_shared<Run>(executor_, id, wish);
  runs_[id] = run;
  const Abandon abandon(self, id, run);
  CodeOutcome outcome;
  const TimePoint begun = Clock::now();
  if (wish.timeout.count() > 0) limit(run, begun + wish.timeout);
  while (!run->done && !run->failed) {
    const Wake wake = co_await run->wakeup.wait();
    if (wake == Wake::Cancelled) co_return failure(Errc::Gone, "the caller left");
    auto taken = co_await follow(*run, outcome, wish);
    if (!taken) co_return std::unexpected(taken.error());
  }
  auto taken = co_await follow(*run, outcome, wish);
  if (!taken) co_return std::unexpected(taken.error());
  outcome.wall = std::chrono::duration_cast<microseconds>(Clock::now() - begun);
  outcome.timed_out = run->timed_out;
  if (run->failed) {
    // Nothing less helped: that it is over its time is what the caller must hear.
    if (!outcome.timed_out) co_return std::unexpected(*run->failed);
    outcome.exit_code = 128 + SIGKILL;
    outcome.context_ended = wish.context != 0;
    co_return outcome;
  }
  outcome.exit_code = run->done->exit_code;
  outcome.out_lost += run->done->out_lost + run->lost[0];
  outcome.err_lost += run->done->err_lost + run->lost[1];
  outcome.ran = run->done->ran;
  outcome.context_ended = wish.context != 0 && !has(wish.context);
  outcome.warnings = wish.context == 0 ? hello_->warnings : std::vector<std::string>();
  if (!run->done->died) {
    if (run->refused) {
      outcome.outputs_truncated = true;
    } else if (auto read = parse_answer(run->answer, outcome); !read) {
      // The run's own words, as the interpreter passed them on: nobody else's run is in doubt.
      co_return std::unexpected(read.error().within("the run's answer cannot be read"));
    }
  }
  co_return outcome;
}

void Interpreter::limit(const std::shared_ptr<Run>& run, TimePoint deadline) {
  run->timer.expires_at(deadline);
  run->timer.async_wait([weak = weak_from_this(),
                         late = std::weak_ptr<Run>(run)](const boost::system::error_code& stopped) {
    const auto self = weak.lock();
    const auto run = late.lock();
    if (stopped || !self || !run || run->done || run->failed || run->chased) return;
    run->timed_out = true;
    run->chased = true;
    boost::asio::co_spawn(self->executor_, chase(self, run->id), boost::asio::detached);
  });
}

// What has come so far goes to the caller.
awaitable<Result<void>> Interpreter::follow(Run& run, CodeOutcome& outcome, const RunWish& wish) {
  while (!run.pieces.empty()) {
    auto [error, bytes] = std::move(run.pieces.front());
    run.pieces.pop_front();
    if (!run.streamed) {
      if (wish.admit && !wish.admit(bytes.size())) {
        (error ? outcome.err_lost : outcome.out_lost) += bytes.size();
      } else {
        (error ? outcome.err : outcome.out).append(bytes);
      }
      continue;
    }
    auto taken = co_await wish.sink(error, bytes);
    if (!taken) co_return taken;
    run.held[error ? 1 : 0] -= bytes.size();
    if (!run.flows) give_back(run, error, bytes.size());
  }
  co_return Result<void>();
}

// A run that is being ended must not stand still for want of credit, however slow its caller is, or
// it looks like one that does not obey. What he then has no room for is lost.
void Interpreter::let_flow(Run& run) {
  if (!run.streamed || std::exchange(run.flows, true)) return;
  for (const bool error : {false, true}) give_back(run, error, run.held[error ? 1 : 0]);
}

// So much may come again.
void Interpreter::give_back(Run& run, bool error, std::uint64_t bytes) {
  run.room[error ? 1 : 0] += bytes;
  run.owed[error ? 1 : 0] += bytes;
  if (run.owed[error ? 1 : 0] < kCreditPart || run.done || run.failed) return;
  const auto out = static_cast<std::uint32_t>(std::exchange(run.owed[0], 0));
  const auto err = static_cast<std::uint32_t>(std::exchange(run.owed[1], 0));
  send(credit_frame(run.id, out, err));
}

// Ends a run that is over its time, or that nobody wants: gently where there is state to keep.
awaitable<void> Interpreter::chase(std::shared_ptr<Interpreter> self, std::uint32_t id) {
  const auto found = self->runs_.find(id);
  if (found == self->runs_.end()) co_return;
  const auto run = found->second;
  run->chased = true;
  self->let_flow(*run);
  engine::Wakeup pause(self->executor_);
  for (const Ask step : {Ask::Interrupt, Ask::Kill}) {
    if (step == Ask::Interrupt && run->context == 0) continue;
    if (!self->runs_.contains(id)) co_return;
    self->send(frame(step, id, {}));
    (void)co_await pause.wait(Clock::now() + kObeyTimeout);
  }
  if (self->runs_.contains(id))
    self->die(Error{Errc::Gone, self->ending("did not obey, and was ended with all it ran"), 0});
}

// --- hearing

Result<void> Interpreter::hear(const Frame& frame) {
  if (death_) return std::unexpected(*death_);
  if (!hello_ && frame.kind != Said::Hello)
    return failure(Errc::Protocol, "the interpreter did not say who it is");
  switch (frame.kind) {
    case Said::Hello: {
      if (hello_) return failure(Errc::Protocol, "the interpreter said twice who it is");
      hello_ = TRY(parse_hello(frame.payload));
      wake_waiting();
      return {};
    }
    case Said::Output:
    case Said::Part:
      return hear_output(frame);
    case Said::Done:
      return hear_end(frame);
    case Said::Opened:
      return hear_opened(frame);
    case Said::Closed:
      contexts_.erase(frame.id);
      return {};
  }
  return failure(Errc::Protocol, "the interpreter said a frame of an unknown kind");
}

Result<void> Interpreter::hear_output(const Frame& frame) {
  const auto found = runs_.find(frame.id);
  if (found == runs_.end())
    return failure(Errc::Protocol, "the interpreter spoke of a run that is none");
  const auto kept = found->second;  // giving credit can end everything
  Run& run = *kept;
  if (frame.kind == Said::Part) {
    if (run.answer.size() + frame.payload.size() > kCodeResultBytesMax)
      return failure(Errc::Protocol, "the interpreter said a result that is too large");
    if (!run.wanted) return {};
    run.refused = run.refused || (run.admit && !run.admit(frame.payload.size()));
    if (run.refused) {
      run.answer.clear();
    } else {
      run.answer += frame.payload;
    }
    return {};
  }
  std::uint64_t& room = run.room[frame.stream - 1];
  if (frame.payload.size() > room)
    return failure(Errc::Protocol, "the interpreter said more output than it may");
  const bool error = frame.stream == 2;
  const std::size_t size = frame.payload.size();
  room -= size;
  std::uint64_t& held = run.held[error ? 1 : 0];
  const bool fits = run.wanted && (!run.flows || held + size <= kStreamCredit);
  if (run.flows) give_back(run, error, size);
  if (!fits) {
    run.lost[error ? 1 : 0] += size;
    return {};
  }
  if (run.streamed) held += size;
  run.keep(error, frame.payload);
  run.wakeup.wake();
  return {};
}

Result<void> Interpreter::hear_end(const Frame& frame) {
  const auto found = runs_.find(frame.id);
  if (found == runs_.end())
    return failure(Errc::Protocol, "the interpreter ended a run that is none");
  Done done = TRY(parse_done(frame.payload));
  const auto run = found->second;
  run->done = done;
  runs_.erase(found);
  // Whatever it is that is left of it must not stay where nobody counts it.
  if (done.died && run->context != 0) close(run->context);
  run->wakeup.wake();
  return {};
}

Result<void> Interpreter::hear_opened(const Frame& frame) {
  const auto found = openings_.find(frame.id);
  if (found == openings_.end()) return {};  // nobody waits for it any more
  auto problem = TRY(parse_opened(frame.payload));
  if (problem) {
    found->second->result = bad_field("imports", "the context could not be opened: " + *problem);
  } else {
    contexts_.insert(frame.id);
    found->second->result = Result<void>();
  }
  found->second->wakeup.wake();
  openings_.erase(found);
  return {};
}

}  // namespace caisson::control::interpreters
