// egress/gate/inside_test.h — for tests: a network namespace of our own, with the addresses that a
// sandbox has, and in it hosts, a name server and a gate with its thread.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "egress/gate/gate.h"
#include "egress/gate/resolver.h"
#include "http/loopback_test.h"

namespace caisson::egress::test {

using http::test::RawClient;

// Empty when the namespace is there, else why not.
[[nodiscard]] const std::string& inside_fault();
#define NEEDS_INSIDE() \
  if (!inside_fault().empty()) GTEST_SKIP() << inside_fault()

[[nodiscard]] UniqueFd listen_at(const std::string& address, std::uint16_t port,
                                 int type = SOCK_STREAM);
[[nodiscard]] std::uint16_t port_of(int fd);
[[nodiscard]] UniqueFd connect_to(const std::string& address, std::uint16_t port);

// A host: each connection has a thread that runs the function.
class Host {
 public:
  using Serve = std::function<void(RawClient&)>;
  explicit Host(Serve serve, std::uint16_t port = 0, const std::string& address = "127.0.0.1");
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  Host(Host&&) = delete;
  Host& operator=(Host&&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void accept_all();
  Serve serve_;
  UniqueFd listener_;
  UniqueFd wake_read_;
  UniqueFd wake_write_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Answers each request with its own head as the body, and keeps the connection.
[[nodiscard]] Host::Serve echo_heads();

// A name server. An unknown name does not exist.
class Names {
 public:
  Names();
  ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  Names(Names&&) = delete;
  Names& operator=(Names&&) = delete;

  using Answer = std::vector<std::string>;  // addresses of either family
  void set(const std::string& name, Answer answer);
  // Called for each query of the name, with its number.
  void set(const std::string& name, std::function<Answer(int)> answer);
  void be_silent(bool silent) { silent_ = silent; }
  void truncate(bool truncate) { truncate_ = truncate; }
  [[nodiscard]] static NameServer server();
  [[nodiscard]] std::vector<std::string> asked();  // "name/type"
  [[nodiscard]] int asked_by_tcp() const { return by_tcp_; }

 private:
  void run();
  [[nodiscard]] std::string answer(std::string_view query, bool tcp);
  UniqueFd udp_;
  UniqueFd tcp_;
  UniqueFd wake_read_;
  UniqueFd wake_write_;
  std::mutex mutex_;
  std::map<std::string, std::function<Answer(int)>> known_;
  std::map<std::string, int> counts_;
  std::vector<std::string> asked_;
  std::atomic<bool> silent_ = false;
  std::atomic<bool> truncate_ = false;
  std::atomic<int> by_tcp_ = 0;
  std::thread thread_;
};

// A loop on a thread of its own.
class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  Loop(Loop&&) = delete;
  Loop& operator=(Loop&&) = delete;

  boost::asio::io_context context{1};
  void on_thread(const std::function<void()>& work);
  // Until it holds, looked at on the thread, within a bound.
  [[nodiscard]] bool wait_until(const std::function<bool()>& holds);
  template <class T>
  T run(std::function<boost::asio::awaitable<T>()> make) {
    std::promise<T> promise;
    boost::asio::co_spawn(context, make(), [&](std::exception_ptr failed, T value) {
      EXPECT_FALSE(failed);
      promise.set_value(std::move(value));
    });
    return promise.get_future().get();
  }

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context.get_executor()};
  std::thread thread_;
};

// A gate with everything around it.
class Inside {
 public:
  struct Options {
    GateTimes times{};
    Identify identify{};
    std::string trust_store{};
    std::vector<std::pair<std::string, std::uint16_t>> listeners{};  // besides the usual
    bool record_fails = false;
    std::shared_ptr<Authority> authority{};
    FindSecret secrets{};
    std::shared_ptr<Gateway> gateway{};
    ExtraProxy proxy{};
  };
  explicit Inside(std::vector<policy::NetworkEgressRule> rules)
      : Inside(std::move(rules), Options()) {}
  Inside(std::vector<policy::NetworkEgressRule> rules, Options options);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  Inside(Inside&&) = delete;
  Inside& operator=(Inside&&) = delete;

  [[nodiscard]] RawClient proxy() { return RawClient(kProxyPort); }
  // One request on a connection of its own.
  [[nodiscard]] http::test::Reply ask(std::string_view bytes);
  void replace(std::vector<policy::NetworkEgressRule> rules);
  [[nodiscard]] GateCounts counts();
  [[nodiscard]] std::vector<Passage> passages();  // decided and noted, in order
  [[nodiscard]] std::vector<Farewell> farewells();
  [[nodiscard]] bool wait_farewells(std::size_t count);
  [[nodiscard]] bool wait_passages(std::size_t count);
  // A query by UDP: the answer's code, and its addresses as text.
  struct Found {
    int rcode = -1;
    std::vector<std::string> addresses;
  };
  [[nodiscard]] static Found look_up(const std::string& name, std::uint16_t type = 1,
                                     bool tcp = false);

  Names names;
  Loop loop;
  std::shared_ptr<Resolver> resolver;
  std::unique_ptr<Gate> gate;

 private:
  std::vector<Passage> passages_;  // the loop's thread
  std::vector<Farewell> farewells_;
};

// A rule for a name on the loopback.
[[nodiscard]] policy::NetworkEgressRule rule(const std::string& domain, std::uint16_t port = 0);

// "POST /x" and so on to a proxy.
[[nodiscard]] std::string get(const std::string& host, std::uint16_t port,
                              const std::string& path = "/", const std::string& more = "");
[[nodiscard]] std::string connect_line(const std::string& target);

// The bytes of a ClientHello.
[[nodiscard]] std::string hello_for(const std::string& name, bool hidden = false);

}  // namespace caisson::egress::test
