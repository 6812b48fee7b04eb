// Commands in a session: an archive before them where one was sent, a patch after them.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <optional>
#include <variant>

#include "doors/daiv/run_answer.h"
#include "doors/daiv/schema.h"
#include "doors/daiv/sessions.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr double kTimeoutSecondsMost = 4'294'967;  // as long as control can count
constexpr int kTimedOutCode = 124;
constexpr int kRefusedCode = 126;
constexpr int kKilledCode = 137;

// bash with pipefail where there is one, else a sh that knows it, else the sh that there is. The
// original fails on images with neither; a pipe whose first part fails is no reason for that.
constexpr std::string_view kShell =
    "[ -x /bin/bash ] && exec /bin/bash -o pipefail -c \"$1\"; "
    "(set -o pipefail) 2>/dev/null && exec /bin/sh -o pipefail -c \"$1\"; "
    "exec /bin/sh -c \"$1\"";

struct RunWish {
  std::vector<std::string> commands;
  std::shared_ptr<control::Spool> archive;
  bool fail_fast = false;
  std::int64_t timeout_seconds = 0;  // 0: none
};

Result<void> check_commands(Call& call, const std::vector<std::string>& commands) {
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (commands[i].find('\0') != std::string::npos)
      return refuse(call, 422, fmt::format("commands[{}]: holds a NUL", i));
    if (commands[i].size() >= control::kCommandBytesMax)
      return refuse(
          call, 422,
          fmt::format("commands[{}]: want less than {} bytes", i, control::kCommandBytesMax));
  }
  return {};
}

Result<RunWish> read_run(Call& call) {
  Problems problems;
  RunWish wish;
  if (call.body.missing) {
    problems.missing(json::array{"body"}, nullptr);
    return refuse(call, problems);
  }
  Fields fields(call.body.value, json::array{"body"}, problems);
  wish.commands = fields.texts("commands");
  if (const json::value* archive = fields.find_not_null("archive")) {
    if (read_text(*archive, fields.loc("archive"), problems) && call.body.base64_error)
      problems.base64(fields.loc("archive"), *call.body.base64_error, *archive);
    if (archive->is_string()) wish.archive = call.body.spool;
  }
  wish.fail_fast = fields.flag("fail_fast", false);
  wish.timeout_seconds = fields.integer_or_null("timeout", Bounds{0, std::nullopt})
                             .value_or(call.options().command_timeout_seconds);
  if (!problems.empty()) return refuse(call, problems);
  TRY(check_commands(call, wish.commands));
  if (wish.archive && wish.archive->size() == 0) wish.archive.reset();
  call.body.value = nullptr;
  return wish;
}

Pairs fixed_environment(const std::string& id) {
  const std::string home(kHome);
  return {{"HOSTNAME", id.substr(0, 12)},
          {"HOME", home},
          {"XDG_CACHE_HOME", home + "/.cache"},
          {"XDG_CONFIG_HOME", home + "/.config"},
          {"XDG_STATE_HOME", home + "/.local/state"},
          {"XDG_DATA_HOME", home + "/.local/share"}};
}

std::optional<double> seconds_of(const RunWish& wish) {
  if (wish.timeout_seconds <= 0) return std::nullopt;
  return std::min(static_cast<double>(wish.timeout_seconds), kTimeoutSecondsMost);
}

control::ExecWish exec_wish(const RunWish& wish, const std::string& id,
                            const std::string& command) {
  control::ExecWish out;
  out.argv = {"/bin/sh", "-c", std::string(kShell), "sh", command};
  out.environment = fixed_environment(id);
  out.workdir = kRepo;
  out.timeout_seconds = seconds_of(wish);
  out.merge_error = true;
  out.keep_background = true;
  return out;
}

awaitable<Result<control::ExecOutcome>> exec_into(Call& call, const RunWish& wish,
                                                  const std::string& command, OutputStore& store) {
  for (int attempt = 0;; ++attempt) {
    control::ExecWish exec = exec_wish(wish, call.id(), command);
    exec.sink = [&store](bool /*error*/, std::string_view bytes) { return store.append(bytes); };
    auto outcome = co_await call.fleet().exec(call.caller, call.id(), std::move(exec));
    if (outcome || attempt > 0 || outcome.error().code != Errc::NotFound) co_return outcome;
    // Most likely somebody removed the folder that commands begin in.
    if (!find_session(call.fleet(), call.caller, call.id())) co_return outcome;
    std::string repo(kRepo);
    auto made = co_await call.fleet().make_folder(call.caller, call.id(), std::move(repo), true);
    if (!made) co_return outcome;
  }
}

