#include "control/vault.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

VaultPaths paths_in(const std::string& folder) {
  return {folder + "/secrets", folder + "/secrets.key", folder + "/authorities.key",
          folder + "/tokens.key"};
}

TEST(Vault, KeepsSecretsForTheNextServer) {
  const sys::TempDir folder;
  {
    auto vault = Vault::open(paths_in(folder.path()));
    ASSERT_TRUE(vault) << vault.error().message;
    EXPECT_TRUE((*vault)->names().empty());
    EXPECT_TRUE((*vault)->put("key", "a value"));
    EXPECT_FALSE((*vault)->put("no name", "x"));
    EXPECT_FALSE((*vault)->put("empty", ""));
  }
  auto again = Vault::open(paths_in(folder.path()));
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_NE((*again)->find("key"), nullptr);
  EXPECT_EQ((*again)->find("key")->expose(), "a value");
  EXPECT_EQ((*again)->find("other"), nullptr);
  EXPECT_EQ((*again)->remove("other").error().code, Errc::NotFound);
  EXPECT_TRUE((*again)->remove("key"));
  EXPECT_EQ((*again)->find("key"), nullptr);
}

TEST(Vault, AKeyThatOthersCanReadIsRefused) {
  const sys::TempDir folder;
  auto vault = Vault::open(paths_in(folder.path()));
  ASSERT_TRUE(vault);
  const std::string path = paths_in(folder.path()).token_key;
  std::ofstream(path) << std::string(64, 'k') << "\n";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ((*vault)->token_key().error().code, Errc::Denied);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE((*vault)->token_key());
}

TEST(Vault, WhatIsSealedBelongsToItsCertificate) {
  const sys::TempDir folder;
  std::string sealed;
  {
    auto vault = Vault::open(paths_in(folder.path()));
    ASSERT_TRUE(vault);
    const auto key = egress::Secret::copy_of("the key");
    auto made = (*vault)->seal("certificate", *key);
    ASSERT_TRUE(made) << made.error().message;
    sealed = *made;
    EXPECT_EQ(sealed.find("the key"), std::string::npos);
  }
  auto again = Vault::open(paths_in(folder.path()));
  ASSERT_TRUE(again);
  const auto opened = (*again)->unseal("certificate", sealed);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->expose(), "the key");
  EXPECT_FALSE((*again)->unseal("another", sealed));
  EXPECT_FALSE((*again)->unseal("certificate", "not base64!"));
}

TEST(Vault, TheKeyOfTokensMayBeSaid) {
  const sys::TempDir folder;
  VaultPaths paths = paths_in(folder.path());
  for (const std::size_t size : {std::size_t{0}, std::size_t{31}}) {
    paths.token_key_text = std::string(size, 'k');
    const auto refused = Vault::open(paths);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::InvalidArgument);
    EXPECT_NE(refused.error().message.find("at least 32"), std::string::npos);
  }
  paths.token_key_text = "00112233445566778899aabbccddeeff";  // its bytes, and not what it spells
  auto vault = Vault::open(paths);
  ASSERT_TRUE(vault) << vault.error().message;
  EXPECT_EQ((*(*vault)->token_key())->expose(), "00112233445566778899aabbccddeeff");
  EXPECT_FALSE(std::ifstream(paths.token_key).good());
}

}  // namespace
}  // namespace caisson::control
