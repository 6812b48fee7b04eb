#include "egress/budget/request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <vector>

#include "egress/budget/json_walk.h"
#include "policy/capability.h"
#include "policy/settings/egress_settings.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

// Texts below these keys are pictures and documents once they are long.
constexpr std::array<std::string_view, 4> kMediaKeys = {"data", "url", "image_url", "file_data"};
constexpr std::uint64_t kMediaBytesMin = 1024;

// What we act on. A provider that takes the first or the last of two would act on another.
constexpr std::array<std::string_view, 9> kRead = {"model",
                                                   "stream",
                                                   "stream_options",
                                                   "max_tokens",
                                                   "max_completion_tokens",
                                                   "max_output_tokens",
                                                   "n",
                                                   "best_of",
                                                   "background"};

class RequestNotes final : public JsonEvents {
 public:
  std::string model;
  std::optional<std::int64_t> tokens_max;
  std::int64_t choices = 1;
  std::int64_t prompts = 0;
  bool streams = false;
  bool has_stream_options = false;
  bool include_usage = false;
  std::uint64_t media_bytes = 0;
  std::int64_t media = 0;
  std::string wrong_field, wrong;

  void on_key(const JsonPath& path) override {
    const bool ours = path.depth() == 1 && std::ranges::find(kRead, path.last()) != kRead.end();
    if (!ours && !path.is({"stream_options", "include_usage"})) return;
    const std::string name(path.last());
    if (std::ranges::find(seen_, name) != seen_.end()) return refuse(name, "is given twice");
    seen_.push_back(name);
    if (name == "stream_options") has_stream_options = true;
  }
  void on_container(const JsonPath& path) override {
    if (path.is({"prompt", "[]"})) ++prompts;
    if (path.depth() == 1 && path.last() != "stream_options") expect_plain(path);
  }
  void on_whole(const JsonPath& path, std::int64_t value) override {
    if (is_limit(path)) {
      if (value < 0 || value > policy::kTokensMax) return refuse(path.last(), "is out of range");
      tokens_max = std::max(tokens_max.value_or(0), value);
    } else if (path.is({"n"}) || path.is({"best_of"})) {
      if (value < 1 || value > kChoicesMax)
        return refuse(path.last(), fmt::format("must be from 1 to {}", kChoicesMax));
      choices = std::max(choices, value);
    } else {
      expect_plain(path);
    }
  }
  void on_fraction(const JsonPath& path, double /*value*/) override {
    if (is_limit(path) || path.is({"n"}) || path.is({"best_of"}))
      return refuse(path.last(), "must be a whole number");
    expect_plain(path);
  }
  void on_truth(const JsonPath& path, bool value) override {
    if (path.is({"stream"})) {
      streams = value;
    } else if (path.is({"stream_options", "include_usage"})) {
      include_usage = value;
    } else if (path.is({"background"})) {
      // It would be answered before it has cost anything, and nobody would ever tell us.
      if (value) refuse("background", "cannot be counted; ask without it");
    } else if (is_limit(path) || path.is({"n"}) || path.is({"best_of"})) {
      refuse(path.last(), "must be a whole number");
    } else {
      expect_plain(path);
    }
  }
  void on_null(const JsonPath& path) override {
    if (path.is({"model"})) refuse("model", "must be a text");
  }
  void on_text(const JsonPath& path, std::string_view piece, bool last) override {
    if (path.is({"model"})) {
      if (model.size() + piece.size() > policy::kModelBytesMax)
        return refuse("model", fmt::format("is longer than {} bytes", policy::kModelBytesMax));
      model += piece;
    } else if (path.depth() == 1 && std::ranges::find(kRead, path.last()) != kRead.end()) {
      refuse(path.last(), "must not be a text");
    }
    if (last && path.is({"prompt", "[]"})) ++prompts;
    text_bytes_ += piece.size();
    if (!last) return;
    if (text_bytes_ >= kMediaBytesMin &&
        std::ranges::find(kMediaKeys, path.last()) != kMediaKeys.end()) {
      media_bytes += text_bytes_;
      ++media;
    }
    text_bytes_ = 0;
  }

  void refuse(std::string_view field, std::string_view why) {
    if (!wrong_field.empty()) return;
    wrong_field = field;
    wrong = why;
  }

 private:
  static bool is_limit(const JsonPath& path) {
    return path.is({"max_tokens"}) || path.is({"max_completion_tokens"}) ||
           path.is({"max_output_tokens"});
  }
  // A value of a kind that its key does not take: the provider might read something into it.
  void expect_plain(const JsonPath& path) {
    if (path.depth() == 1 && std::ranges::find(kRead, path.last()) != kRead.end())
      refuse(path.last(), "is of a wrong kind");
  }

