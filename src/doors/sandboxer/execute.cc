// A command in a sandbox: answered whole, or line by line as it goes on.
#include <fmt/format.h>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "doors/sandboxer/patient.h"
#include "doors/sandboxer/record.h"
#include "doors/sandboxer/words.h"
#include "doors/shared/json_text.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::size_t kCollectedBytesMax = 8UL << 20U;  // of each stream; the rest is counted only
constexpr std::string_view kLinesType = "application/x-ndjson";
constexpr int kNotRunCode = 255;
constexpr int kNotFoundCode = 127;

struct CodeWish {
  std::string code;
  bool stream = false;
};

Result<CodeWish> read_code(Call& call) {
  TRY(need_body(call));
  doors::Problems problems;
  CodeWish wish;
  wish.stream = query_flag(call, "stream", problems);
  doors::Fields fields(call.body, json::array{"body"}, problems);
  wish.code = fields.text("code");
  if (!problems.empty()) return refuse(call, problems);
  if (trimmed(wish.code).empty()) return refuse(call, 400, "Code cannot be empty.");
  if (wish.code.size() >= control::kCommandBytesMax)
    return refuse(call, 400,
                  fmt::format("Code is too long: less than {} bytes, or upload it as a file.",
                              control::kCommandBytesMax));
  if (wish.code.find('\0') != std::string::npos) return refuse(call, 400, "Code holds a NUL.");
  call.body = nullptr;
  return wish;
}

bool is_word(std::string_view code) {
  return trimmed(code).find_first_of(" \t\r\n") == std::string_view::npos;
}

// How a run ended, as it is told.
struct Ending {
  int exit_code = 0;
  std::string note;  // where the program itself could not say it
};

class Sink {
 public:
  virtual ~Sink() = default;
  virtual awaitable<Result<void>> take(bool error, std::string_view bytes) = 0;
};

awaitable<Result<control::ExecOutcome>> exec_once(Call& call, const Row& row,
                                                  std::vector<std::string> argv, Sink& sink) {
  control::ExecWish wish;
  wish.argv = std::move(argv);
  wish.keep_background = true;
  wish.sink = [&sink](bool error, std::string_view bytes) { return sink.take(error, bytes); };
  co_return co_await call.fleet().exec(call.caller, row.name, std::move(wish));
}

// What went wrong with the command itself is an answer; an error is only what is none.
Result<Ending> ending_of(Call& call, const Row& row, const Error& error) {
  const auto view = call.fleet().get(call.caller, row.name);
  if (!view) {
    if (error.code == Errc::Gone) return Ending{kNotRunCode, "Error: the sandbox ended"};
    return refuse(call, 404, kNoSandbox);
  }
  if (view->state == control::State::Paused)
    return Ending{kNotRunCode, "Error: the sandbox is paused: unpause it first"};
  switch (error.code) {
    case Errc::Busy:
    case Errc::Protocol:
    case Errc::TimedOut:
      return Ending{kNotRunCode, "Error: " + error.message};
    default:
      return std::unexpected(error);
  }
}

// By a shell. An image that has none still has its own programs.
awaitable<Result<Ending>> run_code(Call& call, RowPtr row, std::string code, Sink& sink) {
  std::vector<std::string> argv{"/bin/sh", "-c", code};
  auto done = co_await exec_once(call, *row, std::move(argv), sink);
  if (!done && done.error().code == Errc::NotFound && is_word(code)) {
    std::vector<std::string> word{std::string(trimmed(code))};
    done = co_await exec_once(call, *row, std::move(word), sink);
  }
  if (done) co_return Ending{done->exit_code, {}};
  if (done.error().code == Errc::NotFound && call.fleet().get(call.caller, row->name)) {
    const std::string what = is_word(code) ? std::string(trimmed(code)) : "sh";
    co_return Ending{kNotFoundCode,
                     fmt::format("Error: executable file `{}` not found in $PATH", what)};
  }
  co_return ending_of(call, *row, done.error());
}

class Collector final : public Sink {
 public:
  explicit Collector(Call& call) : call_(call) {}

  awaitable<Result<void>> take(bool error, std::string_view bytes) override {
    std::string& text = error ? err_ : out_;
    const std::size_t room = kCollectedBytesMax - std::min(kCollectedBytesMax, text.size());
    std::string_view kept = bytes.substr(0, room);
    // Once as it came, and once as it is sent.
    if (!call_.hold().overdraw(2 * (out_.size() + err_.size() + kept.size()))) kept = {};
    text += kept;
    (error ? err_lost_ : out_lost_) += bytes.size() - kept.size();
    co_return Result<void>{};
  }

  [[nodiscard]] std::string text(bool error) const {
    const std::uint64_t lost = error ? err_lost_ : out_lost_;
    std::string all = doors::lossy_utf8(error ? err_ : out_);
    std::string text(trimmed(all));
    if (lost > 0) text += fmt::format("\n[{} bytes more were left out]", lost);
    return text;
  }

 private:
  Call& call_;
  std::string out_;
  std::string err_;
  std::uint64_t out_lost_ = 0;
  std::uint64_t err_lost_ = 0;
};

