#include "image/reference.h"

#include <gtest/gtest.h>

#include "image/url.h"

namespace caisson::image {
namespace {

const std::string kHex(64, 'a');

TEST(Reference, ReadsNamesAsDockerDoes) {
  const std::pair<std::string, std::string> cases[] = {
      {"python", "docker.io/library/python:latest"},
      {"python:3.12", "docker.io/library/python:3.12"},
      {"me/app", "docker.io/me/app:latest"},
      {"docker.io/python", "docker.io/library/python:latest"},
      {"index.docker.io/python", "docker.io/library/python:latest"},
      {"localhost/app", "localhost/app:latest"},
      {"localhost:5000/app:1", "localhost:5000/app:1"},
      {"127.0.0.1:5000/a/b", "127.0.0.1:5000/a/b:latest"},
      {"[::1]:5000/app", "[::1]:5000/app:latest"},
      {"Registry.Example/App-1/b.c__d", ""},
      {"Registry.Example/app-1/b.c__d", "registry.example/app-1/b.c__d:latest"},
      {"app@sha256:" + kHex, "docker.io/library/app@sha256:" + kHex},
      {"app:1@sha256:" + kHex, "docker.io/library/app:1@sha256:" + kHex},
      {"app@sha512:" + kHex + kHex, "docker.io/library/app@sha512:" + kHex + kHex},
  };
  for (const auto& [text, want] : cases) {
    const auto got = Reference::parse(text);
    if (want.empty()) {
      EXPECT_FALSE(got) << text;
      continue;
    }
    ASSERT_TRUE(got) << text << ": " << got.error().message;
    EXPECT_EQ(got->str(), want);
    const auto again = Reference::parse(got->str());
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, *got);
  }
}

TEST(Reference, RefusesWhatIsOdd) {
  const std::string cases[] = {"",
                               "/",
                               "a/",
                               "/a",
                               "a//b",
                               "A",
                               "a:",
                               "a:b/c:d",
                               "a b",
                               "a:-x",
                               "-a",
                               "a-",
                               "a._b",
                               "a___b",
                               "../a",
                               "a/../b",
                               "a@sha1:" + kHex,
                               "a@sha256:12",
                               "a@sha256:" + std::string(64, 'A'),
                               "a@sha256:" + kHex + "@sha256:" + kHex,
                               "exa_mple..com/a",
                               "h:0/a",
                               "h:99999/a",
                               "h:05000/a",
                               "127.1:5000/a",
                               "0x7f.1:5/a",
                               "[::1%eth0]:5/a",
                               kHex,
                               std::string("a\0b", 3),
                               "a\r\nb",
                               "a:" + std::string(129, 'x'),
                               std::string(256, 'a'),
                               "registry.example/" + std::string(600, 'a'),
                               "user@host/a",
                               "Us/l",
                               "LOCALHOST/a",
                               "https://host/a"};
  for (const std::string& text : cases) {
    const auto got = Reference::parse(text);
    EXPECT_FALSE(got) << text;
    if (!got) EXPECT_EQ(got.error().code, Errc::InvalidArgument) << text;
  }
}

TEST(Reference, FamiliarIsShort) {
  EXPECT_EQ(Reference::parse("python:3")->familiar(), "python:3");
  EXPECT_EQ(Reference::parse("docker.io/me/app")->familiar(), "me/app:latest");
  EXPECT_EQ(Reference::parse("localhost:5000/a")->familiar(), "localhost:5000/a:latest");
}

TEST(Url, ReadsOneWayOrRefuses) {
  const auto url = Url::parse("https://Host.Example:8443/v2/?x=1#frag");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->str(), "https://host.example:8443/v2/?x=1");
  EXPECT_EQ(url->follow("/other")->str(), "https://host.example:8443/other");
  EXPECT_EQ(url->follow("//b.example/c")->str(), "https://b.example/c");
  EXPECT_EQ(url->follow("http://[::1]:80/c")->str(), "http://[::1]/c");
  for (const char* text : {"ftp://a/", "https://", "https://a@b/", "https://a b/", "https://127.1/",
                           "https://0x7f000001/", "https://2130706433/", "https://a:0/", "gopher:",
                           "https://a\\b/", "https://[::1%25lo]/", "https://exa\xc3\xa4mple/"}) {
    EXPECT_FALSE(Url::parse(text)) << text;
  }
}

}  // namespace
}  // namespace caisson::image
