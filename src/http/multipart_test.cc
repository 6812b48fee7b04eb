#include "http/multipart.h"

#include <gtest/gtest.h>

#include <vector>

namespace caisson::http {
namespace {

using Kind = Multipart::Event::Kind;

struct Part {
  std::string name;
  std::optional<std::string> filename;
  std::string bytes;
  bool ended = false;
};

// All parts of `body`, fed in pieces of `step` bytes.
Result<std::vector<Part>> read(std::string_view body, std::size_t step,
                               std::string boundary = "XX") {
  Multipart parser(std::move(boundary));
  std::vector<Part> parts;
  for (;;) {
    const auto event = TRY(parser.next());
    if (event.kind == Kind::NeedMore) {
      if (body.empty()) break;
      parser.feed(body.substr(0, step));
      body.remove_prefix(std::min(step, body.size()));
    }
    if (event.kind == Kind::PartBegin) parts.push_back({event.name, event.filename, {}, false});
    if (event.kind == Kind::Data) parts.back().bytes += event.bytes;
    if (event.kind == Kind::PartEnd) parts.back().ended = true;
    if (event.kind == Kind::End) break;
  }
  TRY(parser.finish());
  return parts;
}

constexpr std::string_view kBody =
    "preamble\r\n--XX\r\n"
    "Content-Disposition: form-data; name=\"a\"; filename=\"f;\\\"x.tar\"\r\n"
    "Content-Type: application/x-tar\r\n\r\n"
    "one\r\n--X\r\n--XY\r\ntwo\r\n--XX  \r\n"
    "content-disposition: form-data; name=b\r\n\r\n"
    "\r\n--XX\r\n"
    "Content-Disposition: form-data; name=\"c\"; filename=\"\"\r\n\r\n"
    "\r\n\r\n--XX--\r\nepilogue --XX";

TEST(Multipart, ReadsPartsHoweverTheyAreCut) {
  for (std::size_t step = 1; step <= kBody.size(); ++step) {
    const auto parts = read(kBody, step);
    ASSERT_TRUE(parts) << step << parts.error().message;
    ASSERT_EQ(parts->size(), 3U) << step;
    EXPECT_EQ((*parts)[0].name, "a");
    EXPECT_EQ((*parts)[0].filename, "f;\"x.tar");
    EXPECT_EQ((*parts)[0].bytes, "one\r\n--X\r\n--XY\r\ntwo") << step;
    EXPECT_TRUE((*parts)[0].ended);
    EXPECT_EQ((*parts)[1].name, "b");
    EXPECT_FALSE((*parts)[1].filename);
    EXPECT_EQ((*parts)[1].bytes, "");
    EXPECT_EQ((*parts)[2].filename, "");
    EXPECT_EQ((*parts)[2].bytes, "\r\n");
  }
}

TEST(Multipart, RefusesWhatIsNotWhole) {
  for (std::size_t cut = 0; cut < kBody.find("--XX--") + 6; ++cut) {
    EXPECT_FALSE(read(kBody.substr(0, cut), 7)) << cut;
  }
}

TEST(Multipart, RefusesWhatIsMalformed) {
  for (const std::string_view body :
       {"--XXjunk\r\n\r\n", "--XX\r\nno colon\r\n\r\nx\r\n--XX--",
        "--XX\r\nContent-Type: a\r\n\r\nx\r\n--XX--",
        "--XX\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XX--",
        "--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--XX--",
        "--XX\r\n\r\nx\r\n--XX--"}) {
    const auto parts = read(body, 5);
    ASSERT_FALSE(parts) << body;
    EXPECT_EQ(parts.error().code, Errc::InvalidArgument) << body;
  }
  EXPECT_FALSE(read(std::string(kPreambleBytesMax + 100, 'x'), 100));
}

TEST(Multipart, HasLimits) {
  std::string many;
  for (std::size_t i = 0; i <= kPartsMax; ++i)
    many += "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n";
  EXPECT_EQ(read(many + "--XX--", 999).error().code, Errc::TooLarge);
  const std::string head = "--XX\r\nX: " + std::string(kPartHeadBytesMax, 'x');
  EXPECT_EQ(read(head, 999).error().code, Errc::TooLarge);
  EXPECT_EQ(read(head + "\r\n\r\n", 99999).error().code, Errc::TooLarge);
}

TEST(Multipart, FindsItsBoundary) {
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(multipart_boundary("Multipart/Form-Data; charset=x; Boundary=\"a b\""), "a b");
  EXPECT_EQ(multipart_boundary("multipart/form-data"), std::nullopt);
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary="), std::nullopt);
  EXPECT_EQ(multipart_boundary("multipart/mixed; boundary=abc"), std::nullopt);
  EXPECT_EQ(multipart_boundary("multipart/form-data; boundary=" + std::string(71, 'x')),
            std::nullopt);
}

}  // namespace
}  // namespace caisson::http
