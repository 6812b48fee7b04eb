// What nghttp2's session calls while it reads or makes frames. C code stands between us and
// whoever called it, so no exception leaves here, and nothing here pumps or feeds the session.
#include <algorithm>
#include <string_view>

#include "http/http2_connection.h"

namespace caisson::http {

namespace {

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(bytes), size};
}

template <typename Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {  // an empty heap: it costs this connection
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
}

}  // namespace

struct Http2Callbacks {
  static Http2Connection& self(void* user) noexcept { return *static_cast<Http2Connection*>(user); }
  static Http2Stream* stream_of(nghttp2_session* session, std::int32_t id) noexcept {
    return static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session, id));
  }
  static void fault(Http2Connection& connection) {
    if (!connection.meter_.fault()) connection.terminate(NGHTTP2_ENHANCE_YOUR_CALM);
  }

  static int begin_request(Http2Connection& connection, std::int32_t id);
  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user);
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame,
                       const std::uint8_t* name, std::size_t name_size, const std::uint8_t* value,
                       std::size_t value_size, std::uint8_t flags, void* user);
  static int on_data(nghttp2_session* session, std::uint8_t flags, std::int32_t id,
                     const std::uint8_t* data, std::size_t size, void* user);
  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user);
  static int on_invalid_frame(nghttp2_session* session, const nghttp2_frame* frame, int error,
                              void* user);
  static int on_close(nghttp2_session* session, std::int32_t id, std::uint32_t code, void* user);
  static int on_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user);
  static int send_data(nghttp2_session* session, nghttp2_frame* frame, const std::uint8_t* head,
                       std::size_t size, nghttp2_data_source* source, void* user);
};

// The session counts streams that are open; those whose handlers are still ending count with us,
// which is why opening and resetting in a loop starts no more work than keeping them open does.
int Http2Callbacks::begin_request(Http2Connection& connection, std::int32_t id) {
  nghttp2_session* session = connection.session();
  if (!connection.has_room()) {
    fault(connection);
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
  }
  auto stream = std::make_shared<Http2Stream>(connection.shared_from_this(), id);
  Http2Stream* raw = stream.get();
  connection.streams_.emplace(id, std::move(stream));
  return nghttp2_session_set_stream_user_data(session, id, raw);
}

int Http2Callbacks::on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame,
                                     void* user) {
  return guarded([&] {
    Http2Connection& connection = self(user);
    connection.ignored_head_bytes_ = 0;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      return begin_request(connection, frame->hd.stream_id);
    }
    if (Http2Stream* stream = stream_of(session, frame->hd.stream_id)) stream->begin_trailers();
    return 0;
  });
}

int Http2Callbacks::on_header(nghttp2_session* session, const nghttp2_frame* frame,
                              const std::uint8_t* name, std::size_t name_size,
                              const std::uint8_t* value, std::size_t value_size,
                              std::uint8_t /*flags*/, void* user) {
  return guarded([&]() -> int {
    if (Http2Stream* stream = stream_of(session, frame->hd.stream_id)) {
      const bool ok = stream->add_field(text_of(name, name_size), text_of(value, value_size));
      return ok ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    // A refused stream: its fields are read only to keep the table of names in step.
    Http2Connection& connection = self(user);
    connection.ignored_head_bytes_ += name_size + value_size;
    const std::size_t most = kHeadBombFactor * connection.core_->limits.header_bytes_max;
    return connection.ignored_head_bytes_ > most ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
  });
}

int Http2Callbacks::on_data(nghttp2_session* session, std::uint8_t /*flags*/, std::int32_t id,
                            const std::uint8_t* data, std::size_t size, void* /*user*/) {
  return guarded([&] {
    if (Http2Stream* stream = stream_of(session, id)) {
      stream->add_body(text_of(data, size));
    } else {
      (void)nghttp2_session_consume(session, id, size);
    }
    return 0;
  });
}

int Http2Callbacks::on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
  return guarded([&] {
    Http2Connection& connection = self(user);
    const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    Http2Stream* stream = stream_of(session, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
      stream->end_head(!last);
      connection.ready_.push_back(connection.streams_.at(frame->hd.stream_id));
    } else if (last) {
      stream->end_body();
    }
    return 0;
  });
}

