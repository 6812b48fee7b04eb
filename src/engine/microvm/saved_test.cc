// What stands beside a machine that is kept.
#include "engine/microvm/saved.h"

#include <gtest/gtest.h>

namespace caisson::engine::microvm {
namespace {

const SavedAbout kAbout{"qemu 7", "0123", "image", "1.2.3.4", 3};

TEST(Saved, ItIsReadAsItWasWritten) {
  const auto read = parse_saved(to_text(kAbout));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, kAbout);
}

TEST(Saved, WhatIsMissingOrNoMachineHasIsRefused) {
  const std::string text = to_text(kAbout);
  EXPECT_FALSE(parse_saved(""));
  EXPECT_FALSE(parse_saved(text.substr(0, text.find("processors"))));
  for (const std::uint32_t processors : {0U, kProcessorsMax + 1}) {
    SavedAbout wrong = kAbout;
    wrong.processors = processors;
    EXPECT_FALSE(parse_saved(to_text(wrong))) << processors;
  }
}

}  // namespace
}  // namespace caisson::engine::microvm
