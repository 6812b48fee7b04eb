// cli/fake_remote_test.h — for tests: a server that gives the answers it was told, in their order,
// and remembers what was asked.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cli/client_session.h"

namespace caisson::cli {

class FakeRemote final : public Remote {
 public:
  [[nodiscard]] const std::string& url() const noexcept override { return url_; }
  Result<Answer> call(std::string_view method, const std::string& target,
                      const std::optional<std::string>& json) override {
    return note(method, target, json.value_or(""));
  }
  Result<Answer> download(const std::string& target, const std::function<void(std::uint64_t)>&,
                          const Sink& sink) override {
    auto answer = note("GET", target, "");
    if (answer && answer->ok()) {
      const auto taken = sink(std::as_bytes(std::span(answer->body)));
      if (!taken) return std::unexpected(taken.error());
    }
    return answer;
  }
  Result<Answer> upload(std::string_view method, const std::string& target, std::string_view,
                        std::optional<std::uint64_t> length, const Source& source) override {
    std::string body;
    std::vector<std::byte> piece(4096);
    for (;;) {
      const auto got = source(piece);
      if (!got) return std::unexpected(got.error());
      if (*got == 0) break;
      body.append(reinterpret_cast<const char*>(piece.data()), *got);
    }
    uploaded_length = length;
    return note(method, target, std::move(body));
  }
  Result<Answer> events(const std::string& target, std::optional<milliseconds>,
                        const std::function<bool(const ServerEvent&)>&) override {
    return note("GET", target, "");
  }
  Result<Answer> post_events(const std::string& target, const std::string& json,
                             const std::function<bool(const ServerEvent&)>& take) override {
    auto answer = note("POST", target, json);
    if (answer && answer->ok()) {
      for (const ServerEvent& event : stream) {
        if (!take(event)) break;
      }
    }
    return answer;
  }
  Result<std::unique_ptr<RemoteSocket>> socket(const std::string&) override {
    return failure(Errc::Unsupported, "no");
  }

  // The last one is given again and again.
  void say(unsigned status, std::string body) {
    Answer answer;
    answer.status = status;
    answer.body = std::move(body);
    answers.push_back(std::move(answer));
  }

  std::vector<std::string> calls;   // "GET /api/…"
  std::vector<std::string> bodies;  // of each
  std::deque<Result<Answer>> answers;
  std::vector<ServerEvent> stream;
  std::optional<std::uint64_t> uploaded_length;

 private:
  Result<Answer> note(std::string_view method, const std::string& target, std::string body) {
    calls.push_back(std::string(method) + " " + target);
    bodies.push_back(std::move(body));
    if (answers.empty()) return Answer{};
    Result<Answer> answer = answers.front();
    if (answers.size() > 1) answers.pop_front();
    return answer;
  }
  std::string url_ = "http://test";
};

}  // namespace caisson::cli