int Http2Callbacks::on_invalid_frame(nghttp2_session* /*session*/, const nghttp2_frame* /*frame*/,
                                     int /*error*/, void* user) {
  return guarded([&] {
    fault(self(user));
    return 0;
  });
}

int Http2Callbacks::on_close(nghttp2_session* session, std::int32_t id, std::uint32_t /*code*/,
                             void* user) {
  return guarded([&] {
    Http2Connection& connection = self(user);
    const auto found = connection.streams_.find(id);
    if (found == connection.streams_.end()) return 0;
    const std::shared_ptr<Http2Stream> stream = std::move(found->second);
    connection.streams_.erase(found);
    nghttp2_session_set_stream_user_data(session, id, nullptr);
    stream->closed();
    return 0;
  });
}

int Http2Callbacks::on_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
  return guarded([&]() -> int {
    Http2Connection& connection = self(user);
    const std::int32_t id = frame->hd.stream_id;
    switch (frame->hd.type) {
      case NGHTTP2_RST_STREAM: {
        const std::uint32_t code = frame->rst_stream.error_code;
        // The other codes are ours, for reasons of our own.
        if (code == NGHTTP2_PROTOCOL_ERROR || code == NGHTTP2_FLOW_CONTROL_ERROR ||
            code == NGHTTP2_STREAM_CLOSED || code == NGHTTP2_FRAME_SIZE_ERROR) {
          fault(connection);
        }
        return 0;
      }
      case NGHTTP2_HEADERS:
      case NGHTTP2_DATA:
        connection.meter_.sent_frame(frame->hd.length);
        break;
      default:
        return 0;
    }
    Http2Stream* stream = stream_of(session, id);
    if (stream == nullptr || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
    stream->answer_sent();
    // The answer is out and nobody will read the rest of the question.
    if (stream->body_ended()) return 0;
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
  });
}

int Http2Callbacks::send_data(nghttp2_session* /*session*/, nghttp2_frame* frame,
                              const std::uint8_t* head, std::size_t size,
                              nghttp2_data_source* source, void* user) {
  constexpr std::size_t kFrameHeadBytes = 9;
  return guarded([&]() -> int {
    Http2Connection& connection = self(user);
    auto* stream = static_cast<Http2Stream*>(source->ptr);
    if (stream->gone() || stream->offered().size() < size) {
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // its writer has left
    }
    if (connection.full()) return NGHTTP2_ERR_WOULDBLOCK;
    CAISSON_ASSERT(frame->data.padlen == 0);
    connection.append(text_of(head, kFrameHeadBytes));
    connection.append({reinterpret_cast<const char*>(stream->offered().data()), size});
    stream->took(size);
    return 0;
  });
}

nghttp2_session* make_http2_session(Http2Connection& connection) {
  nghttp2_session_callbacks* table = nullptr;
  nghttp2_option* option = nullptr;
  nghttp2_session* session = nullptr;
  if (nghttp2_session_callbacks_new(&table) == 0 && nghttp2_option_new(&option) == 0) {
    using Calls = Http2Callbacks;
    nghttp2_session_callbacks_set_on_begin_headers_callback(table, Calls::on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(table, Calls::on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table, Calls::on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(table, Calls::on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(table, Calls::on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(table, Calls::on_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(table, Calls::on_sent);
    nghttp2_session_callbacks_set_send_data_callback(table, Calls::send_data);
    // A body opens the window again when it is read, not when it arrives.
    nghttp2_option_set_no_auto_window_update(option, 1);
    // Clients of gRPC send what their users typed, blanks at its ends included.
    nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    // The meter counts resets, with numbers of our own; the library's would be in the way.
    constexpr std::uint64_t kNoLimit = 1U << 30U;
    nghttp2_option_set_stream_reset_rate_limit(option, kNoLimit, kNoLimit);
    if (nghttp2_session_server_new2(&session, table, &connection, option) != 0) session = nullptr;
  }
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(table);
  return session;
}

}  // namespace caisson::http
