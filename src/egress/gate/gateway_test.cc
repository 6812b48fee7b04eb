// Language models: what is refused before it leaves, what is counted, and what stops.
#include "egress/gate/gateway.h"

#include <fmt/format.h>

#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

constexpr std::string_view kKey = "sk-canary-0123456789";

constexpr std::string_view kChat =
    R"({"model": "small", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]})";

std::string answer_of(std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nX-Echo: {}\r\nContent-Length: {}\r\n\r\n{}", type,
      kKey, body.size(), body);
}

// What a provider was asked, and a provider that answers always the same.
struct Provided {
  explicit Provided(std::string answer)
      : host([this, answer = std::move(answer)](RawClient& client) {
          std::string head = client.until("\r\n\r\n");
          if (head.empty()) return;
          std::string body;
          if (const std::size_t at = head.find("Content-Length: "); at != std::string::npos)
            body = client.take(std::stoul(head.substr(at + 16)));
          {
            const std::scoped_lock lock(mutex);
            heads.push_back(std::move(head));
            bodies.push_back(std::move(body));
          }
          client.send(answer);
          client.finish();
          (void)client.rest();
        }) {}
  std::mutex mutex;
  std::vector<std::string> heads;
  std::vector<std::string> bodies;
  Host host;
};

struct Key {
  Secret value = *Secret::copy_of(kKey);
};

// Made before the gate, read on its thread.
struct Models {
  explicit Models(std::uint16_t port, BudgetLimits limits = {}, BudgetLimits tenant = {}) {
    gateway = std::make_shared<Gateway>();
    const std::string upstream = fmt::format("http://127.0.0.1:{}", port);
    gateway->providers = {*gateway_provider(Provider::OpenAi, {upstream, "llm", "/v1"}),
                          *gateway_provider(Provider::Anthropic, {upstream, "llm", ""})};
    policy::PriceSettings price;
    price.model = "small";
    price.input_per_million_usd = 1;
    price.output_per_million_usd = 2;
    gateway->prices = *PriceTable::make(std::span(&price, 1));
    gateway->budget = Budget::of_sandbox("sb", limits, Budget::of_tenant("tenant", tenant));
    gateway->called = [this](const LlmCall& call) { calls.push_back(call); };
    gateway->exceeded = [this](const BudgetRefusal& why) { refusals.push_back(why); };
    options.gateway = gateway;
    options.secrets = [this](std::string_view name) {
      return name == "llm" ? &key.value : nullptr;
    };
  }
  Key key;
  std::shared_ptr<Gateway> gateway;
  std::vector<LlmCall> calls;
  std::vector<BudgetRefusal> refusals;
  Inside::Options options;
};

std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1:3128\r\nContent-Type: application/json\r\n{}"
      "Content-Length: {}\r\n\r\n{}",
      path, more, body.size(), body);
}

// All bytes that come back, until the end.
std::string all_of(Inside& inside, std::string request) {
  request.insert(request.find("Host:"), "Connection: close\r\n");
  RawClient client = inside.proxy();
  client.send(request);
  return client.rest();
}

}  // namespace

TEST(Gateway, AddressesOfProviders) {
  const auto plain = gateway_provider(Provider::OpenAi, {"http://127.0.0.1:8000", "k", ""});
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->tls);
  EXPECT_EQ(plain->port, 8000);
  const auto tls = gateway_provider(Provider::Anthropic, {"https://api.anthropic.com", "k", ""});
  ASSERT_TRUE(tls);
  EXPECT_TRUE(tls->tls);
  EXPECT_EQ(tls->port, 443);
  EXPECT_EQ(tls->name->text(), "api.anthropic.com");
  const auto six = gateway_provider(Provider::OpenAi, {"http://[::1]:81", "k", ""});
  ASSERT_TRUE(six);
  EXPECT_EQ(six->port, 81);
  EXPECT_FALSE(gateway_provider(Provider::OpenAi, {"https://10.0.0.1", "k", ""}));
  EXPECT_FALSE(gateway_provider(Provider::OpenAi, {"ftp://x.example", "k", ""}));
  EXPECT_FALSE(gateway_provider(Provider::OpenAi, {"https://x.example:70000", "k", ""}));
}

