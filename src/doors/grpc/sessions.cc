#include "doors/grpc/sessions.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace caisson::grpc {

namespace asio = boost::asio;

bool is_session_name(std::string_view text) noexcept {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kSessionIdBytesMax && std::ranges::all_of(text, fits) &&
         text != "." && text != "..";
}

SessionPtr Sessions::find(std::string_view owner, std::string_view id) const {
  const auto at = places_.find({std::string(owner), std::string(id)});
  return at == places_.end() || at->second.stage != Stage::Ready ? nullptr : at->second.session;
}

SessionPtr Sessions::find_to_end(std::string_view owner, std::string_view id) const {
  const auto at = places_.find({std::string(owner), std::string(id)});
  if (at == places_.end()) return nullptr;
  const Stage stage = at->second.stage;
  return stage == Stage::Ready || stage == Stage::Condemned ? at->second.session : nullptr;
}

std::vector<SessionPtr> Sessions::at(Stage stage) const {
  std::vector<SessionPtr> out;
  for (const auto& [key, place] : places_) {
    if (place.stage == stage) out.push_back(place.session);
  }
  std::ranges::sort(out, {}, [](const SessionPtr& one) { return one->order; });
  return out;
}

std::vector<SessionPtr> Sessions::all() const { return at(Stage::Ready); }

std::vector<SessionPtr> Sessions::condemned() const { return at(Stage::Condemned); }

std::vector<SessionPtr> Sessions::of(std::string_view owner) const {
  std::vector<SessionPtr> out = all();
  std::erase_if(out, [owner](const SessionPtr& one) { return one->owner != owner; });
  return out;
}

std::size_t Sessions::count(std::string_view owner) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      places_, [owner](const auto& one) { return one.first.first == owner; }));
}

awaitable<Sessions::Claim> Sessions::claim(std::string owner, std::string id) {
  const std::pair<std::string, std::string> key{std::move(owner), std::move(id)};
  for (;;) {
    const auto at = places_.find(key);
    if (at == places_.end()) break;
    if (at->second.stage == Stage::Ready) co_return Claim{at->second.session, false};
    if (at->second.stage == Stage::Condemned) co_return Claim{nullptr, false};
    asio::steady_timer woken(co_await asio::this_coro::executor,
                             asio::steady_timer::time_point::max());
    const auto place = waiting_.insert(waiting_.end(), &woken);
    boost::system::error_code ec;
    co_await woken.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    waiting_.erase(place);
  }
  auto session = std::make_shared<Session>();
  session->owner = key.first;
  session->id = key.second;
  places_[key] = {session, Stage::Making};
  co_return Claim{std::move(session), true};
}

void Sessions::wake() {
  for (asio::steady_timer* one : waiting_) one->cancel();
}

void Sessions::set(const SessionPtr& session, Stage stage) {
  const auto at = places_.find({session->owner, session->id});
  if (at != places_.end() && at->second.session == session) at->second.stage = stage;
  wake();
}

void Sessions::made(const SessionPtr& session) {
  session->order = ++next_;
  set(session, Stage::Ready);
}

void Sessions::ending(const SessionPtr& session) { set(session, Stage::Ending); }

void Sessions::condemn(const SessionPtr& session) { set(session, Stage::Condemned); }

void Sessions::adopt(std::string owner, std::string id, std::string sandbox) {
  auto session = std::make_shared<Session>();
  session->owner = owner;
  session->id = id;
  session->sandbox = std::move(sandbox);
  places_.try_emplace({std::move(owner), std::move(id)}, std::move(session), Stage::Condemned);
}

void Sessions::remove(const SessionPtr& session) {
  const auto at = places_.find({session->owner, session->id});
  if (at != places_.end() && at->second.session == session) places_.erase(at);
  wake();
}

}  // namespace caisson::grpc
