// What a GuestChannel asks of the guest's files with a list of strings: an archive of these, what
// matches this pattern, which lines do. The strings are the operation's input, each ended by a NUL.
#include <algorithm>
#include <utility>

#include "engine/channel/guest_core.h"
#include "engine/link/file_entry.h"

namespace caisson::engine {
namespace {

using wire::Kind;
using wire::OpKind;

// Each with its end behind it; what would be read as two strings is refused.
Result<std::string> joined(const std::string& what, const std::vector<std::string>& strings,
                           std::size_t bytes_max) {
  std::string all;
  for (const std::string& text : strings) {
    if (text.find('\0') != std::string::npos)
      return failure(Errc::InvalidArgument, what + ": a name or pattern has a NUL in it");
    if (all.size() + text.size() + 1 > bytes_max)
      return failure(Errc::InvalidArgument, what + ": names and patterns are longer than " +
                                                std::to_string(bytes_max) + " bytes together");
    all.append(text).push_back('\0');
  }
  return all;
}

// Lines on their way to the caller, within the limits of one search.
class MatchSink {
 public:
  explicit MatchSink(std::size_t matches_max) : matches_max_(matches_max) {}

  bool take(const Frame& frame) {
    wire::MatchView view{};
    if (frame.kind != Kind::Match || !wire::parse_match(frame.bytes(), view)) return false;
    bytes_ += view.name.size + view.text.size;
    if (matches_.lines.size() >= matches_max_ || bytes_ > kMatchBytesMax) {
      matches_.truncated = true;
    } else {
      matches_.lines.push_back({text_of(view.name), view.body.line, text_of(view.text)});
    }
    return true;
  }
  [[nodiscard]] Matches& matches() noexcept { return matches_; }

 private:
  std::size_t matches_max_;
  std::size_t bytes_ = 0;
  Matches matches_;
};

}  // namespace

awaitable<Result<void>> GuestCore::send_input(CallPtr call, std::string input, std::string what) {
  auto rest = std::as_bytes(std::span(std::as_const(input)));
  while (!rest.empty() && !call->done) {
    const auto sent = link_.input(call->id, rest);
    if (!sent) co_return std::unexpected(sent.error());
    rest = rest.subspan(*sent);
    flush();
    if (*sent != 0) continue;
    auto moved = co_await progress(*this, *call, what);
    if (!moved) co_return std::unexpected(moved.error());
  }
  if (call->done) co_return Result<void>();
  auto closed = link_.close_input(call->id);
  flush();
  co_return closed;
}

awaitable<Result<std::unique_ptr<GuestReader>>> GuestCore::pack(GuestUser user, std::string path,
                                                                std::vector<std::string> names) {
  const auto self = shared_from_this();
  const std::string what = "pack " + path;
  auto input = joined(what, names, wire::kNamesBytesMax);
  if (!input) co_return std::unexpected(input.error());
  OpOptions options = make_op(OpKind::Pack, user, std::move(path), wire::kOpOpenUp);
  options.window_bytes = kTransferBytes;
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  auto reader = reader_of(*call, what);  // from here on it is what cancels
  auto sent = co_await send_input(*call, *std::move(input), what);
  if (!sent) co_return std::unexpected(sent.error());
  if ((*call)->error) co_return std::unexpected(named(*(*call)->error, what));
  co_return reader;
}

awaitable<Result<Listing>> GuestCore::find(GuestUser user, std::string path, std::string pattern,
                                           std::vector<std::string> prune) {
  std::string what = "find in " + path;
  prune.insert(prune.begin(), std::move(pattern));
  auto input = joined(what, prune, wire::kPatternBytesMax);
  if (!input) co_return std::unexpected(input.error());
  OpOptions options = make_op(OpKind::Find, user, std::move(path));
  co_return co_await gather(std::move(options), *std::move(input), std::move(what));
}

awaitable<Result<Matches>> GuestCore::grep(GuestUser user, std::string path, std::string pattern,
                                           std::string glob, std::vector<std::string> prune,
                                           std::size_t matches_max) {
  const auto self = shared_from_this();
  const std::string what = "search " + path;
  prune.insert(prune.begin(), {std::move(pattern), std::move(glob)});
  auto input = joined(what, prune, wire::kPatternBytesMax);
  if (!input) co_return std::unexpected(input.error());
  OpOptions options = make_op(OpKind::Grep, user, std::move(path));
  options.length = matches_max;
  MatchSink sink(matches_max);
  auto call = begin(options);
  if (!call) co_return std::unexpected(call.error());
  const CallPtr held = *call;
  held->on_frame = [&sink, &held](const Frame& frame) {
    if (sink.take(frame) || frame.kind == Kind::Credit) held->wakeup.wake();
  };
  const CallGuard guard(self, held, CallGuard::Kind::Operation);
  auto sent = co_await send_input(held, *std::move(input), what);
  if (!sent) co_return std::unexpected(sent.error());
  Matches& matches = sink.matches();
  while (!held->done && !matches.truncated) {
    auto moved = co_await progress(*this, *held, what);
    if (!moved) co_return std::unexpected(moved.error());
  }
  if (held->error && !matches.truncated) co_return std::unexpected(named(*held->error, what));
  if (held->done && !held->error) {
    matches.truncated = matches.truncated || held->result.count != 0;
    matches.unreadable = held->result.bytes;
  }
  co_return std::move(matches);
}

}  // namespace caisson::engine