// Whether the next one follows. What commands before it wrote cannot be had again, so it is told
// whatever became of this one.
awaitable<Result<bool>> run_one(Call& call, const RunWish& wish, std::size_t index,
                                RunResults& results) {
  OutputStore& store = results.store;
  RunResults::One one;
  one.index = index;
  one.begin = store.size();
  auto outcome = co_await exec_into(call, wish, results.commands[index], store);
  one.end = store.size();
  bool goes_on = true;
  if (outcome && outcome->timed_out) {
    one.note = fmt::format("Command timed out after {}s", wish.timeout_seconds);
    one.end = one.begin;
    one.exit_code = kTimedOutCode;
    goes_on = false;
  } else if (outcome) {
    one.exit_code = outcome->exit_code;
  } else if (outcome.error().code == Errc::Denied) {
    one.note = outcome.error().message + "\n";
    one.exit_code = kRefusedCode;
  } else if (outcome.error().code == Errc::TooLarge || outcome.error().code == Errc::StoreFull) {
    one.note = fmt::format("\n[Output cut: {}]\n", outcome.error().message);
    one.exit_code = kKilledCode;
    goes_on = false;
  } else if (!results.all.empty() && find_session(call.fleet(), call.caller, call.id())) {
    one.note = fmt::format("[Not run to its end: {}]\n", outcome.error().message);
    one.exit_code = kRefusedCode;
    goes_on = false;
  } else {
    co_return std::unexpected(outcome.error());
  }
  goes_on = goes_on && !(wish.fail_fast && one.exit_code != 0);
  results.all.push_back(std::move(one));
  co_return goes_on;
}

awaitable<Result<std::shared_ptr<const control::Baseline>>> unpack(Call& call, Session& session,
                                                                   const RunWish& wish) {
  using Kept = std::shared_ptr<const control::Baseline>;
  if (!wish.archive) co_return Kept();
  if (!session.has(kOlderApiLabel)) {
    auto told = co_await set_label(call, session, kOlderApiLabel, "1");
    if (!told) co_return std::unexpected(told.error());
  }
  control::ArchiveWish archive;
  archive.path = kRepo;
  archive.archive = wish.archive;
  archive.links = control::Links::Keep;
  archive.clear = session.has(kEphemeralLabel);
  archive.baseline = session.has(kPatchLabel);
  auto put = co_await call.fleet().put_archive(call.caller, call.id(), std::move(archive));
  if (put) co_return put->baseline;
  co_return archive_refusal(call, "archive", put.error());
}

// All that takes time.
awaitable<Result<void>> work(Call& call, Session& session, RunWish& wish, RunResults& results) {
  auto baseline = co_await unpack(call, session, wish);
  if (!baseline) co_return std::unexpected(baseline.error());
  wish.archive.reset();
  for (std::size_t i = 0; i < results.commands.size(); ++i) {
    auto more = co_await run_one(call, wish, i, results);
    if (!more && (more.error().code == Errc::NotFound || more.error().code == Errc::Gone) &&
        !find_session(call.fleet(), call.caller, call.id()))
      co_return refuse(call, 404, kNoSession);
    if (!more) co_return std::unexpected(more.error());
    if (!*more) break;
  }
  if (!*baseline) co_return Result<void>{};
  auto patch = co_await call.fleet().patch_since(call.caller, call.id(), *std::move(baseline));
  if (patch) {
    results.patch = *std::move(patch);
    call.hold().force(call.hold().bytes() + results.patch.size());
  } else {
    results.patch_error = patch.error().message;
  }
  co_return Result<void>{};
}

}  // namespace

// What is wrong with an archive will be wrong again.
std::unexpected<Error> archive_refusal(Call& call, std::string_view field, const Error& error) {
  switch (error.code) {
    case Errc::InvalidArgument:
    case Errc::Protocol:
    case Errc::Denied:
    case Errc::Unsupported:
    case Errc::TooLarge:
    case Errc::Exhausted:
      return refuse(call, 422, fmt::format("{} is invalid: {}", field, error.message));
    default:
      return std::unexpected(error);
  }
}

awaitable<Result<void>> run_commands(Call& call) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto wish = read_run(call);
  if (!wish) co_return std::unexpected(wish.error());
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  RunResults results(call.fleet(), call.caller, std::move(wish->commands));
  // Control kills the tree of a command that is cancelled, which is what a caller who left wants.
  auto first = co_await (work(call, *session, *wish, results) || call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  if (const Result<void>& done = std::get<0>(first); !done) co_return done;
  co_return co_await answer_results(call, results);
}

}  // namespace caisson::daiv