  std::vector<std::string> seen_;  // each once, so at most kRead.size() + 1
  std::uint64_t text_bytes_ = 0;
};

std::unexpected<Error> bad_request(std::string_view field, std::string_view why) {
  return bad_field(std::string(field), fmt::format("{}: {}", field, why));
}

}  // namespace

ModelEndpoint endpoint_of(Provider provider, std::string_view method,
                          std::string_view path) noexcept {
  path = path.substr(0, path.find('?'));
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  if (method == "GET") {
    const std::string_view id = path.starts_with("/models/") ? path.substr(8) : "";
    const auto plain = [](char c) {
      return policy::is_letter(c) || policy::is_digit(c) || c == '-' || c == '_' || c == '.' ||
             c == ':';
    };
    const bool one = !id.empty() && id != "." && id != ".." && std::ranges::all_of(id, plain);
    return path == "/models" || one ? ModelEndpoint::Free : ModelEndpoint::Uncounted;
  }
  if (method != "POST") return ModelEndpoint::Uncounted;
  if (provider == Provider::Anthropic) {
    if (path == "/messages") return ModelEndpoint::AnthropicMessages;
    return path == "/messages/count_tokens" ? ModelEndpoint::Free : ModelEndpoint::Uncounted;
  }
  if (path == "/chat/completions") return ModelEndpoint::OpenAiChat;
  if (path == "/completions") return ModelEndpoint::OpenAiCompletions;
  if (path == "/responses") return ModelEndpoint::OpenAiResponses;
  if (path == "/embeddings") return ModelEndpoint::OpenAiEmbeddings;
  return ModelEndpoint::Uncounted;
}

Result<RequestFacts> read_request(ModelEndpoint endpoint, std::string_view body) {
  if (endpoint == ModelEndpoint::Free || endpoint == ModelEndpoint::Uncounted)
    return failure(Errc::InvalidArgument, "this address is not one whose calls are counted");
  if (body.size() > kRequestBytesMax) {
    return failure(Errc::TooLarge, fmt::format("the request has {} bytes, at most {} can be read",
                                               body.size(), kRequestBytesMax));
  }
  RequestNotes notes;
  JsonWalk walk(notes);
  walk.feed(body);
  if (!walk.finish()) return failure(Errc::InvalidArgument, "the request is not one JSON object");
  if (!notes.wrong_field.empty()) return bad_request(notes.wrong_field, notes.wrong);
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (notes.model.empty() || !std::ranges::all_of(notes.model, printable))
    return bad_request("model", "must name a model");
  RequestFacts facts;
  facts.model = std::move(notes.model);
  facts.streams = notes.streams;
  const bool chat =
      endpoint == ModelEndpoint::OpenAiChat || endpoint == ModelEndpoint::OpenAiCompletions;
  if (chat) facts.choices = notes.choices;
  if (endpoint == ModelEndpoint::OpenAiCompletions)
    facts.choices = product_capped(notes.choices, std::max<std::int64_t>(notes.prompts, 1));
  if (notes.tokens_max) facts.output_tokens_max = product_capped(*notes.tokens_max, facts.choices);
  facts.usage_not_asked = chat && notes.streams && !notes.include_usage;
  facts.answers_text = endpoint != ModelEndpoint::OpenAiEmbeddings;
  facts.input_tokens = sum_capped(
      tokens_of_bytes(body.size() - std::min<std::uint64_t>(notes.media_bytes, body.size())),
      product_capped(notes.media, kMediaTokens));
  return facts;
}

Result<std::string> with_usage_asked(std::string_view body) {
  RequestNotes notes;
  JsonWalk walk(notes);
  walk.feed(body);
  const std::size_t open = body.find('{');
  if (!walk.finish() || open == std::string_view::npos || notes.model.empty())
    return failure(Errc::InvalidArgument, "the request is not one JSON object with a model");
  if (!notes.has_stream_options) {
    std::string out(body.substr(0, open + 1));
    out += R"("stream_options":{"include_usage":true},)";
    return out += body.substr(open + 1);
  }
  boost::json::parse_options options;
  options.max_depth = kJsonDepthMax;
  options.allow_invalid_utf8 = true;
  boost::json::error_code ec;
  boost::json::value value =
      boost::json::parse({body.data(), body.size()}, ec, boost::json::storage_ptr(), options);
  if (ec || !value.is_object())
    return failure(Errc::InvalidArgument, "the request is not one JSON object");
  boost::json::value& wanted = value.as_object()["stream_options"];
  if (!wanted.is_object()) wanted.emplace_object();
  wanted.as_object()["include_usage"] = true;
  return boost::json::serialize(value);
}

}  // namespace caisson::egress
