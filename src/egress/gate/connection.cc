#include "egress/gate/connection.h"

#include <utility>

#include "egress/gate/dial.h"

namespace caisson::egress {

namespace asio = boost::asio;

Passage passage_of(const Asked& asked, const Verdict& verdict) {
  Passage passage;
  passage.way = asked.way;
  passage.host = asked.host;
  passage.port = asked.request.port;
  passage.method = asked.method;
  passage.path = asked.path;
  passage.verdict = verdict;
  if (verdict.outcome != Outcome::Deny) {
    passage.verdict.outcome = Outcome::Allow;
    passage.verdict.reason = Reason::Allowed;
  }
  return passage;
}

namespace {

Verdict not_recorded(std::optional<std::size_t> rule) {
  return {Outcome::Deny, Reason::NotRecorded, rule, "the decision cannot be recorded", {}};
}

// Cut while it waited: whoever did it has told why.
Verdict gone() {
  return {Outcome::Deny, Reason::NotRecorded, std::nullopt, "the connection was cut", {}};
}

}  // namespace

Connection::Connection(std::shared_ptr<GateCore> the_core)
    : core(std::move(the_core)),
      client(core->executor),
      upstream(core->executor),
      deadline(core->executor,
               [this] {
                 client.cancel();
                 upstream.cancel();
               }),
      place_(core->connections.insert(core->connections.end(), this)) {
  ++core->counts.connections;
}

Connection::~Connection() {
  leave();
  core->connections.erase(place_);
}

asio::awaitable<Verdict> Connection::admit(const Asked& asked) {
  resolved_ = Resolved();
  Verdict verdict = decide(asked.request, core->ledger.rules(), resolved_);
  // The bucket before the resolver: names must not be asked for faster than the rule says.
  if (verdict.outcome != Outcome::Deny) {
    verdict = core->ledger.take(std::move(verdict), Clock::now());
  }
  if (verdict.outcome != Outcome::Deny) {
    resolved_ = co_await core->resolve(std::get<HostName>(asked.request.host));
    verdict = decide(asked.request, core->ledger.rules(), resolved_);
  }
  Passage passage = passage_of(asked, verdict);
  const auto recorded = co_await core->record(std::move(passage));
  if (verdict.outcome == Outcome::Deny) co_return verdict;
  if (!recorded || cut_) co_return not_recorded(verdict.rule_index);
  // While it was written, the rules may have changed.
  verdict = decide(asked.request, core->ledger.rules(), resolved_);
  if (verdict.outcome == Outcome::Deny) core->note(passage_of(asked, verdict));
  co_return verdict;
}

Verdict Connection::admit_next(const Asked& asked, bool paid) {
  if (!standing_) return gone();
  Verdict verdict = decide(asked.request, core->ledger.rules(), standing_->resolved);
  if (!paid) verdict = core->ledger.take(std::move(verdict), Clock::now());
  const bool kept = core->note(passage_of(asked, verdict));
  if (verdict.outcome == Outcome::Deny) return verdict;
  if (!kept) return not_recorded(verdict.rule_index);
  standing_->asked = asked;
  standing_->rule = *verdict.rule_index;
  return verdict;
}

Verdict Connection::admit_again(const Asked& asked) const {
  if (!standing_) return gone();
  return decide(asked.request, core->ledger.rules(), standing_->resolved);
}

Verdict Connection::admit_first_bytes(const Asked& asked) {
  if (!standing_) return gone();
  Verdict verdict = decide(asked.request, core->ledger.rules(), standing_->resolved);
  if (verdict.outcome == Outcome::Deny) {
    core->note(passage_of(asked, verdict));
    return verdict;
  }
  standing_->asked = asked;
  standing_->rule = *verdict.rule_index;
  return verdict;
}

bool Connection::would_allow(const Asked& asked, FirstBytes first) const {
  if (!standing_) return false;
  Request request = asked.request;
  request.sight = Sight::Opaque;
  request.first = std::move(first);
  return decide(request, core->ledger.rules(), standing_->resolved).allowed();
}

asio::awaitable<Result<void>> Connection::reach(const Asked& asked, Verdict verdict) {
  leave();
  up_in.clear();
  Standing standing{asked, resolved_, *verdict.rule_index, Clock::now()};
  standing_ = std::move(standing);
  const auto dialled = co_await dial(upstream, deadline, std::move(verdict.addresses),
                                     asked.request.port, core->times.dial);
  if (cut_ || !standing_) {
    upstream.close();
    co_return failure(Errc::Gone, "the connection was cut");
  }
  if (!dialled) {
    standing_.reset();  // nothing was let through, so nothing has ended
    co_return std::unexpected(dialled.error());
  }
  standing_->resolved.addresses.assign(1, *dialled);
  co_return Result<void>();
}

bool Connection::is_connected_to(const HostName& host, std::uint16_t port) noexcept {
  if (!standing_ || standing_->asked.request.port != port) return false;
  const auto* there = std::get_if<HostName>(&standing_->asked.request.host);
  return there != nullptr && *there == host && up_in.empty() && !upstream.is_stale();
}

void Connection::judge_again() {
  if (!standing_ || cut_) return;
  const Verdict verdict =
      decide(standing_->asked.request, core->ledger.rules(), standing_->resolved);
  if (verdict.outcome != Outcome::Deny) {
    standing_->rule = *verdict.rule_index;
    return;
  }
  core->note(passage_of(standing_->asked, verdict));
  cut();
}

void Connection::leave() noexcept {
  upstream.close();
  if (!standing_) return;
  Farewell words;
  words.way = standing_->asked.way;
  words.host = std::move(standing_->asked.host);
  words.port = standing_->asked.request.port;
  words.rule_index = standing_->rule;
  words.bytes_up = standing_->up;
  words.bytes_down = standing_->down;
  words.lasted = Clock::now() - standing_->since;
  standing_.reset();
  core->farewell(std::move(words));
}

void Connection::cut() noexcept {
  cut_ = true;
  client.reset();
  upstream.reset();
  if (when_cut) when_cut();
  leave();
}

void Connection::count(Direction direction, std::size_t bytes) noexcept {
  if (!standing_) return;
  (direction == Direction::Up ? standing_->up : standing_->down) += bytes;
  (direction == Direction::Up ? core->counts.bytes_up : core->counts.bytes_down) += bytes;
  core->ledger.spend(standing_->rule, bytes);
}

std::uint64_t Connection::allowance() const noexcept {
  return standing_ ? core->ledger.allowance(standing_->rule) : 0;
}

void Connection::bytes_are_spent() {
  if (!standing_) return;
  Verdict verdict;
  verdict.outcome = Outcome::Allow;
  verdict.rule_index = standing_->rule;
  core->note(passage_of(standing_->asked, over_bytes(std::move(verdict), core->ledger.rules())));
  cut();
}

}  // namespace caisson::egress
