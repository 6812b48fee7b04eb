// egress/gate/gateway_call.h — one call of a language model: judged, paid for, sent with the
// operator's key, and its answer passed on while it is counted.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "egress/gate/connection.h"
#include "egress/gate/gateway.h"
#include "egress/gate/http_heads.h"
#include "egress/gate/injection.h"
#include "egress/gate/tls_pump.h"
#include "http/chunk_decoder.h"
#include "http/request_head.h"

namespace caisson::egress {

class GatewayCall {
 public:
  enum class Turn : std::uint8_t { Next, Close, Cut };

  // All outlive it. The head of the request is read, its body is not.
  GatewayCall(Connection& connection, const http::Request& request, const http::Framing& framing,
              Gateway::Found found);
  ~GatewayCall();
  GatewayCall(const GatewayCall&) = delete;
  GatewayCall& operator=(const GatewayCall&) = delete;

  [[nodiscard]] boost::asio::awaitable<Turn> run();

 private:
  struct Refused {
    unsigned status = 400;
    std::string type;
    std::string message;
    std::optional<BudgetRefusal> budget{};
  };
  using Step = std::expected<void, Refused>;

  [[nodiscard]] boost::asio::awaitable<Step> read_body();
  [[nodiscard]] boost::asio::awaitable<bool> more_body();
  [[nodiscard]] bool hold(std::size_t bytes);
  [[nodiscard]] Step pay();
  [[nodiscard]] boost::asio::awaitable<Step> reach();
  [[nodiscard]] boost::asio::awaitable<Step> ask();
  [[nodiscard]] boost::asio::awaitable<Turn> pass_answer();
  [[nodiscard]] boost::asio::awaitable<bool> pass_body(const AnswerHead& head, bool chunked);
  [[nodiscard]] boost::asio::awaitable<bool> pass_piece(std::string_view piece, bool chunked);
  [[nodiscard]] boost::asio::awaitable<bool> stop_stream(const BudgetRefusal& refusal,
                                                         bool chunked);
  [[nodiscard]] boost::asio::awaitable<Turn> refuse(Refused why);
  [[nodiscard]] boost::asio::awaitable<Fill> fill();  // more of the host's into in_
  [[nodiscard]] boost::asio::awaitable<bool> send_up(std::string_view bytes);
  [[nodiscard]] std::string head() const;
  void settle();
  void tell();

  Connection& c_;
  Gateway& gateway_;
  const http::Request& request_;
  const http::Framing& framing_;
  const GatewayProvider& provider_;
  std::string path_;
  ModelEndpoint endpoint_;
  std::string body_;
  std::size_t held_ = 0;
  RequestFacts facts_;
  std::optional<Price> price_;
  std::optional<Reservation> reservation_;
  Injection key_;
  std::shared_ptr<TlsPump> pump_;
  std::string in_;
  AnswerHead answer_;
  std::optional<UsageReader> reader_;
  std::optional<Redactor::Stream> scrub_;
  bool left_ = false;     // the provider may have it
  bool stopped_ = false;  // for want of budget
  TimePoint since_ = Clock::now();
  LlmCall told_;
};

}  // namespace caisson::egress
