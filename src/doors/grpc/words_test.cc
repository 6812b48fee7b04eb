// What is said in the original's words: faults of text, of packages, of output that is too long.
#include <gtest/gtest.h>

#include "doors/grpc/exec_run.h"
#include "doors/grpc/pip.h"
#include "doors/grpc/utf8_fault.h"

namespace caisson::grpc {
namespace {

TEST(Utf8Fault, IsWordedAsPythonWordsIt) {
  EXPECT_EQ(utf8_fault("plain \xC3\xA9"), "");
  EXPECT_EQ(utf8_fault("\xFF"),
            "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte");
  EXPECT_EQ(utf8_fault("ab\xC3("),
            "'utf-8' codec can't decode byte 0xc3 in position 2: invalid continuation byte");
  EXPECT_EQ(utf8_fault("\xE2\x82("),
            "'utf-8' codec can't decode bytes in position 0-1: invalid continuation byte");
  EXPECT_EQ(utf8_fault("x\xE2\x82"),
            "'utf-8' codec can't decode bytes in position 1-2: unexpected end of data");
}

TEST(Packages, AreNamesExtrasAndVersions) {
  for (const char* good : {"requests", "a", "A.b_c-d", "x[security,tests]", "x==1.0", "x>=1,<2",
                           "x[y]~=1.*", "x!=1", "x>=", "1x"})
    EXPECT_TRUE(is_package(good)) << good;
  for (const char* bad : {"", "-r", "_x", "a b", "a;b", "a'b", "a\n", "a[", "a[]", "a[x", "a[x]y",
                          "a>", "a==1+local", "git+https://x", "./a", "a @ x"})
    EXPECT_FALSE(is_package(bad)) << bad;
}

TEST(Index, HasARuleOfItsOwn) {
  GrpcOptions options;
  EXPECT_TRUE(index_rules(options).empty());
  options.pip_index_url = "http://index.example:8080/simple/";
  options.pip_index_addresses = {"10.0.0.7"};
  const auto rules = index_rules(options);
  ASSERT_EQ(rules.size(), 1U);
  EXPECT_EQ(rules[0].domain, "index.example");
  EXPECT_EQ(rules[0].ports, (std::vector<std::uint16_t>{8080}));
  EXPECT_EQ(rules[0].granted_addresses, options.pip_index_addresses);
}

TEST(Output, IsCutToWhatFits) {
  std::string out(100, 'o');
  std::string err(100, 'e');
  fit_output(out, err, 0, 0, 1000);
  EXPECT_EQ(out.size() + err.size(), 200U);

  out.assign(2000, 'o');
  err = "short\n";
  fit_output(out, err, 7, 0, 1000);
  EXPECT_LE(out.size() + err.size(), 1000U);
  EXPECT_TRUE(err.starts_with("short\n[output was cut: "));
  EXPECT_NE(err.find(std::to_string(2007 - out.size())), std::string::npos);

  out.assign(2000, 'o');
  err.assign(2000, 'e');
  fit_output(out, err, 0, 0, 1000);
  EXPECT_LE(out.size() + err.size(), 1000U);
  EXPECT_GE(out.size(), 500U);

  out = "\xC3\xA9\xC3\xA9";
  err.assign(600, 'e');
  fit_output(out, err, 0, 0, 259);
  EXPECT_TRUE(doors::is_utf8(out) && doors::is_utf8(err));
}

TEST(Errno, HasNumberTextAndPath) {
  EXPECT_EQ(errno_words(2, "/nope"), "[Errno 2] No such file or directory: '/nope'");
  EXPECT_EQ(command_fault(std::string("a\0b", 3)), "embedded null byte");
  EXPECT_EQ(command_fault(std::string(128UL * 1024, 'x')),
            "[Errno 7] Argument list too long: '/bin/sh'");
  EXPECT_EQ(command_fault(std::string(128UL * 1024 - 1, 'x')), "");
}

TEST(SessionNames, AreOfOneAlphabet) {
  for (const char* good : {"a", "A.b_c-9", "...", "0"}) EXPECT_TRUE(is_session_name(good)) << good;
  for (const char* bad : {"", ".", "..", "a/b", "a b", "\xC3\xA9", "a\n"})
    EXPECT_FALSE(is_session_name(bad)) << bad;
  EXPECT_TRUE(is_session_name(std::string(128, 'a')));
  EXPECT_FALSE(is_session_name(std::string(129, 'a')));
}

}  // namespace
}  // namespace caisson::grpc
