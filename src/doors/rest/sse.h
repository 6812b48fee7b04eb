// doors/rest/sse.h — answers that are streams of server-sent events.
//
// Data is always one line of JSON, so nothing that a guest wrote can end an event or begin another.
// Quiet streams carry a comment from time to time, by which proxies and we ourselves see that the
// other side still lives.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "doors/rest/call.h"

namespace caisson::rest {

inline constexpr std::string_view kEventStream = "text/event-stream";

// By its Accept.
[[nodiscard]] bool accepts_events(const Call& call);

[[nodiscard]] std::string event_text(std::string_view event, std::string_view id,
                                     const boost::json::object& data);

class EventWriter {
 public:
  EventWriter(Call& call, const boost::asio::any_io_executor& executor);

  awaitable<Result<void>> begin();
  awaitable<Result<void>> send(std::string_view event, std::string id, boost::json::object data);
  // An error in the stream's own words, when it is too late for a status.
  awaitable<Result<void>> send_error(Error error);
  // Sends comments until a write fails or it is cancelled.
  awaitable<void> keep_alive();

 private:
  awaitable<Result<void>> write(std::string text);

  Call& call_;
  boost::asio::steady_timer pause_;
  boost::asio::steady_timer turn_;  // never expires: cancelled when a writer is done
  bool writing_ = false;
};

// Runs `pump`, which sends the events, beside the comments, until it is done or the client leaves;
// then ends the answer. False when the client left.
awaitable<Result<bool>> run_stream(Call& call, EventWriter& events, awaitable<Result<void>> pump);

}  // namespace caisson::rest
