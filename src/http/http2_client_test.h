// http/http2_client_test.h — for tests: an honest HTTP/2 client (nghttp2's), and a dishonest one
// that sends frames made by hand.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/loopback_test.h"
#include "http/opening.h"

namespace caisson::http::test {

using Fields = std::vector<std::pair<std::string, std::string>>;

struct H2Answer {
  std::map<std::string, std::string> head;
  std::map<std::string, std::string> trailers;
  std::string body;
  std::size_t heads = 0;
  bool ended = false;  // END_STREAM came
  bool closed = false;
  std::uint32_t code = 0;
  [[nodiscard]] std::string status() const {
    const auto found = head.find(":status");
    return found == head.end() ? std::string() : found->second;
  }
};

class H2Client {
 public:
  struct Options {
    std::uint32_t window = 0;  // of a stream; 0: the protocol's default
    bool open_windows = true;  // as bytes arrive
    int receive_buffer = 0;
    bool keep_bodies = true;
  };
  explicit H2Client(std::uint16_t port) : H2Client(port, Options()) {}
  H2Client(std::uint16_t port, const Options& options)
      : H2Client(RawClient(port, options.receive_buffer), options) {}
  H2Client(RawClient wire, const Options& options) : wire_(std::move(wire)), options_(options) {
    nghttp2_session_callbacks* table = nullptr;
    nghttp2_option* option = nullptr;
    EXPECT_EQ(nghttp2_session_callbacks_new(&table), 0);
    EXPECT_EQ(nghttp2_option_new(&option), 0);
    nghttp2_session_callbacks_set_on_header_callback(table, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(table, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(table, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(table, on_close);
    nghttp2_option_set_no_auto_window_update(option, options.open_windows ? 0 : 1);
    EXPECT_EQ(nghttp2_session_client_new2(&session_, table, this, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(table);
    const nghttp2_settings_entry window{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.window};
    EXPECT_EQ(nghttp2_submit_settings(session_, 0, &window, options.window > 0 ? 1 : 0), 0);
  }
  ~H2Client() { nghttp2_session_del(session_); }
  H2Client(const H2Client&) = delete;
  H2Client& operator=(const H2Client&) = delete;
  H2Client(H2Client&&) = delete;
  H2Client& operator=(H2Client&&) = delete;

  // A body of nothing: the head ends the request. One that `goes_on` is ended by finish().
  std::int32_t ask(std::string_view method, std::string_view path, const Fields& more = {},
                   std::optional<std::string> body = std::nullopt, bool goes_on = false) {
    Fields all{{":method", std::string(method)},
               {":scheme", "http"},
               {":authority", "test.example:80"},
               {":path", std::string(path)}};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<nghttp2_nv> list;
    list.reserve(all.size());
    for (const auto& [name, value] : all) list.push_back(field_of(name, value));
    nghttp2_data_provider provider{{.ptr = this}, on_read};
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, list.data(), list.size(),
                                                   body ? &provider : nullptr, nullptr);
    EXPECT_GT(id, 0);
    answers_[id];
    if (body) bodies_[id] = Upload{std::move(*body), goes_on};
    push();
    return id;
  }
  void more(std::int32_t id, std::string_view bytes) {
    bodies_[id].bytes += bytes;
    (void)nghttp2_session_resume_data(session_, id);
    push();
  }
  void finish(std::int32_t id) {
    bodies_[id].goes_on = false;
    (void)nghttp2_session_resume_data(session_, id);
    push();
  }
  void reset(std::int32_t id, std::uint32_t code = NGHTTP2_CANCEL) {
    EXPECT_EQ(nghttp2_submit_rst_stream(session_, 0, id, code), 0);
    push();
  }
  void ping() {
    EXPECT_EQ(nghttp2_submit_ping(session_, 0, nullptr), 0);
    push();
  }
  // Sends what there is to send; false when the wire is broken.
  bool push() {
    for (;;) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size <= 0) return size == 0;
      if (!wire_.send({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)})) {
        return false;
      }
    }
  }
  // Receives until `holds`; false when the server closes or nothing comes within the bound.
  bool until(const std::function<bool()>& holds) {
    while (!holds()) {
      push();
      const std::string bytes = wire_.any();
      if (bytes.empty()) return holds();
      const ssize_t used = nghttp2_session_mem_recv(
          session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      if (used < 0) return false;
      push();
    }
    return true;
  }
  H2Answer& answer(std::int32_t id) { return answers_.at(id); }
  H2Answer& answer_or_none(std::int32_t id) { return answers_[id]; }
  bool done(std::int32_t id) {
    return until([&] { return answers_.at(id).closed; });
  }
  H2Answer& get(std::string_view path) {
    const std::int32_t id = ask("GET", path);
    EXPECT_TRUE(done(id));
    return answer(id);
  }
  H2Answer& post(std::string_view path, std::string body) {
    const std::int32_t id = ask("POST", path, {}, std::move(body));
    EXPECT_TRUE(done(id));
    return answer(id);
  }
  [[nodiscard]] std::optional<std::uint32_t> goaway() const { return goaway_; }
  [[nodiscard]] std::size_t pongs() const { return pongs_; }
  [[nodiscard]] std::size_t received() const { return received_; }
  [[nodiscard]] std::size_t unsent(std::int32_t id) { return bodies_[id].bytes.size(); }
  [[nodiscard]] std::uint32_t streams_max() {
    return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
  }
  [[nodiscard]] nghttp2_session* session() { return session_; }
  [[nodiscard]] RawClient& wire() { return wire_; }

 private:
  struct Upload {
    std::string bytes;
    bool goes_on = false;
  };
  static nghttp2_nv field_of(const std::string& name, const std::string& value) {
    const auto bytes = [](const std::string& text) {
      return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
  }
  static H2Client& self(void* user) { return *static_cast<H2Client*>(user); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    H2Answer& answer = self(user).answers_[frame->hd.stream_id];
    auto& into = frame->headers.cat == NGHTTP2_HCAT_RESPONSE ? answer.head : answer.trailers;
    into[std::string(reinterpret_cast<const char*>(name), name_size)] =
        std::string(reinterpret_cast<const char*>(value), value_size);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    self(user).received_ += size;
    if (self(user).options_.keep_bodies) {
      self(user).answers_[id].body.append(reinterpret_cast<const char*>(data), size);
    }
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    H2Client& client = self(user);
    const bool stream = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (frame->hd.type == NGHTTP2_HEADERS) ++client.answers_[frame->hd.stream_id].heads;
    if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      client.answers_[frame->hd.stream_id].ended = true;
    }
    if (frame->hd.type == NGHTTP2_GOAWAY) client.goaway_ = frame->goaway.error_code;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
      ++client.pongs_;
    }
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    self(user).answers_[id].closed = true;
    self(user).answers_[id].code = code;
    return 0;
  }
  static ssize_t on_read(nghttp2_session*, std::int32_t id, std::uint8_t* out, std::size_t size,
                         std::uint32_t* flags, nghttp2_data_source* source, void*) {
    Upload& upload = self(source->ptr).bodies_[id];
    const std::size_t count = std::min(size, upload.bytes.size());
    std::copy_n(upload.bytes.data(), count, out);
    upload.bytes.erase(0, count);
    if (upload.bytes.empty()) {
      if (upload.goes_on && count == 0) return NGHTTP2_ERR_DEFERRED;
      if (!upload.goes_on) *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return static_cast<ssize_t>(count);
  }

  RawClient wire_;
  Options options_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, H2Answer> answers_;
  std::map<std::int32_t, Upload> bodies_;
  std::optional<std::uint32_t> goaway_;
  std::size_t pongs_ = 0;
  std::size_t received_ = 0;
};

// --- by hand

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                         std::string_view payload, std::optional<std::uint32_t> length = {}) {
  const std::uint32_t size = length.value_or(static_cast<std::uint32_t>(payload.size()));
  std::string out;
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte & 0xffU)); };
  put(size >> 16U);
  put(size >> 8U);
  put(size);
  put(type);
  put(flags);
  for (const unsigned shift : {24U, 16U, 8U, 0U}) put(stream >> shift);
  out += payload;
  return out;
}