TEST(Gateway, WhatCannotBeCountedDoesNotLeave) {
  NEEDS_INSIDE();
  Provided provider(answer_of("application/json", "{}"));
  Models models(provider.host.port());
  Inside inside({}, models.options);
  EXPECT_EQ(inside.ask(post("/openai/v1/images/generations", "{}")).status, 403U);
  EXPECT_EQ(inside.ask(post("/openai/v1/../chat/completions", kChat)).status, 403U);
  EXPECT_EQ(inside.ask(post("/openai/chat/completions", "{\"model\": 1}")).status, 400U);
  const std::string twice = R"({"model": "small", "model": "large", "messages": []})";
  EXPECT_EQ(inside.ask(post("/openai/chat/completions", twice)).status, 400U);
  // Another name for us, or another place, is no gateway.
  std::string other = post("/openai/chat/completions", kChat);
  other.replace(other.find("127.0.0.1:3128"), 14, "evil.example");
  EXPECT_EQ(inside.ask(other).status, 400U);
  EXPECT_EQ(inside.ask(post("/else/chat/completions", kChat)).status, 400U);
  const auto large = inside.ask(fmt::format(
      "POST /openai/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
      kRequestBytesMax + 1));
  EXPECT_EQ(large.status, 413U);
  EXPECT_EQ(provider.host.connections(), 0);
}

TEST(Gateway, OfOneSandboxSoMuchIsHeldAtOnce) {
  NEEDS_INSIDE();
  Provided provider(answer_of("application/json", "{}"));
  Models models(provider.host.port());
  models.gateway->bytes_held = kGatewayBytesMax - 4;
  Inside inside({}, models.options);
  EXPECT_EQ(inside.ask(post("/openai/chat/completions", kChat)).status, 413U);
  EXPECT_EQ(models.gateway->bytes_held, kGatewayBytesMax - 4);
}

TEST(Gateway, AMissingKeyIsNamedAndNothingLeaves) {
  NEEDS_INSIDE();
  Provided provider(answer_of("application/json", "{}"));
  Models models(provider.host.port());
  models.options.secrets = [](std::string_view) -> const Secret* { return nullptr; };
  Inside inside({}, models.options);
  const auto reply = inside.ask(post("/openai/chat/completions", kChat));
  EXPECT_EQ(reply.status, 502U);
  EXPECT_NE(reply.body.find("'llm' is not set"), std::string::npos) << reply.body;
  EXPECT_EQ(provider.host.connections(), 0);
}

