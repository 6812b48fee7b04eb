#include "cli/caddy_config.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

TEST(CaddyConfig, NothingAddsALine) {
  for (const char* bad : {"", "a b", "a.example {", "a.example\nb", "http://a.example",
                          "*.a.example", "a.example/x", "a_b.example;", "$HOME.example"}) {
    const auto text = caddy_config({.vhost = bad});
    EXPECT_FALSE(text) << bad;
  }
  for (const char* bad : {"", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
                          ":8080", "127.0.0.1:80 }", "127.0.0.1:80\nx", "a{b}:80", "unix//run/x"}) {
    const auto text = caddy_config({.vhost = "a.example", .upstream = bad});
    ASSERT_FALSE(text) << bad;
    EXPECT_NE(text.error().message.find("--upstream"), std::string::npos);
  }
  for (const char* bad : {"x", "a@b c", "a@b\n", "a@b}", "a@\"b"}) {
    EXPECT_FALSE(caddy_config({.vhost = "a.example", .email = bad})) << bad;
  }
}

TEST(CaddyConfig, AsksTheServerForEachName) {
  EXPECT_EQ(*caddy_config({.vhost = "box.example", .email = "me@box.example"}),
            "# TLS in front of caisson, and of the previews of its sandboxes.\n"
            "# The server: caisson serve --listen 127.0.0.1:8080 --vhost box.example\n"
            "{\n"
            "\temail me@box.example\n"
            "\ton_demand_tls {\n"
            "\t\t# The server says yes to its own name and to those of sandboxes that there are.\n"
            "\t\task http://127.0.0.1:8080/internal/ask\n"
            "\t}\n"
            "}\n\n"
            "https://box.example, https://*.box.example {\n"
            "\ttls {\n"
            "\t\ton_demand\n"
            "\t}\n"
            "\treverse_proxy 127.0.0.1:8080 {\n"
            "\t\tflush_interval -1\n"
            "\t}\n"
            "}\n");
}

// Any number of labels, and a port.
TEST(CaddyConfig, OneForAllNames) {
  const auto text = *caddy_config(
      {.vhost = "a.b.c.example:8443", .certificates = Certificates::Wildcard, .internal = true});
  EXPECT_NE(text.find("\nhttps://a.b.c.example:8443, https://*.a.b.c.example:8443 {\n"
                      "\ttls internal\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("on_demand"), std::string::npos);
  const auto dns = *caddy_config({.vhost = "box.example", .certificates = Certificates::Wildcard});
  EXPECT_NE(dns.find("\t\tdns PROVIDER TOKEN\n"), std::string::npos);
}

}  // namespace
}  // namespace caisson::cli
