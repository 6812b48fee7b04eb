#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "policy/capability_parser.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {
namespace {

class CapabilityFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "caisson-policy-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(std::string_view name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

TEST_F(CapabilityFile, AFifoOrAFolderIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const auto fifo = CapabilityParser::from_file(path("fifo"));
  ASSERT_FALSE(fifo);
  EXPECT_NE(fifo.error().message.find("is not a regular file"), std::string::npos);
  EXPECT_FALSE(CapabilityParser::from_file(path("")));
}

TEST_F(CapabilityFile, AMissingFileIsNotFound) {
  const auto result = CapabilityParser::from_file(path("missing"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::NotFound);
  EXPECT_TRUE(result.error().message.starts_with("capability validation error: open "));
}

TEST_F(CapabilityFile, ALongFileIsRefused) {
  std::ofstream(path("long")) << std::string(kCapabilityBytesMax + 1, '\n');
  const auto result = CapabilityParser::from_file(path("long"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("is larger than 65536 bytes"), std::string::npos);
}

TEST_F(CapabilityFile, IsReadAsTheSameText) {
  std::ofstream(path("good.yaml")) << "sandbox_tier: gvisor\n" << std::string(60000, '#');
  const auto result = CapabilityParser::from_file(path("good.yaml"));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->sandbox_tier, SandboxTier::Gvisor);
  const auto cut = CapabilityParser::from_file(path("good.yaml").append(1, '\0'));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Errc::InvalidArgument);
}

}  // namespace
}  // namespace caisson::policy
