#include "egress/credentials/redactor.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/base64.h"

namespace caisson::egress {
namespace {

class Redaction : public ::testing::Test {
 protected:
  Redactor make(std::vector<std::pair<std::string, std::string>> secrets) {
    std::vector<NamedSecret> named;
    for (auto& [name, value] : secrets) {
      kept_.push_back(std::move(*Secret::copy_of(value)));
      named.push_back({name, nullptr});
    }
    for (std::size_t i = 0; i < named.size(); ++i)
      named[i].value = &kept_[kept_.size() - named.size() + i];
    auto out = Redactor::make(named);
    EXPECT_TRUE(out) << out.error().message;
    return out ? std::move(*out) : Redactor();
  }

 private:
  std::vector<Secret> kept_;
};

std::string in_pieces(const Redactor& redactor, std::string_view text, std::size_t step) {
  Redactor::Stream stream(redactor);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += step) out += stream.feed(text.substr(at, step));
  return out + stream.finish();
}

// --- what must not pass ---

TEST_F(Redaction, NoSecretPassesWhateverItsSpelling) {
  const std::string value = "sk-canary?>~0123456789";
  const Redactor redactor = make({{"KEY", value}});
  EXPECT_EQ(redactor.scrub("a " + value + value + " b"), "a [secret KEY][secret KEY] b");
  for (const std::string before : {"", "u", "us", "use", "user:"}) {
    for (const std::string after : {"", "!", "!!", "!!!"}) {
      std::string letters = to_base64(before + value + after);
      EXPECT_NE(redactor.scrub(letters).find("[secret KEY]"), std::string::npos) << letters;
      for (char& c : letters) c = c == '+' ? '-' : c == '/' ? '_' : c;
      EXPECT_NE(redactor.scrub(letters).find("[secret KEY]"), std::string::npos) << letters;
    }
  }
}

TEST_F(Redaction, NoBorderHidesASecret) {
  const std::string value = "aabaabaac-secret";
  const Redactor redactor = make({{"k", value}, {"longer", value + "-and-more"}});
  const std::string text = "xaab" + value + "aabaab" + value + "-and-more" + value + "-and-mor" +
                           to_base64("u:" + value) + "aabaabaa";
  const std::string whole = redactor.scrub(text);
  EXPECT_EQ(whole.find(value), std::string::npos);
  EXPECT_NE(whole.find("[secret longer]"), std::string::npos);
  for (std::size_t step = 1; step <= text.size(); ++step)
    EXPECT_EQ(in_pieces(redactor, text, step), whole) << step;
}

TEST_F(Redaction, TooManySecretsAreRefused) {
  const Secret value = std::move(*Secret::copy_of("0123456789"));
  std::vector<NamedSecret> many(kRedactedSecretsMax + 1, NamedSecret{"a", &value});
  EXPECT_FALSE(Redactor::make(many));
  many.pop_back();
  EXPECT_TRUE(Redactor::make(many));
}

// --- what must ---

TEST_F(Redaction, OtherTextPassesAtOnce) {
  const Redactor redactor = make({{"k", "secret-value"}});
  Redactor::Stream stream(redactor);
  EXPECT_EQ(stream.feed("data: {}\n\n"), "data: {}\n\n");
  EXPECT_EQ(stream.feed("the secre"), "the ");
  EXPECT_EQ(stream.feed("t-valve"), "secret-valve");
  EXPECT_EQ(stream.feed("secret-valu"), "");
  EXPECT_EQ(stream.finish(), "secret-valu");
}

TEST_F(Redaction, WithoutSecretsNothingChanges) {
  const Redactor none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.scrub("abc"), "abc");
  EXPECT_EQ(in_pieces(none, "abc", 1), "abc");
  const Redactor small = make({{"k", "abc"}});
  EXPECT_TRUE(small.empty()) << "too short to look for";
  EXPECT_EQ(small.scrub("abc"), "abc");
}

}  // namespace
}  // namespace caisson::egress
