// doors/sandboxer/patient.h — an answer to a client that gives up after a few silent seconds. While
// nothing can be said yet, something that means nothing is sent: a blank before JSON, a comment in
// an event stream.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <string>
#include <string_view>

#include "doors/sandboxer/call.h"

namespace caisson::sandboxer {

class PatientAnswer {
 public:
  // `filler` and `type` outlive it.
  PatientAnswer(Call& call, std::string_view type, std::string_view filler, milliseconds patience)
      : call_(call),
        type_(type),
        filler_(filler),
        patience_(patience),
        timer_(call.services().executor),
        turn_(call.services().executor) {}

  // Sends the head, if it was not sent yet.
  awaitable<Result<void>> begin();
  awaitable<Result<void>> write(std::string text);
  // All of it at once when nothing was sent yet.
  awaitable<Result<void>> finish(std::string text);
  // Never returns, unless the client has left.
  awaitable<void> keep_alive();
  [[nodiscard]] bool begun() const noexcept { return begun_; }

 private:
  class Turn;

  Call& call_;
  std::string_view type_;
  std::string_view filler_;
  milliseconds patience_;
  boost::asio::steady_timer timer_;
  Signal turn_;
  TimePoint last_ = Clock::now();
  bool writing_ = false;
  bool begun_ = false;
  bool finished_ = false;
};

}  // namespace caisson::sandboxer
