#include "control/edit_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "control/edit_file.h"
#include "control/search_files.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

EditFault fault_of(std::string_view text, std::string old_text) {
  const auto out = edit_text(text, std::move(old_text), "x", EditScope::One);
  EXPECT_FALSE(out);
  return out.error().fault;
}

TEST(EditText, OneIsMeantUnlessAllAre) {
  EXPECT_EQ(edit_text("a b", "b", "c", EditScope::One)->text, "a c");
  EXPECT_EQ(edit_text("b b", "b", "c", EditScope::All)->occurrences, 2U);
  EXPECT_EQ(fault_of("b b", "b"), EditFault::Several);
  EXPECT_EQ(fault_of("a", "b"), EditFault::NotFound);
  EXPECT_EQ(fault_of("a\nb", "b\n"), EditFault::LastLine);
}

template <class T>
std::string field(const Result<T>& result) {
  return result ? "(no error)" : result.error().field;
}

json::object object(std::string_view text) { return json::parse(text).as_object(); }

TEST(FileEdit, WrongArgumentsAreNamed) {
  EXPECT_EQ(field(file_edit_arguments(object(R"({"path": "a"})"))), "arguments.old_text");
  EXPECT_EQ(field(file_edit_arguments(object(R"({"path": "a", "old_text": "", "new_text": "b"})"))),
            "arguments.old_text");
  EXPECT_EQ(
      field(file_edit_arguments(object(R"({"path": "a", "old_text": "b", "new_text": "b"})"))),
      "arguments.new_text");
}

TEST(FileSearch, SaysWhatItLooksFor) {
  EXPECT_EQ(field(file_search_arguments(object("{}"))), "arguments.pattern");
  EXPECT_EQ(field(file_search_arguments(object(R"({"pattern": ""})"))), "arguments.pattern");
  EXPECT_EQ(field(file_search_arguments(object(R"({"pattern": "a", "glob": "b/*.c"})"))),
            "arguments.glob");
  EXPECT_EQ(field(file_search_arguments(object(R"({"glob": "/etc/*"})"))), "arguments.glob");
  EXPECT_EQ(field(file_search_arguments(object(R"({"glob": "*", "max_results": 1001})"))),
            "arguments.max_results");
  EXPECT_EQ(field(file_search_arguments(object(R"({"glob": "*", "exclude": [1]})"))),
            "arguments.exclude");
  EXPECT_EQ(file_search_arguments(object(R"({"glob": "*", "path": "../x"})")).error().code,
            Errc::Denied);
  const auto search = file_search_arguments(object(R"({"pattern": "a", "glob": "**/*.py"})"));
  ASSERT_TRUE(search);
  EXPECT_EQ(search->glob, "*.py");
  EXPECT_EQ(search->path, "/workspace");
  EXPECT_EQ(search->exclude.size(), 6U);
}

}  // namespace
}  // namespace caisson::control
