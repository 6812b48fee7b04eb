// control/interpreters/interpreter.h — one interpreter of one sandbox: a process inside that has
// imported what runs need, and forks itself (Python) or hands out a prepared worker (Node) for
// each.
//
// It is a process of the sandbox's own user, started through init like any other, in a group of its
// own: what it started ends with it. Its program comes by standard input (boot.h), so there is no
// file that somebody inside could change. It is asked by its standard input and answers by its
// standard output, in the frames of wire.h. All it says is hostile: what does not fit ends it, with
// a typed error for everybody who waits, and the next call starts another. Whoever kills or
// corrupts it has harmed his own sandbox only.
//
// A run that is over its time is killed in there, by the parent; one in a context is interrupted
// first, as by Ctrl-C, so that its state may survive. When nobody in there obeys, the whole
// interpreter is killed by init.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/code.h"
#include "control/interpreters/wire.h"
#include "engine/channel/guest_channel.h"
#include "engine/channel/wakeup.h"

namespace caisson::control::interpreters {

using boost::asio::awaitable;

inline constexpr milliseconds kReadyTimeout{60'000};  // imports may be slow
inline constexpr milliseconds kObeyTimeout{1'500};    // to end a run, or answer an interrupt
inline constexpr std::size_t kAskBytesMax = 8UL * 1024 * 1024;  // not yet taken from inside
inline constexpr std::size_t kOrderBytesMax = 256UL * 1024;     // beyond that, of our own orders
inline constexpr std::size_t kPiecesMax = 256;              // of one run, not yet with its caller
inline constexpr std::size_t kComplaintBytesMax = 2048;     // of its standard error
inline constexpr std::uint32_t kStreamCredit = 256 * 1024;  // of a run whose output is streamed

// The program, and what it is called inside.
struct Program {
  std::string_view name;
  std::string_view flag;
  std::string_view text;
};
[[nodiscard]] Program program_of(Language language) noexcept;

struct RunWish {
  std::uint32_t context = 0;  // 0: by itself
  std::string code;
  boost::json::object environment{};  // what differs from its own; null: without it
  std::string workdir{};              // empty: where it is
  std::optional<std::string> input{};
  std::uint32_t output_bytes_max = 0;
  milliseconds timeout{0};
  engine::AdmitOutput admit{};
  CodeSink sink{};
};

class Interpreter : public std::enable_shared_from_this<Interpreter> {
 public:
  Interpreter(boost::asio::any_io_executor executor, std::shared_ptr<engine::GuestChannel> guest,
              Language language);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Its process in the sandbox, when it is there and when it is gone.
  using ProcessSink = std::function<void(std::uint32_t process, bool there)>;
  // In the background. argv and flags are ours.
  void begin(engine::StartOptions options, const std::vector<std::string>& imports,
             ProcessSink process_is);
  // Until it takes runs: TimedOut at the deadline, and its own error when it never will.
  awaitable<Result<void>> ready(TimePoint deadline);
  awaitable<Result<CodeOutcome>> run(RunWish wish);
  // Its number.
  awaitable<Result<std::uint32_t>> open(boost::json::object wish, milliseconds timeout);
  void close(std::uint32_t context);
  // What runs in the context is told to stop, as by Ctrl-C.
  void interrupt(std::uint32_t context);
  // Kills it with everything it started, and waits for that.
  awaitable<void> end(std::string why);

  [[nodiscard]] bool dead() const noexcept { return death_.has_value(); }
  [[nodiscard]] const std::optional<Error>& death() const noexcept { return death_; }
  [[nodiscard]] bool has(std::uint32_t context) const { return contexts_.contains(context); }
  // A run in it has not ended, whether or not somebody waits for that.
  [[nodiscard]] bool busy(std::uint32_t context) const;
  // Nobody would miss it: no context, and nothing runs.
  [[nodiscard]] bool idle() const noexcept { return runs_.empty() && contexts_.empty(); }
  [[nodiscard]] std::uint32_t process() const noexcept { return process_; }
  [[nodiscard]] const std::vector<std::string>& environment() const noexcept {
    return environment_;
  }

 private:
  struct Run;
  struct Opening;
  class Abandon;

  static awaitable<void> live(std::shared_ptr<Interpreter> self, engine::StartOptions options,
                              ProcessSink process_is);
  static awaitable<void> write(std::shared_ptr<Interpreter> self);
  // One that never says who it is makes room for another.
  static awaitable<void> await_greeting(std::shared_ptr<Interpreter> self);
  static awaitable<void> chase(std::shared_ptr<Interpreter> self, std::uint32_t run);
  // When its time is over it is chased, whatever its caller does meanwhile.
  void limit(const std::shared_ptr<Run>& run, TimePoint deadline);
  awaitable<Result<void>> listen(engine::GuestOutput& output);
  awaitable<void> kill_process();
  [[nodiscard]] Result<void> hear(const Frame& frame);
  [[nodiscard]] Result<void> hear_output(const Frame& frame);
  [[nodiscard]] Result<void> hear_end(const Frame& frame);
  [[nodiscard]] Result<void> hear_opened(const Frame& frame);
  [[nodiscard]] Result<void> ask(Ask kind, std::uint32_t id, std::string_view payload);
  void send(std::string bytes);
  void give_back(Run& run, bool error, std::uint64_t bytes);
  void let_flow(Run& run);
  awaitable<Result<void>> follow(Run& run, CodeOutcome& outcome, const RunWish& wish);
  void die(Error error);
  void wake_waiting();
  [[nodiscard]] std::string ending(const std::string& what) const;

  boost::asio::any_io_executor executor_;
  std::shared_ptr<engine::GuestChannel> guest_;
  Language language_;
  std::vector<std::string> environment_;
  std::vector<std::string> warnings_;
  std::uint32_t process_ = 0;
  ProcessSink process_is_;
  bool starting_ = false;  // asked for, and not yet known
  bool started_ = false;
  bool over_ = false;  // its process is gone, and forgotten
  std::optional<Hello> hello_;
  std::optional<Error> death_;
  std::string complaint_;  // the last it wrote to its standard error
  std::deque<std::string> asks_;
  std::size_t ask_bytes_ = 0;
  engine::Wakeup writer_;
  std::uint32_t next_ = 1;  // of runs and contexts
  std::map<std::uint32_t, std::shared_ptr<Run>> runs_;
  std::map<std::uint32_t, std::shared_ptr<Opening>> openings_;
  std::set<std::uint32_t> contexts_;
  std::vector<std::shared_ptr<engine::Wakeup>> waiting_;  // for it to be ready, or over
};

}  // namespace caisson::control::interpreters
