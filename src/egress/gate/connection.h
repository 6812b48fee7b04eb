// egress/gate/connection.h — one client and the host it was let through to. Here is the order that
// every way out keeps: admit() asks decide(), the resolver and decide() again, and has the decision
// recorded; reach() dials what was judged; then bytes move, counted against the rule.
//
// One coroutine serves a connection, and a second one may carry the other direction. At most one
// time limit runs; when it passes, or the connection is cut, every wait ends and says no.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "egress/gate/deadline.h"
#include "egress/gate/gate_core.h"
#include "egress/gate/signal.h"
#include "egress/gate/stream.h"

namespace caisson::egress {

inline constexpr std::size_t kPieceBytes = 64UL * 1024;  // read and sent on at once
// So much may pass before other connections have their turn.
inline constexpr std::size_t kBurstBytes = 512UL * 1024;

// What is asked, and what of it is told.
struct Asked {
  Way way = Way::Http;
  Request request;
  std::string host;  // as far as it could be read
  std::string method;
  std::string path;  // without the query
};
[[nodiscard]] Passage passage_of(const Asked& asked, const Verdict& verdict);

enum class Direction : std::uint8_t { Up, Down };  // Up: to the host
enum class Fill : std::uint8_t { More, End, Broken };
enum class PumpEnd : std::uint8_t { Limit, End, Broken, Stopped };

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(std::shared_ptr<GateCore> the_core);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  Connection(Connection&&) = delete;
  Connection& operator=(Connection&&) = delete;

  // --- the decision. Deny, or a verdict whose addresses may be dialled.
  [[nodiscard]] boost::asio::awaitable<Verdict> admit(const Asked& asked);
  // The next request to the host that is connected already: no second lookup. `paid`: its place in
  // the bucket was taken with the connection's.
  [[nodiscard]] Verdict admit_next(const Asked& asked, bool paid);
  // The same request once more, because the host closed the connection before it answered: judged
  // for the address that was connected, not told and not counted again.
  [[nodiscard]] Verdict admit_again(const Asked& asked) const;
  // What the first bytes said is now known.
  [[nodiscard]] Verdict admit_first_bytes(const Asked& asked);
  // Whether `first` would be allowed here.
  [[nodiscard]] bool would_allow(const Asked& asked, FirstBytes first) const;
  [[nodiscard]] boost::asio::awaitable<Result<void>> reach(const Asked& asked, Verdict verdict);
  [[nodiscard]] bool is_connected_to(const HostName& host, std::uint16_t port) noexcept;
  // The rules are others now: cut, if they do not allow what is there.
  void judge_again();
  // The end of what was reached; told once.
  void leave() noexcept;

  // --- the end.
  void cut() noexcept;  // both sides see a reset
  [[nodiscard]] bool is_cut() const noexcept { return cut_; }
  // Waits until the client has closed too, within bounds: a close with unread bytes would reset the
  // connection and could take our last answer with it.
  [[nodiscard]] boost::asio::awaitable<void> linger();

  // --- bytes. More of the client's into `in`.
  [[nodiscard]] boost::asio::awaitable<Fill> fill_in();
  // More of the host's into `up_in`, counted.
  [[nodiscard]] boost::asio::awaitable<Fill> fill_up_in();
  [[nodiscard]] boost::asio::awaitable<bool> send_client(std::string_view bytes);
  [[nodiscard]] boost::asio::awaitable<bool> send_up(std::string_view bytes);  // counted
  // Called for each piece that was moved at once: now and then the others have their turn, because
  // a peer that is always ready would otherwise keep the only thread.
  [[nodiscard]] boost::asio::awaitable<void> breathe(std::size_t bytes);
  // As they come, up to `limit`.
  [[nodiscard]] boost::asio::awaitable<PumpEnd> pump(Direction direction, std::uint64_t limit);
  // Both directions until both have ended, with what was read already first.
  [[nodiscard]] boost::asio::awaitable<void> relay();
  // The downward half alone, in a coroutine of its own.
  [[nodiscard]] std::shared_ptr<Signal> start_down();
  [[nodiscard]] boost::asio::awaitable<void> stop_down(std::shared_ptr<Signal> down);
  // in, and then as it comes; the end is passed on. The rest of relay().
  [[nodiscard]] boost::asio::awaitable<void> run_up();

  const std::shared_ptr<GateCore> core;
  Stream client;
  Stream upstream;
  Deadline deadline;
  std::string in;                  // read from the client, not used
  std::string up_in;               // read from the host, not used
  std::function<void()> when_cut;  // whoever stands between us and the real sockets
  bool handed_over = false;        // it came from outside the sandbox: see Gate::take()

 private:
  struct Standing {  // what was let through, while it is there
    Asked asked;
    Resolved resolved;  // what was judged; behind reach(), the address that is connected
    std::size_t rule = 0;
    TimePoint since;
    std::uint64_t up = 0;
    std::uint64_t down = 0;
  };

  [[nodiscard]] boost::asio::awaitable<bool> readable(Stream& stream);
  [[nodiscard]] boost::asio::awaitable<bool> writable(Stream& stream);
  [[nodiscard]] boost::asio::awaitable<Fill> fill(Stream& stream, std::string& into,
                                                  std::size_t most);
  [[nodiscard]] boost::asio::awaitable<bool> send(Stream& stream, std::string_view bytes);
  void count(Direction direction, std::size_t bytes) noexcept;
  [[nodiscard]] std::uint64_t allowance() const noexcept;
  void bytes_are_spent();
  [[nodiscard]] boost::asio::awaitable<PumpEnd> pass_down();
  static boost::asio::awaitable<void> run_down(std::shared_ptr<Connection> self,
                                               std::shared_ptr<Signal> done);

  std::list<Connection*>::iterator place_;
  std::optional<Standing> standing_;
  Resolved resolved_;  // of the last admit()
  bool cut_ = false;
  bool stop_down_ = false;
  std::size_t breathless_ =
      0;  // bytes, and a price for each piece, since the others had their turn
};

}  // namespace caisson::egress
