#include "egress/gate/gate_core.h"

#include <utility>

namespace caisson::egress {

GateCore::GateCore(boost::asio::any_io_executor the_executor, GateOptions options)
    : executor(std::move(the_executor)),
      sandbox(std::move(options.sandbox)),
      resolver(std::move(options.resolver)),
      identify(std::move(options.identify)),
      times(options.times),
      trust_store(std::move(options.trust_store)),
      authority(std::move(options.authority)),
      secrets(std::move(options.secrets)),
      gateway(std::move(options.gateway)),
      proxy(std::move(options.proxy)),
      ledger(std::move(options.rules), Clock::now()),
      name_queries(kNameQueriesPerMinuteMax, Clock::now()),
      refused_names(executor),
      trust(std::move(options.trust)),
      name_socket(executor),
      witness_(std::move(options.witness)) {}

void GateCore::count(const Verdict& verdict) noexcept {
  ++(verdict.outcome == Outcome::Deny ? counts.denied : counts.allowed);
}

boost::asio::awaitable<Result<void>> GateCore::record(Passage passage) {
  if (closed) co_return failure(Errc::Gone, "the gate is closed");
  count(passage.verdict);
  passage.sandbox = sandbox;
  if (!witness_.decided) co_return Result<void>();
  auto kept = co_await witness_.decided(std::move(passage));
  if (closed) co_return failure(Errc::Gone, "the gate is closed");
  co_return kept;
}

boost::asio::awaitable<Resolved> GateCore::resolve(HostName host) {
  if (resolving >= kGateResolvingMax) co_return Resolved{Resolution::Failed, {}};
  const auto self = shared_from_this();  // the count is ours, whoever else has left
  ++resolving;
  Resolved found = co_await resolver->resolve(std::move(host));
  --resolving;
  co_return found;
}

bool GateCore::note(Passage passage) {
  if (closed) return false;
  count(passage.verdict);
  passage.sandbox = sandbox;
  return !witness_.noted || witness_.noted(std::move(passage));
}

void GateCore::farewell(Farewell words) {
  if (closed || !witness_.ended) return;
  words.sandbox = sandbox;
  witness_.ended(std::move(words));
}

}  // namespace caisson::egress
