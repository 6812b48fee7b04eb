#include "cli/doctor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace caisson::cli {
namespace {

using engine::Check;
using engine::Health;
using engine::Way;

std::vector<Check> some_checks() {
  return {
      {"kernel", "walls", Health::Present, "6.18", "", {Way::Native}},
      {"swap limit", "memory", Health::Degraded, "not accounted", "boot with swapaccount=1", {}},
      {"runsc", "gVisor", Health::Missing, "not installed", "install runsc", {Way::Gvisor}}};
}

TEST(DoctorText, AlignedAndPlainWithoutATerminal) {
  const std::string text = doctor_text(some_checks(), Way::Native, Marks::Ascii, Colour::Off);
  EXPECT_EQ(text,
            "+ kernel      6.18\n"
            "! swap limit  not accounted\n"
            "              for: memory\n"
            "              try: boot with swapaccount=1\n"
            "- runsc       not installed\n"
            "              for: gVisor\n"
            "              try: install runsc\n"
            "\n"
            "+ native      can run here (the default for you)\n"
            "+ rootless    can run here\n"
            "- gvisor      cannot run here\n"
            "+ microvm     can run here\n");
}

TEST(DoctorText, ColoursAndMarksOnRequest) {
  const std::string text = doctor_text(some_checks(), Way::Native, Marks::Unicode, Colour::On);
  EXPECT_NE(text.find("\x1b[32m✓\x1b[0m kernel"), std::string::npos);
  EXPECT_NE(text.find("\x1b[31m✗\x1b[0m runsc"), std::string::npos);
}

TEST(DoctorText, NamesOfOthersCannotSteerTheTerminal) {
  std::vector<Check> checks = some_checks();
  checks[0].detail = "6.18\x1b]0;title\x07\n+ forged";
  const std::string text = doctor_text(checks, Way::Native, Marks::Ascii, Colour::Off);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\n+ forged"), std::string::npos);
}

TEST(DoctorJson, EscapesEveryByte) {
  std::vector<Check> checks = {
      {"a\"b\\", "p", Health::Missing, "\x01\n\xff", "r", {Way::Native, Way::Gvisor}}};
  engine::HostFeatures host;
  host.kernel_release = "6.18";
  host.landlock_abi = 7;
  EXPECT_EQ(doctor_json(checks, Way::Rootless, host),
            "{\"version\":\"" CAISSON_VERSION
            "\",\"kernel\":\"6.18\",\"landlock_abi\":7,\"default\":\"rootless\","
            "\"can_run\":{\"native\":false,\"rootless\":true,\"gvisor\":false,\"microvm\":true},"
            "\"checks\":[{\"name\":\"a\\\"b\\\\\",\"purpose\":\"p\",\"health\":\"missing\","
            "\"detail\":\"\\u0001\\u000a\\u00ff\",\"remedy\":\"r\",\"needed_for\":[\"native\","
            "\"gvisor\"]}]}\n");
}

}  // namespace
}  // namespace caisson::cli