std::string outcome_json(const std::string& out, const std::string& err, int code) {
  std::string text = R"({"stdout":)";
  doors::append_string(text, out);
  text += R"(,"stderr":)";
  doors::append_string(text, err);
  return text + fmt::format(R"(,"exit_code":{}}})", code);
}

awaitable<Result<void>> run_whole(Call& call, RowPtr row, CodeWish wish, std::string id) {
  using namespace boost::asio::experimental::awaitable_operators;
  Collector collector(call);
  const store::WallTime begun = call.services().now();
  PatientAnswer out(call, kJsonType, " ", call.options().patience);
  auto first = co_await (run_code(call, row, wish.code, collector) || out.keep_alive() ||
                         call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  const Result<Ending>& ending = std::get<0>(first);
  if (!ending && !out.begun()) co_return std::unexpected(ending.error());
  // Too late for a status of its own.
  const Ending told = ending ? *ending : Ending{kNotRunCode, "Error: " + ending.error().message};
  const std::string said = collector.text(false);
  std::string err = collector.text(true);
  if (!told.note.empty()) err += (err.empty() ? "" : "\n") + told.note;
  co_await record_run(call, *row, {std::move(id), wish.code, told.exit_code, begun}, said, err);
  co_return co_await out.finish(outcome_json(said, err, told.exit_code));
}

std::string line_json(std::string_view type, std::string_view output, int code) {
  std::string text = fmt::format(R"({{"type":"{}","output":)", type);
  doors::append_string(text, output);
  return text + fmt::format(",\"exit_code\":{}}}\n", code);
}

// Whole lines, each stream in its own order.
class LineSink final : public Sink {
 public:
  LineSink(PatientAnswer& out, RunRecorder& recorder) : out_(out), recorder_(recorder) {}

  awaitable<Result<void>> take(bool error, std::string_view bytes) override {
    std::string text;
    const auto add = [&text, error](const std::string& line) {
      text += line_json(error ? "stderr" : "stdout", line, -1);
    };
    (error ? err_ : lines_).feed(bytes, add);
    co_await recorder_.add(error, bytes);
    if (text.empty()) co_return Result<void>{};
    co_return co_await out_.write(std::move(text));
  }

  [[nodiscard]] std::string rest() {
    std::string text;
    lines_.finish([&text](const std::string& line) { text += line_json("stdout", line, -1); });
    err_.finish([&text](const std::string& line) { text += line_json("stderr", line, -1); });
    return text;
  }

 private:
  PatientAnswer& out_;
  RunRecorder& recorder_;
  LineSplitter lines_;
  LineSplitter err_;
};

awaitable<Result<Ending>> run_aloud(Call& call, RowPtr row, std::string code, PatientAnswer& out,
                                    RunRecorder& recorder) {
  LineSink sink(out, recorder);
  auto ending = co_await run_code(call, row, std::move(code), sink);
  std::string rest = sink.rest();
  if (ending && !ending->note.empty()) {
    rest += line_json("stderr", ending->note, -1);
    co_await recorder.add(true, ending->note);
  }
  if (!rest.empty()) (void)co_await out.write(std::move(rest));
  co_return ending;
}

awaitable<Result<void>> run_streamed(Call& call, RowPtr row, CodeWish wish, std::string id) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto ticket = call.services().streams.enter(call.caller.tenant);
  if (!ticket) co_return std::unexpected(ticket.error());
  RunRecorder recorder(call.shared, *row, {std::move(id), wish.code, 0, call.services().now()});
  co_await recorder.begin();
  call.exchange.set("Cache-Control", "no-cache");
  call.exchange.set("X-Accel-Buffering", "no");
  PatientAnswer out(call, kLinesType, " ", call.options().patience);
  // The head goes out at once: the client sees that it runs.
  if (auto begun = co_await out.write(""); !begun) co_return begun;
  auto first = co_await (run_aloud(call, row, wish.code, out, recorder) || out.keep_alive() ||
                         call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    co_await recorder.end(kNotRunCode);
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  const Result<Ending>& ending = std::get<0>(first);
  const int code = ending ? ending->exit_code : kNotRunCode;
  std::string last;
  if (!ending) last = line_json("stderr", "Error: " + ending.error().message, -1);
  co_await recorder.end(code);
  last += line_json("exit", fmt::format("Process exited with code {}", code), code);
  co_return co_await out.finish(std::move(last));
}

}  // namespace

awaitable<Result<void>> execute_code(Call& call) {
  auto wish = read_code(call);
  if (!wish) co_return std::unexpected(wish.error());
  const auto row = living_row(call);
  if (!row) co_return std::unexpected(row.error());
  (*row)->last_active = call.services().now();
  auto id = fresh_ulid((*row)->last_active);
  if (!id) co_return std::unexpected(id.error());
  if (wish->stream) co_return co_await run_streamed(call, *row, *std::move(wish), *std::move(id));
  co_return co_await run_whole(call, *row, *std::move(wish), *std::move(id));
}

}  // namespace caisson::sandboxer