TEST(Gateway, TheKeyIsOursAndTheGuestDoesNotSeeIt) {
  NEEDS_INSIDE();
  const std::string body = fmt::format(
      R"({{"id": "x", "echo": "{}", "usage": {{"prompt_tokens": 10, "completion_tokens": 5}}}})",
      kKey);
  Provided provider(answer_of("application/json", body));
  Models models(provider.host.port());
  Inside inside({}, models.options);
  const auto reply =
      all_of(inside, post("/openai/chat/completions", kChat,
                          "Authorization: Bearer mine\r\nX-Api-Key: mine\r\nX-Kept: 1\r\n"));
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200")) << reply;
  EXPECT_EQ(reply.find(kKey), std::string::npos) << reply;
  EXPECT_NE(reply.find("completion_tokens"), std::string::npos) << reply;
  EXPECT_NE(reply.find("[secret llm]"), std::string::npos) << reply;
  ASSERT_EQ(provider.heads.size(), 1U);
  const std::string& head = provider.heads[0];
  EXPECT_TRUE(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n")) << head;
  EXPECT_NE(head.find(fmt::format("Authorization: Bearer {}\r\n", kKey)), std::string::npos);
  EXPECT_EQ(head.find("mine"), std::string::npos) << head;
  EXPECT_NE(head.find("X-Kept: 1"), std::string::npos);
  inside.loop.on_thread([&] {
    ASSERT_EQ(models.calls.size(), 1U);
    EXPECT_EQ(models.calls[0].model, "small");
    EXPECT_EQ(models.calls[0].usage.input, 10);
    EXPECT_EQ(models.calls[0].usage.output, 5);
    EXPECT_EQ(models.calls[0].amount.cost, 20'000);  // 10 x $1 and 5 x $2 for a million
    EXPECT_EQ(models.gateway->budget->state().used.tokens, 15);
    EXPECT_EQ(models.gateway->budget->state().reserved.tokens, 0);
  });
  EXPECT_EQ(inside.passages()[0].way, Way::Gateway);
}

TEST(Gateway, AnthropicHasItsOwnHeader) {
  NEEDS_INSIDE();
  Provided provider(
      answer_of("application/json",
                R"({"type": "message", "usage": {"input_tokens": 7, "output_tokens": 3}})"));
  Models models(provider.host.port());
  Inside inside({}, models.options);
  const auto reply = inside.ask(post("/anthropic/v1/messages", kChat, "x-api-key: mine\r\n"));
  EXPECT_EQ(reply.status, 200U);
  ASSERT_EQ(provider.heads.size(), 1U);
  EXPECT_TRUE(provider.heads[0].starts_with("POST /v1/messages HTTP/1.1\r\n"));
  EXPECT_NE(provider.heads[0].find(fmt::format("x-api-key: {}\r\n", kKey)), std::string::npos);
  inside.loop.on_thread([&] { EXPECT_EQ(models.gateway->budget->state().used.tokens, 10); });
}

TEST(Gateway, AStreamIsCountedByItsLastEvent) {
  NEEDS_INSIDE();
  const std::string events =
      "data: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\n\n"
      "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 4, \"completion_tokens\": 2}}\n\n"
      "data: [DONE]\n\n";
  Provided provider(answer_of("text/event-stream", events));
  Models models(provider.host.port());
  Inside inside({}, models.options);
  const std::string body = R"({"model": "small", "stream": true, "max_tokens": 9, "messages": []})";
  const auto reply = inside.ask(post("/openai/v1/chat/completions", body));
  EXPECT_EQ(reply.status, 200U);
  EXPECT_NE(provider.bodies.at(0).find("include_usage"), std::string::npos);
  inside.loop.on_thread([&] { EXPECT_EQ(models.gateway->budget->state().used.tokens, 6); });
}

TEST(Gateway, ASpentBudgetRefusesBeforeItLeaves) {
  NEEDS_INSIDE();
  Provided provider(answer_of("application/json", "{}"));
  BudgetLimits limits;
  limits.max_tokens = 40;
  Models models(provider.host.port(), limits);
  Inside inside({}, models.options);
  const auto reply = inside.ask(post("/openai/chat/completions", kChat));
  EXPECT_EQ(reply.status, 429U);
  EXPECT_TRUE(reply.has("x-should-retry: false")) << reply.head;
  EXPECT_EQ(provider.host.connections(), 0);
  inside.loop.on_thread([&] {
    EXPECT_EQ(models.refusals.size(), 1U);
    EXPECT_EQ(models.gateway->budget->state(), BudgetState{});
  });
}

TEST(Gateway, TheTenantsBudgetCountsToo) {
  NEEDS_INSIDE();
  Provided provider(answer_of("application/json", "{}"));
  BudgetLimits tenant;
  tenant.max_cost = 1;
  Models models(provider.host.port(), {}, tenant);
  Inside inside({}, models.options);
  EXPECT_EQ(inside.ask(post("/openai/chat/completions", kChat)).status, 402U);
  const std::string unknown = R"({"model": "unknown", "messages": []})";
  const auto reply = inside.ask(post("/openai/chat/completions", unknown));
  EXPECT_EQ(reply.status, 403U);  // it has no price, and money is limited
  EXPECT_EQ(provider.host.connections(), 0);
}

TEST(Gateway, AStreamStopsAtTheLimit) {
  NEEDS_INSIDE();
  std::string events;
  for (int i = 0; i < 2000; ++i)
    events += "data: {\"choices\": [{\"delta\": {\"content\": \"word \"}}]}\n\n";
  Provided provider(answer_of("text/event-stream", events));
  BudgetLimits limits;
  limits.max_tokens = 200;
  Models models(provider.host.port(), limits);
  Inside inside({}, models.options);
  const std::string body =
      R"({"model": "small", "stream": true, "max_tokens": 100, "messages": []})";
  const auto reply = all_of(inside, post("/openai/v1/chat/completions", body));
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200"));
  EXPECT_NE(reply.find("budget_exceeded"), std::string::npos) << reply;
  EXPECT_LT(reply.size(), events.size());
  inside.loop.on_thread([&] { EXPECT_EQ(models.refusals.size(), 1U); });
}

TEST(Gateway, WhatTheProviderRefusesCostsNothing) {
  NEEDS_INSIDE();
  Provided provider(
      "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
  Models models(provider.host.port());
  Inside inside({}, models.options);
  EXPECT_EQ(inside.ask(post("/openai/chat/completions", kChat)).status, 401U);
  inside.loop.on_thread([&] { EXPECT_EQ(models.gateway->budget->state(), BudgetState{}); });
}

}  // namespace caisson::egress::test
