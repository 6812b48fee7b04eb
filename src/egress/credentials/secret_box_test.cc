#include "egress/credentials/secret_box.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <type_traits>

#include "egress/credentials/seal.h"
#include "egress/credentials/secret_file.h"
#include "sys/temp_dir_test.h"

namespace caisson::egress {
namespace {

using sys::TempDir;

template <class T>
concept Prints = requires(std::ostream& out, const T& value) { out << value; };

static_assert(!std::is_copy_constructible_v<Secret> && !std::is_copy_assignable_v<Secret>);
static_assert(!Prints<Secret> && !fmt::is_formattable<Secret>::value);
static_assert(!std::is_convertible_v<Secret, std::string_view>);

Secret secret(std::string_view text) { return std::move(*Secret::copy_of(text)); }

unsigned mode_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777U : 0;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Box : public ::testing::Test {
 protected:
  TempDir dir;
  std::string file = dir.path("secrets");
  std::string key = dir.path("key");

  Result<SecretBox> open() { return SecretBox::open(file, key); }
  void fill() {
    auto box = open();
    ASSERT_TRUE(box) << box.error().message;
    ASSERT_TRUE(box->put("one", secret("first value")));
    ASSERT_TRUE(box->put("two", secret("second value")));
  }
  void expect_refused(std::string_view part) {
    const auto box = open();
    ASSERT_FALSE(box);
    EXPECT_NE(box.error().message.find(part), std::string::npos) << box.error().message;
    EXPECT_EQ(box.error().message.find("value"), std::string::npos) << "no secret in an error";
  }
  void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  }
};

// --- what must not pass ---

TEST_F(Box, FilesThatOthersCanReadAreRefused) {
  fill();
  for (const std::string& path : {file, key}) {
    for (const unsigned mode : {0640U, 0604U, 0620U, 0602U, 0660U}) {
      ASSERT_EQ(::chmod(path.c_str(), mode), 0);
      expect_refused("chmod 600");
    }
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  }
  EXPECT_TRUE(open());
}

TEST_F(Box, LinksAndFoldersAreRefused) {
  fill();
  std::filesystem::rename(key, key + ".real");
  std::filesystem::create_symlink(key + ".real", key);
  EXPECT_FALSE(open());
  std::filesystem::remove(key);
  std::filesystem::create_directory(key);
  EXPECT_FALSE(open());
}

TEST_F(Box, AMissingKeyIsNotMadeAnew) {
  fill();
  std::filesystem::remove(key);
  expect_refused("is not there; bring it back");
  EXPECT_FALSE(std::filesystem::exists(key));
  write(key, std::string(kSealKeyBytes, 'k'));
  expect_refused("does not open");
  write(key, "short");
  expect_refused("is not a key of 32 bytes");
  write(key, std::string(kSealKeyBytes + 1, 'k'));
  expect_refused("more than 32 bytes");
}

TEST_F(Box, AChangedFileIsFoundOut) {
  fill();
  const std::string good = text_of(file);
  for (std::size_t i = good.find('\n') + 1; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == 'x' ? 'y' : 'x';
    write(file, bad);
    EXPECT_FALSE(open()) << i;
  }
  write(file, good.substr(0, good.size() - 1));
  expect_refused("was cut");
  write(file, "");
  expect_refused("not a file of secrets");
  const std::size_t line = good.find('\n', good.find("one ")) + 1;
  write(file, good + good.substr(good.find("one "), line - good.find("one ")));
  expect_refused("is there twice");
  write(file, good);
  EXPECT_TRUE(open());
}

// One entry under the name of another: the name is part of what is sealed.
TEST_F(Box, AnEntryDoesNotOpenUnderAnotherName) {
  fill();
  std::string text = text_of(file);
  text.replace(text.find("one "), 4, "ONE ");
  write(file, text);
  expect_refused("does not open");
}

TEST_F(Box, NamesAndValuesHaveLimits) {
  auto box = open();
  ASSERT_TRUE(box);
  EXPECT_FALSE(box->put("", secret("x")));
  EXPECT_FALSE(box->put("a b", secret("x")));
  EXPECT_FALSE(box->put("a\nb", secret("x")));
  EXPECT_FALSE(box->put("a", secret("")));
  const auto large = box->put("a", secret(std::string(kStoredSecretBytesMax + 1, 'x')));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Errc::TooLarge);
  EXPECT_TRUE(box->put("a", secret(std::string(kStoredSecretBytesMax, 'x'))));
  EXPECT_EQ(Secret::of_size(kSecretBytesMax + 1).error().code, Errc::TooLarge);
  EXPECT_EQ(box->remove("b").error().code, Errc::NotFound);
}

