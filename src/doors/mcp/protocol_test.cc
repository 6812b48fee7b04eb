#include "doors/mcp/protocol.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "doors/mcp/output.h"
#include "doors/mcp/resources.h"
#include "doors/mcp/tool.h"

namespace caisson::mcp {
namespace {

namespace json = boost::json;

constexpr std::string_view kId = "aaaaaaaaaaaaaaaaaaaaaaaaaa";

Message call(std::string_view version = kModernVersion, bool capable = true) {
  Message message;
  message.kind = Message::Kind::Request;
  message.id = 1;
  message.method = "tools/call";
  json::object meta{{kMetaVersion, version}};
  if (capable) meta[kMetaCapabilities] = json::object();
  message.params = {{"name", "run"}, {"_meta", meta}};
  return message;
}

http::Request request(std::vector<http::Field> fields) {
  http::Request out;
  out.fields = std::move(fields);
  return out;
}

std::vector<http::Field> headers(std::string name = "run") {
  return {{"MCP-Protocol-Version", std::string(kModernVersion)},
          {"Mcp-Method", "tools/call"},
          {"Mcp-Name", std::move(name)}};
}

TEST(Protocol, AnswersWithARevisionThatItSpeaks) {
  EXPECT_EQ(negotiate("2025-11-25"), "2025-11-25");
  EXPECT_EQ(negotiate("2025-06-18"), "2025-06-18");
  EXPECT_EQ(negotiate("2024-11-05"), "2025-11-25");
  EXPECT_EQ(negotiate("2026-07-28"), "2025-11-25") << "that one has no initialize";
  EXPECT_EQ(negotiate("nonsense"), "2025-11-25");
}

TEST(Protocol, ARequestOfTheNewerEraSaysWhatItIs) {
  EXPECT_FALSE(check_modern(call(), nullptr));
  EXPECT_EQ(check_modern(call(kModernVersion, false), nullptr)->code, kInvalidParams);
  EXPECT_EQ(check_modern(Message{}, nullptr)->code, kInvalidParams);
  const auto other = check_modern(call("1900-01-01"), nullptr);
  ASSERT_TRUE(other);
  EXPECT_EQ(other->code, kUnsupportedVersion);
  EXPECT_EQ(other->status, 400U);
  EXPECT_EQ(other->data.at("requested"), "1900-01-01");
  EXPECT_EQ(std::string_view(other->data.at("supported").at(0).as_string()), kModernVersion);
}

TEST(Protocol, HeadersMustAgreeWithTheBody) {
  const auto code = [](const http::Request& with) {
    const auto wrong = check_modern(call(), &with);
    return wrong ? wrong->code : 0;
  };
  EXPECT_EQ(code(request(headers())), 0);
  EXPECT_EQ(code(request(headers("=?base64?cnVu?="))), 0);
  EXPECT_EQ(code(request(headers("=?base64?!?="))), kHeaderMismatch);
  EXPECT_EQ(code(request(headers("edit"))), kHeaderMismatch);
  for (std::size_t missing = 0; missing < 3; ++missing) {
    auto some = headers();
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(missing));
    EXPECT_EQ(code(request(some)), kHeaderMismatch) << missing;
  }
}

TEST(Protocol, MessagesAreOneLine) {
  const std::string text = result_text("a\nb", {{"text", "c\nd\r"}});
  EXPECT_EQ(text.find_first_of("\r\n"), std::string::npos);
  EXPECT_EQ(json::parse(text).at("result").at("text"), "c\nd\r");
  EXPECT_EQ(json::parse(error_text({}, {kParseError, "x", {}})).as_object().contains("id"), false);
}

TEST(Output, KeepsBothEndsAndTellsWhatIsMissing) {
  EXPECT_EQ(show_output("abc", 0).text, "abc");
  EXPECT_EQ(show_output("abc", 0).omitted, 0U);
  const std::string head(100, 'a');
  const std::string tail(100, 'b');
  const Shown cut = show_output(head + std::string(1000, 'x') + tail, 50, 200);
  EXPECT_TRUE(cut.text.starts_with(head));
  EXPECT_TRUE(cut.text.ends_with(tail));
  EXPECT_EQ(cut.omitted, 1050U);
  EXPECT_NE(cut.text.find("1050 bytes left out"), std::string::npos);
  // Bytes that are no text, and a character that the cut would halve.
  EXPECT_EQ(show_output("\xff", 0).text, "\xEF\xBF\xBD");
  const Shown whole = show_output("aaaa\xC3\xA9", 0, 3);
  EXPECT_TRUE(whole.text.ends_with("]\n")) << whole.text;
}

TEST(Resources, AddressesAreJudged) {
  const std::string base = "caisson://" + std::string(kId);
  EXPECT_EQ(parse_uri(base + "/policy")->kind, ResourceName::Kind::Policy);
  EXPECT_EQ(parse_uri(base + "/budget")->kind, ResourceName::Kind::Budget);
  EXPECT_EQ(parse_uri(base + "/files")->path, "/");
  EXPECT_EQ(parse_uri(base + "/files/workspace/a%20b")->path, "/workspace/a b");
  const std::vector<std::string> wrongs{"file:///etc/passwd", base,
                                        base + "/filesx",     base + "/files/%zz",
                                        base + "/x",          "caisson://other/policy"};
  for (const std::string& wrong : wrongs) EXPECT_FALSE(parse_uri(wrong)) << wrong;
}

TEST(Tools, TheTableAndTheListingAgree) {
  const json::array& listing = tool_listing();
  ASSERT_EQ(listing.size(), tools().size());
  for (std::size_t i = 0; i < listing.size(); ++i) {
    const json::object& one = listing[i].as_object();
    EXPECT_EQ(std::string_view(one.at("name").as_string()), tools()[i].name);
    EXPECT_GT(one.at("description").as_string().size(), 40U);
    EXPECT_TRUE(one.at("annotations").as_object().contains("readOnlyHint"));
    for (const std::string_view which : {"inputSchema", "outputSchema"}) {
      const json::object& schema = one.at(which).as_object();
      EXPECT_EQ(schema.at("type"), "object");
      EXPECT_TRUE(schema.at("properties").as_object().contains("sandbox"));
      if (!schema.contains("required")) continue;
      for (const json::value& name : schema.at("required").as_array())
        EXPECT_TRUE(schema.at("properties").as_object().contains(name.as_string())) << name;
    }
  }
}

}  // namespace
}  // namespace caisson::mcp
