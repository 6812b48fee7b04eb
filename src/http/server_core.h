// http/server_core.h — what the connections of one server share: limits, counters, the clock tick.
// Connections keep it alive, so that the server object may go before its last coroutine does.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "http/http.h"
#include "http/response_head.h"
#include "http/server.h"

namespace caisson::http {

class Served;

using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol,
                                                boost::asio::any_io_executor>;

// Where a connection comes from. `key` is what the cap per peer counts by: an IPv4 address, the
// /64 of an IPv6 address (one customer has it whole), or "unix".
struct Origin {
  Peer peer;
  std::string key;
};

// What HTTP/2 holds for its peers: streams, their heads, bodies that nobody has read, answers that
// the wire has not taken. By all peers, and by one: half of it, so that one alone denies nobody.
inline constexpr std::size_t kHeldBytesMax = 256UL * 1024 * 1024;
inline constexpr std::size_t kHeldBytesPerPeerMax = 128UL * 1024 * 1024;
// So much must be left of both for one more connection.
inline constexpr std::size_t kConnectionBytesMin = 64UL * 1024;

struct ServerCore {
  // What the connections of one peer have together.
  struct PeerShare {
    std::size_t connections = 0;
    std::size_t held = 0;
  };

  ServerCore(boost::asio::any_io_executor the_executor, Handler& the_handler,
             const Limits& the_limits, Server::ErrorBody the_on_error)
      : executor(std::move(the_executor)),
        handler(the_handler),
        limits(the_limits),
        on_error(std::move(the_on_error)) {}

  boost::asio::any_io_executor executor;
  Handler& handler;
  const Limits limits;
  Server::ErrorBody on_error;

  ServerCounters counters;
  DateText date;
  std::uint64_t tick = 0;  // seconds in which there were connections: deadlines are measured in it
  std::uint64_t next_id = 0;
  bool stopping = false;
  std::function<void()> done;  // of stop()

  std::list<Served*> connections;
  std::unordered_map<std::string, PeerShare> per_peer;
  std::size_t held = 0;  // of kHeldBytesMax

  // Where HTTP/2 receives: its session takes all of it at once, so one place does for all.
  std::string scratch;

  [[nodiscard]] bool has_room(const std::string& key) const;
  // 16 hex digits, different for 2^64 requests, and not telling how many there were.
  void write_id(std::string& out);
  [[nodiscard]] std::string error_body(unsigned status, const Error& error, std::string_view id);
};

// A connection as the limits count it, from the moment it is accepted until the last of those that
// speak on it has gone.
class Seat {
 public:
  Seat(std::shared_ptr<ServerCore> core, std::string key);
  ~Seat();
  // Bytes that are held for this peer. They are counted whether there is room for them or not;
  // whoever can still refuse looks first.
  [[nodiscard]] bool has_room(std::size_t bytes) const noexcept;
  void hold(std::size_t bytes) noexcept;
  void give_back(std::size_t bytes) noexcept;
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  Seat(Seat&&) = delete;
  Seat& operator=(Seat&&) = delete;

 private:
  std::shared_ptr<ServerCore> core_;
  std::string key_;
  ServerCore::PeerShare* share_;  // lives in the core as long as one seat of the key does
};

// What the server asks of whoever speaks on a connection. Each of the three may end this object,
// and no other: the server is walking along its list.
class Served {
 public:
  Served(std::shared_ptr<ServerCore> core, std::shared_ptr<Seat> seat);
  virtual ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  Served(Served&&) = delete;
  Served& operator=(Served&&) = delete;

  virtual void on_tick() = 0;  // a second has passed
  virtual void on_stop() = 0;  // nothing new; what is under way may end
  virtual void cut() = 0;      // now

 protected:
  std::shared_ptr<ServerCore> core_;
  std::shared_ptr<Seat> seat_;

 private:
  std::list<Served*>::iterator place_;
};

// Calls each connection, whether or not it outlives that.
template <class Call>
void for_each_connection(ServerCore& core, Call call) {
  for (auto next = core.connections.begin(); next != core.connections.end();) call(**next++);
}

// Calls stop()'s `done` when the last connection has gone.
void finish_stop(ServerCore& core);

// The id that belongs to the n-th request: a bijection, so no two are alike.
[[nodiscard]] std::uint64_t scatter(std::uint64_t n) noexcept;

}  // namespace caisson::http
