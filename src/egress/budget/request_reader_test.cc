#include "egress/budget/request_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "egress/budget/json_walk.h"
#include "policy/settings/egress_settings.h"

namespace caisson::egress {
namespace {

std::string error_of(std::string_view body, ModelEndpoint endpoint = ModelEndpoint::OpenAiChat) {
  const auto facts = read_request(endpoint, body);
  return facts ? "accepted: " + facts->model : facts.error().message;
}

// --- what must not pass ---

// The provider might read the other one.
TEST(RequestReader, AKeyGivenTwiceIsRefused) {
  EXPECT_EQ(error_of(R"({"model":"cheap","model":"dear"})"), "model: is given twice");
  EXPECT_EQ(error_of(R"({"model":"cheap","mod\u0065l":"dear"})"), "model: is given twice");
  EXPECT_EQ(error_of(R"({"model":"a","max_tokens":1,"max_tokens":9})"),
            "max_tokens: is given twice");
  EXPECT_EQ(error_of(R"({"model":"a","stream":false,"stream":true})"), "stream: is given twice");
  EXPECT_EQ(error_of(R"({"model":"a","stream_options":{"include_usage":true,
                        "include_usage":false}})"),
            "include_usage: is given twice");
  EXPECT_EQ(error_of(R"({"model":"a","stream_options":{},"stream_options":{}})"),
            "stream_options: is given twice");
}

TEST(RequestReader, WhatIsNoRequestIsRefused) {
  for (const char* body : {"", "x", "{", "{}", "[]", "[{\"model\":\"a\"}]", "\"model\"",
                           "{\"model\":\"a\"} {\"model\":\"b\"}", "{\"model\":\"a\",}",
                           "{\"model\":\"\"}", "{\"model\":\"a b\"}", "{\"model\":\"a\\n\"}"}) {
    EXPECT_TRUE(error_of(body).find("accepted") == std::string::npos) << body;
  }
  for (const char* field :
       {R"("model":5)", R"("model":["a"])", R"("model":null)", R"("model":{"a":"b"})",
        R"("model":true)", R"("model":"a","max_tokens":-1)", R"("model":"a","max_tokens":1.5)",
        R"("model":"a","max_tokens":"9")", R"("model":"a","max_tokens":[9])",
        R"("model":"a","max_tokens":1e99)", R"("model":"a","n":0)", R"("model":"a","n":129)",
        R"("model":"a","n":true)", R"("model":"a","stream":"true")", R"("model":"a","stream":1)",
        R"("model":"a","background":true)", R"("model":"a","background":"yes")"}) {
    EXPECT_FALSE(read_request(ModelEndpoint::OpenAiChat, "{" + std::string(field) + "}")) << field;
  }
  const std::string deep(kJsonDepthMax + 1, '[');
  EXPECT_FALSE(read_request(ModelEndpoint::OpenAiChat, "{\"model\":\"a\",\"x\":" + deep +
                                                           std::string(deep.size(), ']') + "}"));
}

TEST(RequestReader, LongModelsAndLargeBodiesAreRefused) {
  const std::string model(policy::kModelBytesMax + 1, 'a');
  EXPECT_NE(error_of("{\"model\":\"" + model + "\"}").find("longer than"), std::string::npos);
  std::string body = R"({"model":"a","x":")";
  body.resize(kRequestBytesMax + 1, 'a');
  const auto facts = read_request(ModelEndpoint::OpenAiChat, body);
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, Errc::TooLarge);
}

TEST(Endpoints, WhatNobodyCountsIsNotLetThrough) {
  const auto openai = [](const char* method, const char* path) {
    return endpoint_of(Provider::OpenAi, method, path);
  };
  for (const char* path :
       {"/v1/images/generations", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/realtime",
        "/v1/chat/completions/", "/v1/chat//completions", "/v1/chat/../batches", "/v1/v1/responses",
        "/v1/responses/x/cancel", "/v1/Chat/completions", "", "/", "/v1", "/v1/messages"}) {
    EXPECT_EQ(openai("POST", path), ModelEndpoint::Uncounted) << path;
  }
  for (const char* path : {"/v1/models/..", "/v1/models/.", "/v1/models/a/b", "/v1/models/%2e",
                           "/v1/chat/completions", "/v1/files"}) {
    EXPECT_EQ(openai("GET", path), ModelEndpoint::Uncounted) << path;
  }
  EXPECT_EQ(openai("PUT", "/v1/responses"), ModelEndpoint::Uncounted);
  EXPECT_EQ(endpoint_of(Provider::Anthropic, "POST", "/v1/messages/batches"),
            ModelEndpoint::Uncounted);
  EXPECT_EQ(endpoint_of(Provider::Anthropic, "POST", "/v1/complete"), ModelEndpoint::Uncounted);
  EXPECT_FALSE(read_request(ModelEndpoint::Uncounted, R"({"model":"a"})"));
  EXPECT_FALSE(read_request(ModelEndpoint::Free, R"({"model":"a"})"));
}

// --- what must ---

