#include "control/blocklist.h"

#include <gtest/gtest.h>

#include "control/open_fleet.h"

namespace caisson::control {
namespace {

TEST(Blocklist, TheDefaultsStopAccidents) {
  const auto list = Blocklist::compile(default_blocklist());
  ASSERT_TRUE(list) << list.error().message;
  for (const char* line : {"rm -rf /",
                           "rm -fr /",
                           "rm -r -f /",
                           "rm -rf /*",
                           "sudo rm -rf / ",
                           "rm -rf / ; echo",
                           "rm -rf --no-preserve-root /",
                           "rm --no-preserve-root -rf /",
                           "rm -Rf //",
                           "shutdown",
                           "shutdown -h now",
                           "/sbin/reboot",
                           "echo a; halt",
                           "poweroff &",
                           "init 0",
                           ":(){ :|:& };:",
                           ": () { : | : & } ; :",
                           "mkfs.ext4 /dev/sda1",
                           "mkfs -t ext4 x",
                           "dd if=/dev/zero of=/dev/sda",
                           "dd bs=1M of=/dev/nvme0n1 if=x"}) {
    EXPECT_TRUE(list->match(line)) << line;
  }
}

TEST(Blocklist, TheDefaultsLeaveOrdinaryWorkAlone) {
  const auto list = Blocklist::compile(default_blocklist());
  ASSERT_TRUE(list);
  for (const char* line :
       {"rm -rf build", "rm -rf /tmp/x", "rm -rf ./", "rm file", "ls /", "echo shutdowns",
        "grep halting x", "cat reboot.txt", "dd if=/dev/zero of=/tmp/x", "dd if=a of=/dev/null",
        "python3 -c 'print(1)'", "make -j2", "initialise 0", "git rm -r docs"}) {
    EXPECT_FALSE(list->match(line)) << line << ": " << *list->match(line);
  }
}

TEST(Blocklist, BytesThatAreNoUtf8AreJudgedToo) {
  const auto list = Blocklist::compile({"forbidden"});
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->match("\xff\xfe forbidden \x80"));
}

TEST(Blocklist, BadPatternsAreNamed) {
  const auto list = Blocklist::compile({"(unclosed"});
  ASSERT_FALSE(list);
  EXPECT_EQ(list.error().code, Errc::InvalidArgument);
  EXPECT_NE(list.error().message.find("(unclosed"), std::string::npos);
}

TEST(Blocklist, HasLimits) {
  EXPECT_FALSE(Blocklist::compile(std::vector<std::string>(kPatternsMax + 1, "x")));
  EXPECT_FALSE(Blocklist::compile({std::string(kPatternBytesMax + 1, 'x')}));
  const auto none = Blocklist::compile({});
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->match("rm -rf /"));
}

}  // namespace
}  // namespace caisson::control
