// image/registry_fake_test.h — for tests: a registry on the loopback, in the same io_context, that
// does what the test says. It holds blobs and manifests; a hook may lie, cut, stall or redirect.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cctype>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "image/config.h"
#include "image/digest.h"
#include "image/manifest.h"

namespace caisson::image::test {

namespace asio = boost::asio;
using asio::ip::tcp;

struct Asked {
  std::string method;
  std::string target;
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;
  [[nodiscard]] std::string field(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  }
};

struct Answer {
  unsigned status = 200;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  std::optional<std::uint64_t> length;     // said; by default that of the body
  bool no_length = false;                  // the end of the connection is the end of the body
  std::optional<std::size_t> stall_after;  // so many bytes of the body, then silence
  std::optional<std::size_t> cut_after;    // so many, then the end
};

class FakeRegistry {
 public:
  // Nothing: the registry answers by itself.
  using Hook = std::function<std::optional<Answer>(const Asked&)>;

  explicit FakeRegistry(asio::io_context& io) : state_(std::make_shared<State>(io)) {
    asio::co_spawn(io, accept(state_), asio::detached);
  }
  ~FakeRegistry() {
    boost::system::error_code ignored;
    state_->acceptor.close(ignored);
    for (auto& weak : state_->sockets) {
      if (const auto socket = weak.lock()) socket->close(ignored);
    }
  }
  FakeRegistry(const FakeRegistry&) = delete;
  FakeRegistry& operator=(const FakeRegistry&) = delete;

  [[nodiscard]] std::uint16_t port() const { return state_->acceptor.local_endpoint().port(); }
  [[nodiscard]] std::string host() const { return fmt::format("127.0.0.1:{}", port()); }
  void hook(Hook hook) { state_->hook = std::move(hook); }
  [[nodiscard]] const std::vector<Asked>& asked() const { return state_->asked; }
  [[nodiscard]] std::size_t count(std::string_view part) const {
    std::size_t out = 0;
    for (const Asked& one : state_->asked) out += one.target.find(part) != std::string::npos;
    return out;
  }

  Digest blob(const std::string& content) {
    const Digest digest = digest_of(content);
    state_->blobs[digest.str()] = content;
    return digest;
  }
  // Under a tag, or by digest only.
  Digest manifest(const std::string& text, std::string_view type, const std::string& tag = "") {
    const Digest digest = digest_of(text);
    state_->manifests[digest.str()] = {std::string(type), text};
    if (!tag.empty()) state_->manifests[tag] = {std::string(type), text};
    return digest;
  }
  // An image of these layers; the manifest's text.
  std::string image(const std::vector<std::string>& layers, const std::string& tag) {
    ImageConfig config;
    config.platform = host_platform();
    Manifest manifest;
    manifest.media_type = kOciManifestType;
    for (const std::string& layer : layers) {
      manifest.layers.push_back({std::string(kOciLayerType), blob(layer), layer.size()});
      config.diff_ids.push_back(digest_of(layer));
    }
    const std::string text = to_json(config);
    manifest.config = {std::string(kOciConfigType), blob(text), text.size()};
    const std::string out = to_json(manifest);
    this->manifest(out, kOciManifestType, tag);
    return out;
  }

 private:
  struct State {
    explicit State(asio::io_context& on)
        : io(on), acceptor(on, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {}
    asio::io_context& io;
    tcp::acceptor acceptor;
    Hook hook;
    std::vector<Asked> asked;
    std::map<std::string, std::string> blobs;
    std::map<std::string, std::pair<std::string, std::string>> manifests;
    std::vector<std::weak_ptr<tcp::socket>> sockets;
  };

  static asio::awaitable<void> accept(std::shared_ptr<State> state) {
    for (;;) {
      boost::system::error_code ec;
      auto socket = std::make_shared<tcp::socket>(state->io);
      co_await state->acceptor.async_accept(*socket, asio::redirect_error(asio::use_awaitable, ec));
      if (ec) co_return;
      state->sockets.push_back(socket);
      asio::co_spawn(state->io, serve(state, socket), asio::detached);
    }
  }

  static Asked parse(const std::string& head) {
    Asked out;
    const std::size_t first = head.find(' ');
    const std::size_t second = head.find(' ', first + 1);
    out.method = head.substr(0, first);
    out.target = head.substr(first + 1, second - first - 1);
    std::size_t at = head.find("\r\n") + 2;
    while (at < head.size()) {
      const std::size_t end = head.find("\r\n", at);
      const std::size_t colon = head.find(": ", at);
      if (end == at || colon == std::string::npos) break;
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      out.fields[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    return out;
  }

  static Answer own_answer(State& state, const Asked& asked) {
    const std::size_t slash = asked.target.rfind('/');
    const std::string last = asked.target.substr(slash + 1);
    if (asked.target.find("/manifests/") != std::string::npos) {
      const auto found = state.manifests.find(last);
      if (found == state.manifests.end()) return {404, {}, "{}", {}, false, {}, {}};
      return {200,
              {{"Content-Type", found->second.first},
               {"Docker-Content-Digest", digest_of(found->second.second).str()}},
              found->second.second,
              {},
              false,
              {},
              {}};
    }
    const auto found = state.blobs.find(last);
    if (found == state.blobs.end()) return {404, {}, "{}", {}, false, {}, {}};
    const std::string range = asked.field("range");
    if (range.empty()) return {200, {}, found->second, {}, false, {}, {}};
    const std::size_t from = std::stoul(range.substr(6));
    return {206,
            {{"Content-Range",
              fmt::format("bytes {}-{}/{}", from, found->second.size() - 1, found->second.size())}},
            found->second.substr(from),
            {},
            false,
            {},
            {}};
  }

  static asio::awaitable<void> serve(std::shared_ptr<State> state,
                                     std::shared_ptr<tcp::socket> socket) {
    boost::system::error_code ec;
    std::string buffer;
    const std::size_t size =
        co_await asio::async_read_until(*socket, asio::dynamic_buffer(buffer), "\r\n\r\n",
                                        asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return;
    Asked asked = parse(buffer.substr(0, size));
    asked.body = buffer.substr(size);
    state->asked.push_back(asked);
    std::optional<Answer> hooked;
    if (state->hook) hooked = state->hook(asked);
    const Answer answer = hooked ? *hooked : own_answer(*state, asked);
    std::string head = fmt::format("HTTP/1.1 {} X\r\n", answer.status);
    for (const auto& [name, value] : answer.fields) head += name + ": " + value + "\r\n";
    if (!answer.no_length) {
      head += fmt::format("Content-Length: {}\r\n", answer.length.value_or(answer.body.size()));
    }
    head += "\r\n";
    std::string body = answer.body;
    if (answer.stall_after) body.resize(std::min(body.size(), *answer.stall_after));
    if (answer.cut_after) body.resize(std::min(body.size(), *answer.cut_after));
    const std::string all = head + body;
    co_await asio::async_write(*socket, asio::buffer(all),
                               asio::redirect_error(asio::use_awaitable, ec));
    if (answer.stall_after && !ec) {
      char one = 0;  // until the client gives up
      co_await asio::async_read(*socket, asio::buffer(&one, 1),
                                asio::redirect_error(asio::use_awaitable, ec));
    }
    socket->shutdown(tcp::socket::shutdown_send, ec);
  }

  std::shared_ptr<State> state_;
};

}  // namespace caisson::image::test