TEST(Endpoints, CountedOnesAreKnownWithAndWithoutVersion) {
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "POST", "/v1/chat/completions"),
            ModelEndpoint::OpenAiChat);
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "POST", "/chat/completions?x=y"),
            ModelEndpoint::OpenAiChat);
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "POST", "/completions"),
            ModelEndpoint::OpenAiCompletions);
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "POST", "/responses"), ModelEndpoint::OpenAiResponses);
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "POST", "/v1/embeddings"),
            ModelEndpoint::OpenAiEmbeddings);
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "GET", "/v1/models"), ModelEndpoint::Free);
  EXPECT_EQ(endpoint_of(Provider::OpenAi, "GET", "/v1/models/gpt-4o"), ModelEndpoint::Free);
  EXPECT_EQ(endpoint_of(Provider::Anthropic, "POST", "/v1/messages?beta=true"),
            ModelEndpoint::AnthropicMessages);
  EXPECT_EQ(endpoint_of(Provider::Anthropic, "POST", "/v1/messages/count_tokens"),
            ModelEndpoint::Free);
}

TEST(RequestReader, FactsAreRead) {
  const std::string body =
      R"({"model":"gpt-4o","messages":[{"role":"user","content":"model"}],"max_tokens":50,"n":3,
      "temperature":0.5,"stream":true})";
  const auto facts = read_request(ModelEndpoint::OpenAiChat, body);
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(*facts, (RequestFacts{.model = "gpt-4o",
                                  .output_tokens_max = 150,
                                  .choices = 3,
                                  .answers_text = true,
                                  .streams = true,
                                  .usage_not_asked = true,
                                  .input_tokens = tokens_of_bytes(body.size())}));
  const auto plain =
      read_request(ModelEndpoint::AnthropicMessages, R"({"model":"claude","stream":true,
                                  "max_tokens":1024,"n":5})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->output_tokens_max, 1024) << "n is none of theirs";
  EXPECT_FALSE(plain->usage_not_asked);
  const auto response = read_request(ModelEndpoint::OpenAiResponses,
                                     R"({"model":"o3","max_output_tokens":9,"background":false})");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->output_tokens_max, 9);
  const auto embedding =
      read_request(ModelEndpoint::OpenAiEmbeddings, R"({"model":"e","input":["a","b"]})");
  ASSERT_TRUE(embedding);
  EXPECT_FALSE(embedding->answers_text);
  EXPECT_FALSE(embedding->output_tokens_max);
}

TEST(RequestReader, TheLargestLimitAndEveryPromptCount) {
  const auto both = read_request(ModelEndpoint::OpenAiChat,
                                 R"({"model":"a","max_tokens":5,"max_completion_tokens":900})");
  EXPECT_EQ(both->output_tokens_max, 900);
  const auto none = read_request(ModelEndpoint::OpenAiChat, R"({"model":"a","max_tokens":null})");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->output_tokens_max);
  const auto prompts =
      read_request(ModelEndpoint::OpenAiCompletions,
                   R"({"model":"a","prompt":["x","y",[1,2]],"best_of":4,"n":2,"max_tokens":10})");
  ASSERT_TRUE(prompts);
  EXPECT_EQ(prompts->choices, 12);
  EXPECT_EQ(prompts->output_tokens_max, 120);
}

TEST(RequestReader, APictureIsNotCountedByItsBytes) {
  const std::string body =
      R"({"model":"a","messages":[{"content":[{"image_url":{"url":"data:image/png;base64,)" +
      std::string(400000, 'A') + R"("}}]}]})";
  const auto facts = read_request(ModelEndpoint::OpenAiChat, body);
  ASSERT_TRUE(facts);
  EXPECT_GE(facts->input_tokens, kMediaTokens);
  EXPECT_LT(facts->input_tokens, kMediaTokens + 100);
}

TEST(RequestReader, UsageIsAskedForWhereTheGuestDidNot) {
  for (const char* body :
       {R"({"model":"a","stream":true})", R"( { "stream":true,"model":"a","x":"é{" } )",
        R"({"model":"a","stream":true,"stream_options":{}})",
        R"({"model":"a","stream":true,"stream_options":null})",
        R"({"model":"a","stream":true,"stream_options":{"include_usage":false,"other":1}})"}) {
    ASSERT_TRUE(read_request(ModelEndpoint::OpenAiChat, body)->usage_not_asked) << body;
    const auto changed = with_usage_asked(body);
    ASSERT_TRUE(changed) << body;
    const auto facts = read_request(ModelEndpoint::OpenAiChat, *changed);
    ASSERT_TRUE(facts) << *changed;
    EXPECT_FALSE(facts->usage_not_asked) << *changed;
    EXPECT_TRUE(facts->streams);
  }
  EXPECT_NE(with_usage_asked(R"({"model":"a","stream_options":{"other":1}})")->find("\"other\":1"),
            std::string::npos);
  EXPECT_FALSE(with_usage_asked("{}"));
  EXPECT_FALSE(with_usage_asked("[{]"));
}

}  // namespace
}  // namespace caisson::egress
