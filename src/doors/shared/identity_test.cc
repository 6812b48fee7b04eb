#include "doors/shared/identity.h"

#include <gtest/gtest.h>

namespace caisson::doors {
namespace {

using http::Method;

class OneToken final : public control::Access {
 public:
  Result<control::Caller> authenticate(std::string_view credential, std::string_view) override {
    if (credential != "good") return failure(Errc::Unauthenticated, "no such token");
    return caller_of("t1");
  }
  Result<control::Caller> caller_of(std::string_view token) override {
    control::Caller caller;
    caller.tenant = "us";
    caller.actor = token;
    return caller;
  }
  std::shared_ptr<void> watch(const control::Caller&, const boost::asio::any_io_executor&,
                              std::function<void()>) override {
    return nullptr;
  }
  void denied(const control::Caller&, std::string_view) override {}
  control::awaitable<Result<control::NewToken>> create(const control::Caller&,
                                                       control::TokenWish) override {
    co_return failure(Errc::Unsupported, "none");
  }
  control::awaitable<Result<void>> revoke(const control::Caller&, std::string) override {
    co_return failure(Errc::Unsupported, "none");
  }
  std::vector<store::TokenRecord> list(const control::Caller&) const override { return {}; }
  bool empty() const override { return false; }
  std::uint64_t failures() const override { return 0; }
};

class OneLogin final : public control::Logins {
 public:
  explicit OneLogin(control::Access& access) : access_(access) {}
  Result<std::string> open(const control::Caller&, std::string, seconds) override {
    return std::string("secret");
  }
  Result<control::Caller> find(std::string_view secret, std::string_view purpose) override {
    if (secret == "secret" && purpose == control::kConsolePurpose) return access_.caller_of("t1");
    return failure(Errc::Unauthenticated, "no such login");
  }
  Result<control::Caller> take(std::string_view secret, std::string_view purpose) override {
    return find(secret, purpose);
  }
  void close(std::string_view) override {}
  void close_purpose(std::string_view) override {}
  std::size_t count() const override { return 1; }

 private:
  control::Access& access_;
};

http::Request asks(Method method, std::vector<http::Field> fields) {
  http::Request request;
  request.method = method;
  request.fields = std::move(fields);
  request.peer = {"127.0.0.1", 1, true};
  request.id = "abc";
  return request;
}

class IdentityTest : public testing::Test {
 protected:
  Result<Identity> who(Method method, std::vector<http::Field> fields, bool websocket = false) {
    http::Request request = asks(method, std::move(fields));
    request.wants_websocket = websocket;
    return identify(request, access_, logins_);
  }
  OneToken access_;
  OneLogin logins_{access_};
};

TEST_F(IdentityTest, ATokenOrACookie) {
  EXPECT_EQ(who(Method::Get, {}).error().code, Errc::Unauthenticated);
  EXPECT_EQ(who(Method::Get, {{"Cookie", "SID=other"}}).error().code, Errc::Unauthenticated);
  EXPECT_EQ(who(Method::Post, {{"Authorization", "Bearer good"}})->caller.tenant, "us");
  const auto by_cookie = who(Method::Get, {{"Cookie", "a=b; SID=secret"}});
  ASSERT_TRUE(by_cookie);
  EXPECT_EQ(by_cookie->login, "secret");
  EXPECT_EQ(by_cookie->caller.peer, "127.0.0.1");
  EXPECT_EQ(by_cookie->caller.request_id, "abc");
}

TEST_F(IdentityTest, ABadTokenIsNotMendedByACookie) {
  EXPECT_FALSE(who(Method::Get, {{"Authorization", "Bearer bad"}, {"Cookie", "SID=secret"}}));
}

TEST_F(IdentityTest, AChangeByCookieSaysWhereItComesFrom) {
  const http::Field cookie{"Cookie", "SID=secret"};
  for (const Method method : {Method::Post, Method::Put, Method::Patch, Method::Delete}) {
    EXPECT_EQ(who(method, {cookie}).error().code, Errc::Denied);
    EXPECT_TRUE(who(method, {cookie, {"Origin", "http://localhost"}}));
    EXPECT_TRUE(who(method, {cookie, {"Sec-Fetch-Site", "same-origin"}}));
  }
  EXPECT_EQ(who(Method::Get, {cookie}, true).error().code, Errc::Denied) << "a WebSocket";
  EXPECT_TRUE(who(Method::Get, {cookie, {"Origin", "http://localhost"}}, true));
}

TEST_F(IdentityTest, ASiblingsPageReadsNothing) {
  const http::Field cookie{"Cookie", "SID=secret"};
  for (const auto* site : {"cross-site", "same-site"}) {
    EXPECT_EQ(who(Method::Get, {cookie, {"Sec-Fetch-Site", site}}).error().code, Errc::Denied);
    EXPECT_TRUE(
        who(Method::Get, {cookie, {"Sec-Fetch-Site", site}, {"Sec-Fetch-Mode", "navigate"}}))
        << "a link, whose answer the page does not see";
    EXPECT_EQ(who(Method::Post, {cookie, {"Sec-Fetch-Site", site}, {"Sec-Fetch-Mode", "navigate"}})
                  .error()
                  .code,
              Errc::Denied);
  }
}

// A picture of a sandbox's that was opened in a tab of ours, for instance.
TEST_F(IdentityTest, ACookieBringsNoScripts) {
  const std::vector<http::Field> script{
      {"Cookie", "SID=secret"}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Dest", "script"}};
  EXPECT_EQ(who(Method::Get, script).error().code, Errc::Denied);
}

TEST(LoginCookie, IsOfThisHostAlone) {
  const auto plain = asks(Method::Get, {});
  EXPECT_EQ(login_cookie(plain, "x", seconds(9)),
            "SID=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=9");
  auto secure = asks(Method::Get, {{"X-Forwarded-Proto", "https"}});
  EXPECT_EQ(login_cookie(secure, "x", seconds(9)),
            "__Host-SID=x; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=9");
  EXPECT_EQ(logout_cookie(plain), "SID=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
  secure.peer.local = false;
  EXPECT_FALSE(is_secure(secure)) << "a stranger's word about TLS";
}

TEST(LoginCookie, IsFoundOnceOrNotAtAll) {
  EXPECT_EQ(cookie_of(asks(Method::Get, {{"Cookie", "SIDE=1;SID=2 ; b"}}), "SID"), "2");
  EXPECT_FALSE(cookie_of(asks(Method::Get, {{"Cookie", "SID=1; SID=2"}}), "SID"));
  EXPECT_FALSE(cookie_of(asks(Method::Get, {{"Cookie", "SID=1"}, {"Cookie", "SID=2"}}), "SID"));
  EXPECT_FALSE(cookie_of(asks(Method::Get, {{"Cookie", "SID=" + std::string(600, 'a')}}), "SID"));
}

}  // namespace
}  // namespace caisson::doors
