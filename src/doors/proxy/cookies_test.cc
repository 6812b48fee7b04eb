#include "doors/proxy/cookies.h"

#include <gtest/gtest.h>

namespace caisson::proxy {
namespace {

const std::vector<std::string> kOwn = {"__Host-caisson-preview", "caisson-preview"};

TEST(Cookies, OursNeverPass) {
  EXPECT_EQ(other_cookies("__Host-caisson-preview=secret", kOwn), "");
  EXPECT_EQ(other_cookies("a=1; caisson-preview=secret; b=2", kOwn), "a=1; b=2");
  EXPECT_EQ(other_cookies("a=1;caisson-preview=secret;caisson-preview=again ;b=2", kOwn),
            "a=1; b=2");
  EXPECT_EQ(other_cookies("__host-CAISSON-preview=secret", kOwn), "");
  EXPECT_EQ(other_cookies("=caisson-preview=secret", kOwn), "");
  EXPECT_EQ(other_cookies("caisson-preview = secret", kOwn), "");
  EXPECT_EQ(other_cookies("caisson-preview", kOwn), "");
  EXPECT_EQ(other_cookies("", kOwn), "");
  EXPECT_EQ(other_cookies(";; ;", kOwn), "");
}

TEST(Cookies, TheProgramsOwnPassAsTheyAre) {
  EXPECT_EQ(other_cookies("a=1; b=\"x y\"; c==; my-caisson-preview=z", kOwn),
            "a=1; b=\"x y\"; c==; my-caisson-preview=z");
}

TEST(Cookies, NobodySetsOneForTheWholeDomain) {
  EXPECT_EQ(*host_only_cookie("a=1; Domain=vhost.example; Path=/; HttpOnly", kOwn),
            "a=1; Path=/; HttpOnly");
  EXPECT_EQ(*host_only_cookie("a=1;DOMAIN = .example;domain;Max-Age=5", kOwn), "a=1; Max-Age=5");
  EXPECT_EQ(*host_only_cookie("domain=x; Secure", kOwn), "domain=x; Secure");
  EXPECT_EQ(*host_only_cookie("a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", kOwn),
            "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT");
}

TEST(Cookies, NobodyForgesOurs) {
  for (const char* bad :
       {"caisson-preview=x", "__Host-caisson-preview=x; Secure; Path=/",
        "__Secure-caisson-preview=x", "__HOST-Caisson-Preview=x", " caisson-preview =x",
        "=caisson-preview=x", "==__Host-caisson-preview=x", "caisson-preview",
        "__Host-__Secure-caisson-preview=x", "", " ; Path=/"}) {
    EXPECT_FALSE(host_only_cookie(bad, kOwn)) << bad;
  }
  EXPECT_TRUE(host_only_cookie("__Host-session=x; Secure; Path=/", kOwn));
}

}  // namespace
}  // namespace caisson::proxy
