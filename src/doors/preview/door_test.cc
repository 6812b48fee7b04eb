#include <algorithm>

#include "control/access_token.h"
#include "doors/preview/admission.h"
#include "doors/preview/fakes_test.h"
#include "doors/preview/name.h"
#include "doors/preview/places.h"
#include "doors/preview/visits.h"

namespace caisson::preview {
namespace fake {

Result<Caller> Access::caller_of(std::string_view token) {
  if (token.empty() && open) return caller("red");
  if (token == control::taken_over_id(kOldToken)) return caller("red");
  return failure(Errc::Unauthenticated, "no such token");
}

}  // namespace fake
namespace {

using namespace fake;

struct Ask {
  std::string host = kRed + "." + kVhost;
  std::string target = "/";
  std::vector<http::Field> fields{};
  http::Method method = http::Method::Get;
  bool websocket = false;
  bool local = false;
};

class Preview : public testing::Test {
 protected:
  explicit Preview(std::string scheme = "https") : scheme_(std::move(scheme)) {}

  std::unique_ptr<Exchange> request(const Ask& ask) {
    auto exchange = std::make_unique<Exchange>();
    http::Request& wanted = exchange->wanted;
    wanted.method = ask.method;
    wanted.method_text = http::to_string(ask.method);
    wanted.target = ask.target;
    const auto question = ask.target.find('?');
    wanted.path = ask.target.substr(0, question);
    if (question != std::string::npos) wanted.query = ask.target.substr(question + 1);
    wanted.fields = ask.fields;
    wanted.fields.push_back({"Host", ask.host});
    wanted.wants_websocket = ask.websocket;
    wanted.peer = {"192.0.2.7", 1, ask.local};
    wanted.id = "0123456789abcdef";
    return exchange;
  }
  std::unique_ptr<Exchange> ask(const Ask& ask) {
    auto exchange = request(ask);
    run(door_.handle(*exchange));
    return exchange;
  }
  void run(awaitable<void> work) {
    asio::co_spawn(io_, std::move(work), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    io_.run();
    io_.restart();
  }
  std::string cookie(const Caller& caller, const std::string& host) {
    return std::string(scheme_ == "https" ? kSecureCookie : kPlainCookie) + "=" +
           *logins_.open(caller, host, seconds(60));
  }
  static http::Field bearer(const std::string& token) {
    return {"Authorization", "Bearer " + token};
  }
  static http::Field page() { return {"Accept", "text/html,*/*"}; }
  static std::string all_of(const Exchange& exchange) {
    std::string out = std::to_string(exchange.code) + exchange.type + exchange.body;
    for (const auto& field : exchange.fields) out += field.name + field.value;
    return out;
  }

  std::string scheme_;
  asio::io_context io_;
  Fleet fleet_;
  Access access_;
  Logins logins_;
  Door door_{
      fleet_, access_, logins_, {.vhost = kVhost, .scheme = scheme_, .streams_per_sandbox_max = 2}};
};

class PlainPreview : public Preview {
 protected:
  PlainPreview() : Preview("http") {}
};

// ------------------------------------------------------------------------- what must not work

TEST_F(Preview, AStrangerCannotTellWhatThereIs) {
  for (const auto& fields : {std::vector<http::Field>{}, std::vector<http::Field>{page()},
                             std::vector<http::Field>{bearer("cais_nonsense")},
                             std::vector<http::Field>{{"Cookie", "__Host-caisson-preview=x"}}}) {
    const auto there = ask({.fields = fields});
    const auto not_there = ask({.host = kNone + "." + kVhost, .fields = fields});
    std::string same = all_of(*not_there);
    for (std::size_t at = 0; (at = same.find(kNone)) != std::string::npos;) {
      same.replace(at, kNone.size(), kRed);
    }
    EXPECT_EQ(all_of(*there), same);
    EXPECT_TRUE(there->code == 401 || there->code == 302);
  }
  EXPECT_TRUE(fleet_.calls.empty());
}

TEST_F(Preview, AnotherTenantSeesNothingAndCannotTellEither) {
  const auto theirs = ask({.fields = {bearer(kBlueToken)}});
  const auto nobodys = ask({.host = kNone + "." + kVhost, .fields = {bearer(kBlueToken)}});
  EXPECT_EQ(theirs->code, 404U);
  EXPECT_EQ(all_of(*theirs), all_of(*nobodys));
  EXPECT_TRUE(fleet_.calls.empty());
}

TEST_F(Preview, ACookieIsForOneHostOnly) {
  const auto red = Access::caller("red");
  for (const std::string& host : {"8000-" + kRed + "." + kVhost, kBlue + "." + kVhost,
                                  "ticket " + kRed + "." + kVhost, std::string("console")}) {
    EXPECT_EQ(ask({.fields = {{"Cookie", cookie(red, host)}}})->code, 401U) << host;
  }
  // A login of a tenant whose sandbox it is not is of no use either.
  const auto blue = Access::caller("blue");
  EXPECT_EQ(ask({.fields = {{"Cookie", cookie(blue, kRed + "." + kVhost)}}})->code, 404U);
  EXPECT_TRUE(fleet_.calls.empty());
}

// A page of a sibling host makes the browser send our cookie: same site, other origin.
TEST_F(Preview, APageOfASiblingGetsNothingByOurCookie) {
  const http::Field own{"Cookie", cookie(Access::caller("red"), kRed + "." + kVhost)};
  const std::string sibling = "https://" + kBlue + "." + kVhost;
  EXPECT_EQ(ask({.fields = {own, {"Origin", sibling}}})->code, 401U);
  EXPECT_EQ(ask({.fields = {own, {"Origin", "null"}}})->code, 401U);
  EXPECT_EQ(ask({.fields = {own, {"Origin", sibling}}, .method = http::Method::Post})->code, 401U);
  EXPECT_EQ(
      ask({.fields = {own, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Mode", "no-cors"}}})->code,
      401U);
  EXPECT_EQ(ask({.fields = {own, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}},
                 .method = http::Method::Post})
                ->code,
            401U);
  EXPECT_TRUE(fleet_.calls.empty());
  EXPECT_EQ(
      ask({.fields = {own, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Mode", "navigate"}}})->code,
      200U);
  EXPECT_EQ(ask({.fields = {own, {"Origin", "https://" + kRed + "." + kVhost}},
                 .method = http::Method::Post})
                ->code,
            200U);
}

TEST_F(Preview, AWebSocketIsForTheHostsOwnPage) {
  for (const bool is_public : {false, true}) {
    if (is_public) fleet_.all[kRed].labels["caisson.public"] = "true";
    EXPECT_EQ(ask({.fields = {bearer(kRedToken), {"Origin", "https://" + kBlue + "." + kVhost}},
                   .websocket = true})
                  ->code,
              403U);
  }
  fleet_.answer = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\n";
  EXPECT_EQ(ask({.fields = {bearer(kRedToken), {"Origin", "https://" + kRed + "." + kVhost}},
                 .websocket = true})
                ->code,
            101U);
  EXPECT_EQ(ask({.fields = {bearer(kRedToken)}, .websocket = true})->code, 101U);
}

TEST_F(Preview, NothingBelowOurPathIsTheProgramsEvenWhenPublic) {
  fleet_.all[kRed].labels["caisson.public"] = "true";
  for (const char* path : {"/.caisson/", "/.caisson", "/.caisson/x", "/.caisson/enter/x"}) {
    EXPECT_EQ(ask({.target = path})->code, 404U) << path;
  }
  EXPECT_EQ(ask({.target = "/.caisson/enter", .method = http::Method::Post})->code, 404U);
  EXPECT_TRUE(fleet_.calls.empty());
  EXPECT_EQ(ask({.target = "/.caissonish"})->code, 200U);
}

TEST_F(Preview, ATicketIsGoodOnceAndForItsHost) {
  EXPECT_EQ(ask({.target = "/.caisson/enter"})->code, 403U);
  EXPECT_EQ(ask({.target = "/.caisson/enter?ticket=secret99&to=/"})->code, 403U);
  const std::string link = *door_.invitation(Access::caller("red"), kRed, std::nullopt);
  const std::string target = link.substr(link.find("/.caisson"));
  EXPECT_EQ(ask({.host = "8000-" + kRed + "." + kVhost, .target = target})->code, 403U);
  EXPECT_EQ(ask({.target = target, .method = http::Method::Head})->code, 404U);
  EXPECT_EQ(ask({.target = target})->code, 303U);
  EXPECT_EQ(ask({.target = target})->code, 403U);
}

TEST_F(Preview, ATicketIsNoCookieAndACookieNoTicket) {
  const std::string link = *door_.invitation(Access::caller("red"), kRed, std::nullopt);
  const std::string ticket = link.substr(link.find("ticket=") + 7, 7);
  EXPECT_EQ(ask({.fields = {{"Cookie", "__Host-caisson-preview=" + ticket}}})->code, 401U);
  const std::string secret = *logins_.open(Access::caller("red"), kRed + "." + kVhost, seconds(9));
  EXPECT_EQ(ask({.target = "/.caisson/enter?ticket=" + secret})->code, 403U);
}

TEST_F(Preview, NobodyIsSentElsewhere) {
  for (const char* to : {"//evil.test", "https://evil.test", "/%5Cevil.test", "%2F%2Fevil.test",
                         "/a%0d%0aX:y", "/.caisson/enter%3Fticket=x", ""}) {
    const std::string link = *door_.invitation(Access::caller("red"), kRed, std::nullopt);
    const std::string target = link.substr(link.find("/.caisson"));
    const auto answer = ask({.target = target.substr(0, target.find("&to=")) + "&to=" + to});
    EXPECT_EQ(answer->code, 303U) << to;
    EXPECT_EQ(answer->field("Location"), "/") << to;
  }
}

TEST_F(Preview, NobodyInvitesIntoWhatIsNotHis) {
  const auto blue = Access::caller("blue");
  EXPECT_EQ(door_.invitation(blue, kRed, 80).error().code, Errc::NotFound);
  EXPECT_EQ(door_.invitation(blue, kNone, 80).error(), door_.invitation(blue, kRed, 80).error());
  const auto reader = Access::caller("red", store::Scope::Read);
  EXPECT_EQ(door_.invitation(reader, kRed, 80).error().code, Errc::Denied);
  EXPECT_EQ(ask({.fields = {bearer(kReadToken)}})->code, 403U);
  EXPECT_TRUE(logins_.all.empty());
}

TEST_F(Preview, OurCredentialsNeverReachTheProgram) {
  const std::string secret = cookie(Access::caller("red"), kRed + "." + kVhost);
  const auto heard_with = [&](std::vector<http::Field> fields) {
    const auto answer = ask({.fields = std::move(fields)});
    EXPECT_EQ(answer->code, 200U);
    return fleet_.heard();
  };
  EXPECT_EQ(heard_with({bearer(kRedToken)}).find("Authorization"), std::string::npos);
  EXPECT_EQ(heard_with({bearer(kOldToken)}).find("Authorization"), std::string::npos);
  const std::string both = heard_with({{"Cookie", "mine=1; " + secret}, bearer(kRedToken)});
  EXPECT_EQ(both.find("cais_"), std::string::npos);
  EXPECT_EQ(both.find("secret"), std::string::npos);
  EXPECT_NE(both.find("Cookie: mine=1\r\n"), std::string::npos);
  // Also where nobody needed it, and where it is good for nothing any more.
  fleet_.all[kRed].labels["caisson.public"] = "true";
  EXPECT_EQ(heard_with({bearer(kRedToken)}).find("cais_"), std::string::npos);
  EXPECT_EQ(heard_with({bearer(kOldToken)}).find("Authorization"), std::string::npos);
  EXPECT_EQ(heard_with({bearer("cais_expired")}).find("cais_"), std::string::npos);
  EXPECT_EQ(heard_with({{"Authorization", "Basic eA=="}, bearer(kRedToken)}).find("Authorization"),
            std::string::npos);
  EXPECT_EQ(access_.guesses, 0);
}

// ------------------------------------------------------------------------------- what must work

TEST_F(Preview, AProgramsOwnAuthorizationPassesAndIsNoGuess) {
  const http::Field own{"Cookie", cookie(Access::caller("red"), kRed + "." + kVhost)};
  const std::string jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2lnbmF0dXJl";
  EXPECT_EQ(ask({.fields = {own, bearer(jwt)}})->code, 200U);
  EXPECT_NE(fleet_.heard().find("Authorization: Bearer " + jwt), std::string::npos);
  EXPECT_EQ(ask({.fields = {own, {"Authorization", "Basic dTpw"}}})->code, 200U);
  EXPECT_NE(fleet_.heard().find("Authorization: Basic dTpw"), std::string::npos);
  EXPECT_EQ(ask({.fields = {bearer(jwt)}})->code, 401U);
  EXPECT_EQ(access_.guesses, 0);
  EXPECT_EQ(ask({.fields = {bearer("cais_wrong")}})->code, 401U);
  EXPECT_EQ(access_.guesses, 1);
}

TEST_F(Preview, FromALinkToACookieToThePage) {
  const auto asked = ask({.target = "/a?b=c", .fields = {page()}});
  EXPECT_EQ(asked->code, 302U);
  EXPECT_EQ(asked->field("Location"),
            "https://box.example/preview/open?host=" + kRed + ".box.example&path=%2Fa%3Fb%3Dc");
  EXPECT_EQ(asked->field("Cache-Control"), "no-store");

  auto open = request(
      {.host = kVhost, .target = "/preview/open?host=" + kRed + ".box.example&path=%2Fa%3Fb%3Dc"});
  const Caller red = Access::caller("red");
  run(door_.open(*open, &red));
  EXPECT_EQ(open->code, 303U);
  const std::string link = open->field("Location");
  ASSERT_TRUE(link.starts_with("https://" + kRed + ".box.example/.caisson/enter?ticket=")) << link;

  const auto entered = ask({.target = link.substr(link.find("/.caisson"))});
  EXPECT_EQ(entered->code, 303U);
  EXPECT_EQ(entered->field("Location"), "/a?b=c");
  EXPECT_EQ(entered->field("Cache-Control"), "no-store");
  EXPECT_EQ(entered->field("Referrer-Policy"), "no-referrer");
  const std::string set = entered->field("Set-Cookie");
  const std::string own = set.substr(0, set.find(';'));
  EXPECT_EQ(set.substr(own.size()), "; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax; Secure");
  ASSERT_TRUE(own.starts_with("__Host-caisson-preview="));

  const auto seen = ask({.target = "/a?b=c", .fields = {{"Cookie", own}}});
  EXPECT_EQ(seen->code, 200U);
  EXPECT_EQ(seen->body, "ok");
  const std::string heard = fleet_.heard();
  EXPECT_TRUE(heard.starts_with("GET /a?b=c HTTP/1.1\r\nHost: " + kRed + ".box.example\r\n"));
  EXPECT_NE(heard.find("X-Forwarded-Proto: https\r\n"), std::string::npos);
}

TEST_F(PlainPreview, WithoutTlsTheCookieHasAnotherName) {
  const std::string link = *door_.invitation(Access::caller("red"), kRed, 3000);
  ASSERT_TRUE(link.starts_with("http://3000-" + kRed + ".box.example/.caisson/enter?")) << link;
  const std::string host = "3000-" + kRed + ".box.example:8080";
  const auto entered = ask({.host = host, .target = link.substr(link.find("/.caisson"))});
  const std::string set = entered->field("Set-Cookie");
  EXPECT_TRUE(set.starts_with("caisson-preview=")) << set;
  EXPECT_EQ(set.find("Secure"), std::string::npos);
  // A sibling may have planted one of the same name before ours.
  const std::string planted = "caisson-preview=planted; " + set.substr(0, set.find(';'));
  EXPECT_EQ(ask({.host = host, .fields = {{"Cookie", planted}}})->code, 200U);
  EXPECT_EQ(fleet_.heard().find("planted"), std::string::npos);
  std::string many;
  for (std::size_t i = 0; i < kCookiesMax; ++i) many += "caisson-preview=planted; ";
  EXPECT_EQ(ask({.host = host, .fields = {{"Cookie", many + set}}})->code, 401U);
}

TEST_F(Preview, OpenLeadsToTheLoginOrNowhere) {
  auto nobody = request({.host = kVhost, .target = "/preview/open?host=x&path=%2Fy"});
  run(door_.open(*nobody, nullptr));
  EXPECT_EQ(nobody->code, 303U);
  EXPECT_EQ(nobody->field("Location"),
            "/#/login?next=%2Fpreview%2Fopen%3Fhost%3Dx%26path%3D%252Fy");
  const Caller blue = Access::caller("blue");
  std::vector<std::string> answers;
  for (const std::string& host :
       {kRed + ".box.example", kNone + ".box.example", std::string("evil.test"), std::string()}) {
    auto open = request({.host = kVhost, .target = "/preview/open?host=" + host});
    run(door_.open(*open, &blue));
    EXPECT_EQ(open->code, 404U) << host;
    EXPECT_EQ(open->field("Location"), "");
    answers.push_back(all_of(*open));
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(Preview, APublicOneIsForEverybody) {
  fleet_.all[kRed].labels["caisson.public"] = "yes";
  EXPECT_EQ(ask({})->code, 401U);
  fleet_.all[kRed].labels["caisson.public"] = "true";
  EXPECT_EQ(ask({})->code, 200U);
  EXPECT_EQ(fleet_.calls, (std::vector<std::string>{"ports", "connect red a 8000"}));
}

// Each row in the audit is charged to the owner, who could be locked out of his own server.
TEST_F(Preview, StrangersCostTheOwnerOneRow) {
  fleet_.all[kRed].labels["caisson.public"] = "true";
  fleet_.refuses = Error{Errc::Protocol, "nothing listens"};
  for (const char* port : {"1", "2", "3"}) {
    EXPECT_EQ(ask({.host = std::string(port) + "-" + kRed + "." + kVhost})->code, 502U);
  }
  EXPECT_EQ(fleet_.calls,
            (std::vector<std::string>{"connect red a 1", "again red a 2", "again red a 3"}));
}

TEST_F(Preview, StrangersTakeNoPlaceFromTheOwner) {
  fleet_.all[kRed].labels["caisson.public"] = "true";
  fleet_.stays = true;
  fleet_.answer = "HTTP/1.1 200 OK\r\n";
  std::vector<std::unique_ptr<Exchange>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(request({}));
    asio::co_spawn(io_, door_.handle(*waiting.back()), asio::detached);
  }
  auto stranger = request({});
  asio::co_spawn(io_, door_.handle(*stranger), asio::detached);
  while (stranger->code == 0) io_.run_one();
  EXPECT_EQ(stranger->code, 503U);
  // It is private again; who has a right to it finds room.
  fleet_.all[kRed].labels.clear();
  fleet_.stays = false;
  fleet_.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  auto owner = request({.fields = {bearer(kRedToken)}});
  asio::co_spawn(io_, door_.handle(*owner), asio::detached);
  while (owner->code == 0) io_.run_one();
  EXPECT_EQ(owner->code, 200U);
  fleet_.staying.clear();
  io_.run();
}

TEST(PreviewPlaces, OneTenantLeavesRoomForOthers) {
  Places places({.all = 3, .per_tenant = 2, .per_sandbox = 1});
  const auto one = places.take({"a", "red"});
  EXPECT_FALSE(places.take({"a", "red"}));
  {
    const auto two = places.take({"b", "red"});
    ASSERT_TRUE(one && two);
    EXPECT_FALSE(places.take({"c", "red"}));
    const auto three = places.take({"d", "blue"});
    ASSERT_TRUE(three);
    EXPECT_FALSE(places.take({"e", "green"}));
  }
  EXPECT_TRUE(places.take({"c", "red"}));
}

// As Caddyfiles of the old system do with every path.
TEST_F(Preview, ARewrittenAddressIsTheSame) {
  const std::string before = "/sandboxes/" + kRed + "/proxy";
  const auto asked = ask({.target = before + "/a?b=c", .fields = {page()}});
  EXPECT_EQ(asked->field("Location"),
            "https://box.example/preview/open?host=" + kRed + ".box.example&path=%2Fa%3Fb%3Dc");
  const std::string link = *door_.invitation(Access::caller("red"), kRed, std::nullopt);
  const auto entered = ask({.target = before + link.substr(link.find("/.caisson"))});
  EXPECT_EQ(entered->code, 303U);
  const std::string set = entered->field("Set-Cookie");
  const auto seen =
      ask({.target = before + "/a?b=c", .fields = {{"Cookie", set.substr(0, set.find(';'))}}});
  EXPECT_EQ(seen->code, 200U);
  EXPECT_TRUE(fleet_.heard().starts_with("GET /a?b=c HTTP/1.1\r\n"));
  fleet_.all[kRed].labels["caisson.public"] = "true";
  fleet_.calls.clear();
  EXPECT_EQ(ask({.target = before + "/.caisson/enter?ticket=secret"})->code, 403U);
  EXPECT_TRUE(fleet_.calls.empty()) << "a ticket is not for the program";
}

TEST_F(Preview, ASiblingCannotPushOurCookieOut) {
  std::string cookies;
  for (std::size_t i = 0; i < kCookiesMax; ++i) cookies += "caisson-preview=planted; ";
  cookies += cookie(Access::caller("red"), kRed + "." + kVhost);
  EXPECT_EQ(ask({.fields = {{"Cookie", cookies}}})->code, 200U);
  EXPECT_EQ(fleet_.heard().find("planted"), std::string::npos);
}

TEST_F(Preview, WhatAVisitorNeedNotAskTwice) {
  for (int i = 0; i < 3; ++i) (void)ask({.fields = {bearer(kRedToken)}});
  EXPECT_EQ(fleet_.calls, (std::vector<std::string>{"ports", "connect red a 8000",
                                                    "again red a 8000", "again red a 8000"}));
  // Another port of the same sandbox is another visit, and is not guessed.
  fleet_.calls.clear();
  (void)ask({.host = "3000-" + kRed + "." + kVhost, .fields = {bearer(kRedToken)}});
  EXPECT_EQ(fleet_.calls, (std::vector<std::string>{"connect red a 3000"}));
}

TEST_F(Preview, NobodyListens) {
  fleet_.listening = {};
  const auto none = ask({.fields = {bearer(kRedToken)}});
  EXPECT_EQ(none->code, 502U);
  EXPECT_EQ(none->type, "application/json");
  EXPECT_NE(none->body.find("\"code\": \"Protocol\""), std::string::npos) << none->body;
  const auto page_of = ask({.fields = {bearer(kRedToken), page()}});
  EXPECT_EQ(page_of->code, 502U);
  EXPECT_NE(page_of->type.find("text/html"), std::string::npos);
  EXPECT_NE(page_of->body.find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_EQ(page_of->field("Cache-Control"), "no-store");
  // A program that has moved to another port is found again.
  fleet_.listening = {{}, {8000}};
  EXPECT_EQ(ask({.fields = {bearer(kRedToken)}})->code, 200U);
  fleet_.refuses = Error{Errc::Protocol, "nothing listens on port <b>8000</b>"};
  fleet_.calls.clear();
  const auto gone = ask({.fields = {bearer(kRedToken), page()}});
  EXPECT_EQ(gone->code, 502U);
  EXPECT_EQ(gone->body.find("<b>"), std::string::npos);
  EXPECT_EQ(std::ranges::count(fleet_.calls, "ports"), 1);
}

TEST_F(Preview, PausedStoppedAndEnded) {
  fleet_.all[kRed].state = control::State::Paused;
  const auto paused = ask({.fields = {bearer(kRedToken)}});
  EXPECT_EQ(paused->code, 503U);
  EXPECT_EQ(paused->field("Retry-After"), "5");
  for (const auto state : {control::State::Stopped, control::State::Ended}) {
    fleet_.all[kRed].state = state;
    EXPECT_EQ(ask({.fields = {bearer(kRedToken)}})->code, 404U);
  }
  // Nobody else hears of it.
  EXPECT_EQ(ask({})->code, 401U);
  EXPECT_TRUE(fleet_.calls.empty());
}

TEST_F(Preview, TooManyAtOnce) {
  fleet_.stays = true;
  fleet_.answer = "HTTP/1.1 200 OK\r\n";
  std::vector<std::unique_ptr<Exchange>> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(request({.fields = {bearer(kRedToken)}}));
    asio::co_spawn(io_, door_.handle(*waiting.back()), asio::detached);
  }
  // Both stand at the head of an answer that has no end; the third has no place.
  auto third = request({.fields = {bearer(kRedToken)}});
  asio::co_spawn(io_, door_.handle(*third), asio::detached);
  while (third->code == 0) io_.run_one();
  EXPECT_EQ(third->code, 503U);
  EXPECT_EQ(third->field("Retry-After"), "1");
  fleet_.staying.clear();
  io_.run();
  io_.restart();
  fleet_.stays = false;
  fleet_.answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  EXPECT_EQ(ask({.fields = {bearer(kRedToken)}})->code, 200U);
}

TEST_F(Preview, TooManyGuessesAreSaidSo) {
  access_.refuses = Error{Errc::Exhausted, "too many failures"};
  EXPECT_EQ(ask({.fields = {bearer("cais_x")}})->code, 503U);
}

// A server without tokens is its own machine's.
TEST_F(Preview, WithoutTokensOnlyThisMachineLooks) {
  access_.open = true;
  EXPECT_EQ(ask({})->code, 401U);
  EXPECT_EQ(ask({.local = true})->code, 200U);
  EXPECT_EQ(ask({.fields = {{"X-Forwarded-For", "192.0.2.7"}}, .local = true})->code, 401U);
  EXPECT_EQ(ask({.fields = {{"Origin", "https://evil.test"}}, .local = true})->code, 401U);
  // Whatever stands in a token there: every one would be good.
  EXPECT_EQ(
      ask({.fields = {bearer(kRedToken), {"X-Forwarded-For", "192.0.2.7"}}, .local = true})->code,
      401U);
}

TEST_F(Preview, KnowsItsNames) {
  EXPECT_TRUE(door_.knows(kVhost));
  EXPECT_TRUE(door_.knows(kRed + "." + kVhost));
  EXPECT_TRUE(door_.knows("8000-" + kBlue + "." + kVhost));
  fleet_.all[kBlue].state = control::State::Ended;
  for (const std::string& other :
       {kBlue + "." + kVhost, kNone + "." + kVhost, std::string("evil.test"), std::string(),
        "www." + kVhost, kRed + "." + kVhost + ":443", "x" + kVhost}) {
    EXPECT_FALSE(door_.knows(other)) << other;
  }
}

TEST_F(Preview, AnswersOnlyItsOwnHosts) {
  EXPECT_TRUE(door_.answers(request({})->wanted));
  EXPECT_FALSE(door_.answers(request({.host = kVhost})->wanted));
  EXPECT_FALSE(door_.answers(request({.host = "www." + kVhost})->wanted));
  Door none(fleet_, access_, logins_, {});
  EXPECT_FALSE(none.answers(request({})->wanted));
  EXPECT_EQ(none.address(kRed, 80).error().code, Errc::Unsupported);
  EXPECT_EQ(none.invitation(Access::caller("red"), kRed, 80).error().code, Errc::Unsupported);
  EXPECT_FALSE(none.knows(""));
  EXPECT_EQ(*door_.address(kRed, 80), "https://80-" + kRed + ".box.example/");
}

TEST(PreviewMemory, HasALimitAndATime) {
  Memory<int> memory(3, seconds(10));
  const TimePoint start{};
  for (int i = 0; i < 5; ++i) memory.put(std::to_string(i), i, start);
  EXPECT_EQ(memory.size(), 3U);
  EXPECT_FALSE(memory.find("1", start));
  EXPECT_EQ(memory.find("4", start + seconds(9)), 4);
  EXPECT_FALSE(memory.find("4", start + seconds(10)));
  memory.put("4", 5, start + seconds(10));
  EXPECT_EQ(memory.size(), 3U);
  EXPECT_EQ(memory.find("4", start + seconds(11)), 5);
  memory.drop("4");
  memory.drop("4");
  EXPECT_EQ(memory.size(), 2U);
}

}  // namespace
}  // namespace caisson::preview
