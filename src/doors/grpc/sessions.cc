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
  return at == places_.end() || !at->second.ready ? nullptr : at->second.session;
}

std::vector<SessionPtr> Sessions::all() const {
  std::vector<SessionPtr> out;
  for (const auto& [key, place] : places_) {
    if (place.ready) out.push_back(place.session);
  }
  std::ranges::sort(out, {}, [](const SessionPtr& one) { return one->order; });
  return out;
}

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
    if (at->second.ready) co_return Claim{at->second.session, false};
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
  places_[key] = {session, false};
  co_return Claim{std::move(session), true};
}

void Sessions::wake() {
  for (asio::steady_timer* one : waiting_) one->cancel();
}

void Sessions::made(const SessionPtr& session) {
  session->order = ++next_;
  const auto at = places_.find({session->owner, session->id});
  if (at != places_.end()) at->second.ready = true;
  wake();
}

void Sessions::remove(const SessionPtr& session) {
  const auto at = places_.find({session->owner, session->id});
  if (at != places_.end() && at->second.session == session) places_.erase(at);
  wake();
}

}  // namespace caisson::grpc