inline std::string number(std::uint32_t value) {
  std::string out;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) {
    out.push_back(static_cast<char>((value >> shift) & 0xffU));
  }
  return out;
}

// A field that goes into no table; both parts shorter than 127 bytes.
inline std::string literal(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  out.push_back(static_cast<char>(name.size()));
  out += name;
  out.push_back(static_cast<char>(value.size()));
  out += value;
  return out;
}

// GET / from the static table, and a literal authority.
inline std::string get_block(std::string_view path = "/") {
  return std::string("\x82\x86", 2) + literal(":path", path) + literal(":authority", "a");
}

struct Frame {
  std::uint8_t type = 0xff;  // 0xff: none came
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
  std::string payload;
  // Of a GOAWAY or an RST_STREAM.
  [[nodiscard]] std::uint32_t code() const {
    const std::size_t at = type == NGHTTP2_GOAWAY ? 4 : 0;
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4 && i < payload.size(); ++i) {
      value = value << 8U | static_cast<std::uint8_t>(payload[i]);
    }
    return value;
  }
};

class FrameClient {
 public:
  explicit FrameClient(std::uint16_t port) : wire_(port) {
    wire_.send(std::string(kHttp2Preface) + frame(NGHTTP2_SETTINGS, 0, 0, ""));
  }
  bool send(std::string_view bytes) { return wire_.send(bytes); }
  bool get(std::uint32_t stream, std::string_view path = "/") {
    return send(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, stream,
                      get_block(path)));
  }
  Frame next() {
    const std::string head = wire_.take(9);
    Frame out;
    if (head.size() < 9) return out;
    const auto byte = [&head](std::size_t i) { return static_cast<std::uint8_t>(head[i]); };
    const std::size_t size = std::size_t{byte(0)} << 16U | std::size_t{byte(1)} << 8U | byte(2);
    out.type = byte(3);
    out.flags = byte(4);
    for (std::size_t i = 5; i < 9; ++i) out.stream = out.stream << 8U | byte(i);
    out.payload = wire_.take(size);
    return out;
  }
  // The next frame of that type; those before it are dropped. Type 0xff at the end.
  Frame next(std::uint8_t type) {
    for (;;) {
      Frame out = next();
      if (out.type == type || out.type == 0xff) return out;
    }
  }
  // The code of the GOAWAY that comes, after which the server closes.
  std::optional<std::uint32_t> sent_away() {
    const Frame out = next(NGHTTP2_GOAWAY);
    if (out.type != NGHTTP2_GOAWAY || !wire_.closed()) return std::nullopt;
    return out.code();
  }
  RawClient& wire() { return wire_; }

 private:
  RawClient wire_;
};

}  // namespace caisson::http::test
