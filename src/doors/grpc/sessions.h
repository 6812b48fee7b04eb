// doors/grpc/sessions.h — which sandbox each session is, and when it was last used. In memory: a
// session does not outlive its server, which removes what an older one has left.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/store.h"

namespace caisson::grpc {

using boost::asio::awaitable;

inline constexpr std::string_view kSessionLabel = "agentbox.session";
inline constexpr std::size_t kSessionIdBytesMax = 128;

// Letters, digits, '.', '_' and '-'; not "." or "..".
[[nodiscard]] bool is_session_name(std::string_view text) noexcept;

struct Session {
  std::string id;
  std::string owner;      // the caller's tenant
  std::string sandbox;    // empty while it is made
  std::string container;  // 12 hexadecimal digits
  std::optional<std::string> tenant;
  std::vector<std::string> hosts;
  double created = 0;  // seconds since 1970
  double used = 0;
  TimePoint used_at{};
  std::size_t running = 0;  // calls that it may not be idle under
  std::uint64_t order = 0;
};
using SessionPtr = std::shared_ptr<Session>;

class Sessions {
 public:
  // One that can be used; null: there is none.
  [[nodiscard]] SessionPtr find(std::string_view owner, std::string_view id) const;
  // In the order of their creation.
  [[nodiscard]] std::vector<SessionPtr> of(std::string_view owner) const;
  [[nodiscard]] std::vector<SessionPtr> all() const;
  // One that can be used, or one whose end has failed: for whoever ends it.
  [[nodiscard]] SessionPtr find_to_end(std::string_view owner, std::string_view id) const;
  // Those whose end has failed. Nobody sees them but who ends them, and their ids are taken.
  [[nodiscard]] std::vector<SessionPtr> condemned() const;
  [[nodiscard]] std::size_t count(std::string_view owner) const;

  // Takes the id for a session that is being made. Waits while somebody else makes it, or ends the
  // one before, and gives back what he has made; `mine` says which it was.
  struct Claim {
    SessionPtr session;  // null: there is one of this id whose end has failed
    bool mine = false;
  };
  awaitable<Claim> claim(std::string owner, std::string id);
  // It is there, or it is not.
  void made(const SessionPtr& session);
  void remove(const SessionPtr& session);
  // It is being ended: nobody finds it any more. Then it is removed, or its end has failed.
  void ending(const SessionPtr& session);
  void condemn(const SessionPtr& session);
  // A sandbox that an older server has left, and whose end has failed.
  void adopt(std::string owner, std::string id, std::string sandbox);

 private:
  enum class Stage : std::uint8_t { Making, Ready, Ending, Condemned };
  struct Place {
    SessionPtr session;
    Stage stage = Stage::Making;
  };
  [[nodiscard]] std::vector<SessionPtr> at(Stage stage) const;
  void set(const SessionPtr& session, Stage stage);
  void wake();

  std::map<std::pair<std::string, std::string>, Place> places_;
  std::list<boost::asio::steady_timer*> waiting_;
  std::uint64_t next_ = 0;
};

}  // namespace caisson::grpc
