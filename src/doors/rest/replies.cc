#include "doors/rest/replies.h"

#include <algorithm>
#include <array>

namespace caisson::rest {

struct Replies::Entry {
  std::string name;  // by which it is found
  std::string tenant;
  std::string target;
  TimePoint since;
  bool running = true;
  Reply reply;
};

struct Replies::State {
  std::list<std::shared_ptr<Entry>> by_age;  // the oldest first
  std::map<std::string, std::list<std::shared_ptr<Entry>>::iterator, std::less<>> by_name;
  std::map<std::string, std::size_t, std::less<>> per_tenant;

  void remove(const Entry& entry) {
    const auto found = by_name.find(entry.name);
    if (found == by_name.end() || found->second->get() != &entry) return;
    const auto count = per_tenant.find(entry.tenant);
    if (--count->second == 0) per_tenant.erase(count);
    const auto at = found->second;
    by_name.erase(found);
    by_age.erase(at);  // last: it may own the entry
  }

  // The oldest that is answered, of this tenant or of all.
  void remove_oldest(const std::string* tenant) {
    const auto fits = [tenant](const auto& entry) {
      return !entry->running && (tenant == nullptr || entry->tenant == *tenant);
    };
    const auto found = std::ranges::find_if(by_age, fits);
    if (found != by_age.end()) remove(**found);
  }

  void expire(TimePoint now) {
    while (!by_age.empty() && !by_age.front()->running && now - by_age.front()->since > kReplyLife)
      remove(*by_age.front());
  }
};

bool takes_key(std::string_view operation) noexcept {
  constexpr std::array<std::string_view, 22> kOperations = {
      "createSandbox", "forkSandbox",  "createSnapshot", "undo",           "merge",
      "run",           "exec",         "executeTool",    "startProcess",   "signalProcess",
      "recordUsage",   "buildImage",   "pauseSandbox",   "resumeSandbox",  "stopSandbox",
      "startSandbox",  "makeFolder",   "moveFile",       "promoteSandbox", "hibernateSandbox",
      "runCode",       "createContext"};
  return std::ranges::find(kOperations, operation) != kOperations.end();
}

Replies::Turn::Turn(std::shared_ptr<State> state, std::shared_ptr<Entry> entry)
    : state_(std::move(state)), entry_(std::move(entry)) {}

Replies::Turn::~Turn() {
  if (state_ && !done_) state_->remove(*entry_);
}

void Replies::Turn::keep(unsigned status, std::string_view body) {
  if (body.size() > kReplyBytesMax) return;
  entry_->reply.status = status;
  entry_->reply.body = body;
}

void Replies::Turn::done(std::size_t asked) {
  entry_->reply.asked = asked;
  entry_->running = false;
  done_ = true;
}

void Replies::Turn::broken_off(std::size_t asked) {
  entry_->reply.broken_off = true;
  done(asked);
}

Replies::Replies() : state_(std::make_shared<State>()) {}

Result<Replies::Asked> Replies::ask(Question question, TimePoint now) {
  const auto odd = [](char c) { return c <= ' ' || c > '~'; };
  if (question.key.size() > kKeyBytesMax || std::ranges::any_of(question.key, odd)) {
    return bad_field(std::string(kKeyField),
                     "Idempotency-Key is malformed: want at most 128 printable characters without "
                     "spaces, such as a UUID");
  }
  State& state = *state_;
  state.expire(now);
  // The parts cannot run into each other: a key has no spaces, nor has an actor's id a line's end.
  std::string name = question.key + ' ' + question.actor + '\n' + question.tenant;
  if (const auto found = state.by_name.find(name); found != state.by_name.end()) {
    const Entry& entry = **found->second;
    if (entry.target != question.target) {
      return bad_field(std::string(kKeyField), "Idempotency-Key was used for " + entry.target +
                                                   ": take a new one for each call");
    }
    if (entry.running)
      return failure(Errc::Busy, "the call with this Idempotency-Key is under way: ask again");
    return Asked{std::nullopt, entry.reply};
  }
  std::size_t& own = state.per_tenant[question.tenant];
  ++own;
  auto entry = std::make_shared<Entry>();
  entry->name = name;
  entry->tenant = question.tenant;
  entry->target = std::move(question.target);
  entry->since = now;
  state.by_age.push_back(entry);
  state.by_name.emplace(std::move(name), std::prev(state.by_age.end()));
  if (own > kRepliesPerTenantMax) state.remove_oldest(&question.tenant);
  if (state.by_name.size() > kRepliesMax) state.remove_oldest(nullptr);
  return Asked{Turn(state_, std::move(entry)), {}};
}

}  // namespace caisson::rest