TEST_F(Box, HoldsSoManyAndNoMore) {
  auto box = open();
  ASSERT_TRUE(box);
  for (std::size_t i = 0; i < kSecretsMax; ++i)
    ASSERT_TRUE(box->put("s" + std::to_string(i), secret("v")));
  const auto more = box->put("more", secret("v"));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::Exhausted);
  EXPECT_TRUE(box->put("s0", secret("w"))) << "replacing needs no room";
}

TEST(SecretMemory, IsUsedUpWithAnErrorAndGivenBack) {
  std::vector<Secret> all;
  for (std::size_t i = 0; i <= kLockedBytesMax / kSecretBytesMax; ++i) {
    auto one = Secret::of_size(kSecretBytesMax);
    if (!one) {
      EXPECT_EQ(one.error().code, Errc::Exhausted);
      break;
    }
    all.push_back(std::move(*one));
  }
  EXPECT_LE(all.size(), kLockedBytesMax / kSecretBytesMax);
  EXPECT_FALSE(Secret::of_size(kSecretBytesMax));
  all.clear();
  EXPECT_TRUE(Secret::of_size(kSecretBytesMax));
}

TEST(SecretFile, KeysOfPeopleAreReadStrictly) {
  const TempDir dir;
  const std::string path = dir.path("jwt");
  EXPECT_EQ(read_key_text(path, 32).error().code, Errc::NotFound);
  ASSERT_TRUE(write_private(path, "0123456789abcdef0123456789abcdef\r\n", Replace::No));
  EXPECT_EQ(mode_of(path), 0600U);
  EXPECT_EQ(read_key_text(path, 32)->size(), 32U);
  EXPECT_FALSE(read_key_text(path, 33));
  EXPECT_EQ(write_private(path, "x", Replace::No).error().code, Errc::AlreadyExists);
  ASSERT_TRUE(write_private(path, "x", Replace::Yes));
  EXPECT_EQ(read_key_text(path, 1)->expose(), "x");
  ASSERT_TRUE(write_private(path, std::string(kSecretBytesMax, 'x'), Replace::Yes));
  EXPECT_FALSE(read_key_text(path, 1));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1)
      << "no draft is left behind";
}

// --- what must ---

TEST_F(Box, KeepsWhatWasPut) {
  fill();
  EXPECT_EQ(mode_of(file), 0600U);
  EXPECT_EQ(mode_of(key), 0600U);
  EXPECT_EQ(text_of(key).size(), kSealKeyBytes);
  auto box = open();
  ASSERT_TRUE(box) << box.error().message;
  EXPECT_EQ(box->names(), (std::vector<std::string>{"one", "two"}));
  ASSERT_NE(box->find("one"), nullptr);
  EXPECT_TRUE(box->find("one")->equals("first value"));
  EXPECT_EQ(box->find("three"), nullptr);
  ASSERT_TRUE(box->put("one", secret("new")));
  ASSERT_TRUE(box->remove("two"));
  EXPECT_EQ(open()->names(), std::vector<std::string>{"one"});
  EXPECT_EQ(open()->find("one")->expose(), "new");
}

TEST_F(Box, TheFileHoldsNoSecretAndNoRepetition) {
  auto box = open();
  ASSERT_TRUE(box->put("a", secret("canary-canary-canary")));
  ASSERT_TRUE(box->put("b", secret("canary-canary-canary")));
  const std::string text = text_of(file);
  EXPECT_EQ(text.find("canary"), std::string::npos);
  const std::size_t a = text.find("a ", text.find('\n'));
  const std::size_t b = text.find("\nb ");
  EXPECT_NE(text.substr(a + 2, b - a - 2), text.substr(b + 3, b - a - 2));
}

TEST_F(Box, TwoUsersDoNotLoseEachOthersSecrets) {
  auto first = open();
  auto second = open();
  ASSERT_TRUE(first->put("a", secret("1")));
  ASSERT_TRUE(second->put("b", secret("2")));
  EXPECT_EQ(second->names(), (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(first->reload());
  EXPECT_EQ(first->names(), second->names());
}

TEST_F(Box, AFailedReloadChangesNothing) {
  fill();
  auto box = open();
  write(file, "damaged\n");
  EXPECT_FALSE(box->reload());
  EXPECT_FALSE(box->put("three", secret("x")));
  EXPECT_EQ(box->names().size(), 2U);
}

TEST(Secret, ComparesMovesAndIsCut) {
  Secret a = secret("abc");
  EXPECT_TRUE(a.equals("abc"));
  EXPECT_FALSE(a.equals("abd"));
  EXPECT_FALSE(a.equals("ab"));
  Secret b = std::move(a);
  EXPECT_EQ(b.expose(), "abc");
  const Secret c = std::move(*b.clone());
  b.cut(1);
  EXPECT_EQ(b.expose(), "a");
  EXPECT_EQ(c.expose(), "abc");
}

}  // namespace
}  // namespace caisson::egress
