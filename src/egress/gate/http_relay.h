// egress/gate/http_relay.h — HTTP/1.1 between a client and its hosts, one request judged at a time.
// As a proxy it takes absolute targets and CONNECT and reaches each host anew; inside a tunnel
// there is one host, reached already, and every request must name it. The connection to a host is
// kept for the next request of this client to the same host, and for nobody else.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "egress/gate/connection.h"
#include "egress/gate/gateway.h"
#include "egress/gate/http_heads.h"
#include "egress/gate/injection.h"
#include "egress/wire/proxy_target.h"
#include "http/request_head.h"

namespace caisson::egress {

inline constexpr std::size_t kAnswerHeadBytesMax = 64UL * 1024;
inline constexpr int kInterimAnswersMax = 8;

class HttpRelay {
 public:
  explicit HttpRelay(Connection& connection) : c_(connection) {}
  // Inside a tunnel: `tunnel` is what was reached. Verified: TLS was taken off on both sides.
  enum class Tls : std::uint8_t { None, Verified };
  HttpRelay(Connection& connection, Asked tunnel, Tls tls = Tls::None)
      : c_(connection), tunnel_(std::move(tunnel)), tls_(tls), paid_(true) {}

  [[nodiscard]] boost::asio::awaitable<void> run();
  // Tells the client what is wrong, whatever it asks for first.
  [[nodiscard]] boost::asio::awaitable<void> run_refusing(OwnAnswer own);

 private:
  enum class Turn : std::uint8_t { Next, Close, Cut, Left };
  enum class Got : std::uint8_t { Head, Nothing, Refused };

  // --- the request: http_relay.cc
  [[nodiscard]] boost::asio::awaitable<Got> read_request();
  [[nodiscard]] boost::asio::awaitable<Turn> take_turn();
  [[nodiscard]] boost::asio::awaitable<Turn> connect(Identified who);
  [[nodiscard]] boost::asio::awaitable<Turn> answer(const OwnAnswer& own);
  [[nodiscard]] boost::asio::awaitable<Turn> refuse(const Asked& asked, const Verdict& verdict);
  [[nodiscard]] boost::asio::awaitable<Turn> call_model(Gateway::Found found);
  [[nodiscard]] std::optional<Gateway::Found> gateway_target() const;
  // The secrets of the rule, or the answer that says why not.
  [[nodiscard]] std::optional<OwnAnswer> inject(const Asked& asked, const Verdict& verdict);
  [[nodiscard]] std::uint16_t usual_port() const noexcept;
  [[nodiscard]] Identified identity() const;
  [[nodiscard]] TargetResult target() const;
  [[nodiscard]] Asked ask(const TargetResult& target, const Identified& who) const;
  // --- what follows on it: http_exchange.cc
  [[nodiscard]] boost::asio::awaitable<Turn> exchange(const Asked& asked, const ProxyTarget& target,
                                                      bool reused);
  [[nodiscard]] boost::asio::awaitable<bool> send_request(const ProxyTarget& target);
  [[nodiscard]] boost::asio::awaitable<Result<AnswerHead>> read_answer();
  [[nodiscard]] boost::asio::awaitable<Result<std::size_t>> read_answer_bytes();
  [[nodiscard]] boost::asio::awaitable<bool> wait_answer();
  [[nodiscard]] boost::asio::awaitable<Turn> pass_answer(AnswerHead head);
  [[nodiscard]] boost::asio::awaitable<bool> pass_body(const AnswerHead& head, bool chunked);
  [[nodiscard]] boost::asio::awaitable<bool> pass_chunks(bool chunked);
  [[nodiscard]] boost::asio::awaitable<bool> pass_to_end(bool chunked);
  [[nodiscard]] boost::asio::awaitable<bool> pass_scrubbed(const AnswerHead& head, bool chunked);
  [[nodiscard]] boost::asio::awaitable<bool> pass_piece(std::string_view bytes, bool chunked);
  // --- the body of a request, in a coroutine of its own
  [[nodiscard]] boost::asio::awaitable<void> send_body(std::shared_ptr<Signal> done);
  [[nodiscard]] boost::asio::awaitable<bool> send_sized();
  [[nodiscard]] boost::asio::awaitable<bool> send_chunks();

  Connection& c_;
  std::optional<Asked> tunnel_;
  Tls tls_ = Tls::None;
  bool paid_ = false;  // the tunnel's place in the bucket is the first request's
  http::Request request_;
  http::Framing framing_;
  http::Refusal refusal_;
  std::shared_ptr<Signal> body_;  // raised when the body is sent, or will not be
  bool body_bad_ = false;         // the client's chunks are none
  bool body_stop_ = false;
  Injection injection_;    // of the request under way
  bool answered_ = false;  // a head has gone to the client
};

}  // namespace caisson::egress
