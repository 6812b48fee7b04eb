// Finding files by name and lines by pattern: what must not be found, what must not hurt, and what
// is found.
#include <gtest/gtest.h>

#include <algorithm>

#include "init_channel.h"

namespace caisson::test {
namespace {

using engine::Listing;
using engine::Matches;

class InitSearch : public InitChannelTest {
 protected:
  Result<Listing> find_in(const std::string& path, const std::string& pattern,
                          std::vector<std::string> prune = {}) {
    return run(channel_->find(kUser, path, pattern, std::move(prune)));
  }
  // The names, one behind the other.
  std::string found(const std::string& pattern, std::vector<std::string> prune = {}) {
    auto listing = find_in("/mnt", pattern, std::move(prune));
    if (!listing) return "error: " + listing.error().message;
    std::string names;
    for (const auto& entry : listing->entries) names += entry.name + " ";
    return names;
  }
  Result<Matches> grep_in(const std::string& path, const std::string& pattern,
                          const std::string& glob = "", std::vector<std::string> prune = {},
                          std::size_t matches_max = 200) {
    return run(channel_->grep(kUser, path, pattern, glob, std::move(prune), matches_max));
  }
  // "name:line:text" each, with a bar behind it.
  std::string lines(const std::string& pattern, const std::string& glob = "",
                    std::vector<std::string> prune = {}, const std::string& path = "/mnt") {
    auto matches = grep_in(path, pattern, glob, std::move(prune));
    if (!matches) return "error: " + matches.error().message;
    std::string all;
    for (const auto& line : matches->lines)
      all += line.name + ":" + std::to_string(line.line) + ":" + line.text + "|";
    return all;
  }
  template <class T>
  static int errno_of(const Result<T>& result) {
    return result ? 0 : result.error().sys_errno;
  }
};

// ------------------------------------------------------------------------------- what must not
// work

TEST_F(InitSearch, AStartThatIsNoFolderIsAnError) {
  sh("echo secret > f; mkdir closed half; chmod 000 closed; chmod 444 half; mkfifo pipe");
  EXPECT_EQ(errno_of(find_in("/mnt/f", "*")), ENOTDIR);
  EXPECT_EQ(errno_of(find_in("/mnt/none", "*")), ENOENT);
  EXPECT_EQ(errno_of(find_in("/mnt/closed", "*")), EACCES);
  EXPECT_EQ(errno_of(find_in("/mnt/half", "*")), EACCES);
  EXPECT_EQ(errno_of(find_in("/mnt/pipe", "*")), ENOTDIR);
  EXPECT_EQ(errno_of(find_in("/proc/self", "*")), EACCES);
  EXPECT_EQ(errno_of(grep_in("/mnt/none", "x")), ENOENT);
  EXPECT_EQ(errno_of(grep_in("/mnt/closed", "x")), EACCES);
  EXPECT_EQ(errno_of(grep_in("/proc/sys", "x")), EACCES);
  EXPECT_EQ(lines("secret", "", {}, "/mnt/pipe"), "");
}

TEST_F(InitSearch, NoLinkIsFollowed) {
  sh("mkdir in out; echo secret > out/f; ln -s ../out in/folder; ln -s ../out/f in/file; "
     "ln -s in door");
  auto inside = find_in("/mnt/in", "**");
  ASSERT_TRUE(inside);
  ASSERT_EQ(inside->entries.size(), 2U);
  EXPECT_EQ(inside->entries[0].name, "file");
  EXPECT_EQ(inside->entries[0].type, wire::EntryType::Link);
  EXPECT_EQ(inside->entries[0].target, "../out/f");
  EXPECT_EQ(lines("secret", "", {}, "/mnt/in"), "");
  EXPECT_EQ(lines("secret", "", {}, "/mnt/in/file"), "");
  EXPECT_EQ(lines("secret", "", {}, "/mnt/in/folder"), "");
  // Only Find may begin at a link.
  EXPECT_EQ(find_in("/mnt/door", "f*")->entries.size(), 2U);
}

TEST_F(InitSearch, WhatIsNoFileIsNeverOpened) {
  sh("mkfifo pipe; echo secret > f; head -c 1000 /dev/zero > zeros; "
     "printf 'secret\\0' > binary; printf 'a\\0\\nsecret\\n' > late");
  const auto matches = grep_in("/mnt", "secret");
  ASSERT_TRUE(matches) << matches.error().message;
  ASSERT_EQ(matches->lines.size(), 1U);
  EXPECT_EQ(matches->lines[0].name, "f");
  EXPECT_EQ(matches->unreadable, 0U);
  EXPECT_FALSE(matches->truncated);
}

TEST_F(InitSearch, FilesThatMayNotBeReadAreCounted) {
  sh("mkdir shut; echo secret > shut/f; echo secret > a; echo secret > b; chmod 000 a; "
     "chmod 000 shut");
  const auto matches = grep_in("/mnt", "secret");
  ASSERT_TRUE(matches) << matches.error().message;
  ASSERT_EQ(matches->lines.size(), 1U);
  EXPECT_EQ(matches->lines[0].name, "b");
  EXPECT_EQ(matches->unreadable, 1U);  // the folder is passed over in silence
  EXPECT_EQ(grep_in("/mnt", "secret", "b")->unreadable, 0U);
  EXPECT_EQ(errno_of(grep_in("/mnt/a", "secret")), EACCES);
  EXPECT_EQ(found("**"), "a b shut ");
}

TEST_F(InitSearch, WhatIsNoPatternIsRefused) {
  sh("echo x > f");
  for (const char* pattern : {"(", "[a", "a{2", "[[:foo:]]", "\\"}) {
    const auto matches = grep_in("/mnt", pattern);
    ASSERT_FALSE(matches) << pattern;
    EXPECT_EQ(matches.error().code, Errc::InvalidArgument);
    EXPECT_EQ(matches.error().sys_errno, EINVAL);
    EXPECT_NE(matches.error().message.find("pattern"), std::string::npos);
  }
  EXPECT_EQ(grep_in("/mnt", std::string("a\0b", 3)).error().code, Errc::InvalidArgument);
  std::string deep = "a";
  for (int i = 0; i < 70; ++i) deep += "/a";
  EXPECT_EQ(errno_of(find_in("/mnt", deep)), E2BIG);
}

TEST_F(InitSearch, LongPatternsHaveALimit) {
  sh("echo x > f");
  const std::string most(wire::kPatternBytesMax - 2, 'x');
  EXPECT_TRUE(grep_in("/mnt", most));
  EXPECT_EQ(grep_in("/mnt", most + "x").error().code, Errc::InvalidArgument);
  const std::string name(wire::kPatternBytesMax - 1, 'x');
  EXPECT_TRUE(find_in("/mnt", name));
  EXPECT_EQ(find_in("/mnt", name + "x").error().code, Errc::InvalidArgument);
}

// A hostile expression fails alone: init and everybody else go on.
TEST_F(InitSearch, AHostilePatternEndsOnlyItself) {
  sh("head -c 2000 /dev/zero | tr '\\0' a > f");
  for (const char* pattern : {"((a{255}){255}){255}", "((a?){200}b?){200}",
                              "(((((a{1,255}){1,255}){1,255}){1,255}){1,255})"}) {
    const auto matches = grep_in("/mnt", pattern);
    ASSERT_FALSE(matches) << pattern;
    EXPECT_EQ(matches.error().sys_errno, EINVAL) << matches.error().message;
  }
  EXPECT_TRUE(grep_in("/mnt", "(a*)*b"));
  EXPECT_TRUE(grep_in("/mnt", "((a+a+)+b){20}"));
  const std::string nested = std::string(20000, '(') + "a" + std::string(20000, ')');
  (void)grep_in("/mnt", nested);
  (void)find_in("/mnt", "*" + std::string(60000, '['));
  EXPECT_TRUE(run(channel_->ping()));
}

// A guest swaps a folder for a link in a loop; no search leaves the tree.
TEST_F(InitSearch, ASwappedFolderLeadsNowhere) {
  sh("mkdir -p tree/sub outside; echo secret > outside/secret; echo plain > tree/sub/plain");
  const auto swapper = begin(channel_->execute(
      command("while :; do rm -rf tree/sub; ln -s ../outside tree/sub; rm -f tree/sub; "
              "mkdir tree/sub; echo plain > tree/sub/plain; done 2>/dev/null")));
  for (int i = 0; i < 200; ++i) {
    const auto names = find_in("/mnt/tree", "**");
    ASSERT_TRUE(names) << names.error().message;
    for (const auto& entry : names->entries) EXPECT_NE(entry.name, "sub/secret");
    const auto matches = grep_in("/mnt/tree", "secret");
    ASSERT_TRUE(matches) << matches.error().message;
    EXPECT_TRUE(matches->lines.empty());
  }
  EXPECT_FALSE(swapper->has_value());
}

// ------------------------------------------------------------------------------------------- find

TEST_F(InitSearch, FindsByPattern) {
  sh("mkdir -p a/b/c .git/x d.egg-info; touch a/1.py a/b/2.py a/b/c/3.py .hidden.py top.py "
     ".git/x/y.py d.egg-info/z.py 'a/two\nlines.py'; ln -s a/1.py link.py");
  EXPECT_EQ(found("*.py"), ".hidden.py link.py top.py ");
  EXPECT_EQ(found("**/*.py", {".git", "*.egg-info"}),
            ".hidden.py a/1.py a/b/2.py a/b/c/3.py a/two\nlines.py link.py top.py ");
  EXPECT_EQ(found("a/**"), "a/1.py a/b a/b/2.py a/b/c a/b/c/3.py a/two\nlines.py ");
  EXPECT_EQ(found("a/*/*.py"), "a/b/2.py ");
  EXPECT_EQ(found("**/c"), "a/b/c ");
  EXPECT_EQ(found("/mnt/*"), "");
  EXPECT_EQ(found("./*"), "");
  EXPECT_EQ(found("a/"), "");
  EXPECT_EQ(found(""), "");
  // Pruning is for folders below the start, whatever the start is called.
  EXPECT_EQ(find_in("/mnt/.git", "**", {".git"})->entries.size(), 2U);
  EXPECT_EQ(found("top.py", {"top.py"}), "top.py ");
}

TEST_F(InitSearch, FindTellsWhatAnEntryIs) {
  sh("mkdir d; echo hello > d/f; chmod 640 d/f");
  const auto listing = find_in("/mnt", "d/*");
  ASSERT_TRUE(listing);
  ASSERT_EQ(listing->entries.size(), 1U);
  const auto& entry = listing->entries[0];
  EXPECT_EQ(entry.type, wire::EntryType::File);
  EXPECT_EQ(entry.mode, 0640U);
  EXPECT_EQ(entry.size, 6U);
  EXPECT_EQ(entry.depth, 1U);
  EXPECT_GT(entry.ctime_ns, 0);
}

TEST_F(InitSearch, TooDeepIsALimit) {
  sh("i=0; while [ $i -lt 70 ]; do mkdir d; cd d; i=$((i+1)); done");
  EXPECT_EQ(find_in("/mnt", "**").error().code, Errc::Exhausted);
  EXPECT_EQ(grep_in("/mnt", "x").error().code, Errc::Exhausted);
  EXPECT_EQ(find_in("/mnt", "d/d/d")->entries.size(), 1U);  // it need not go down so far
}

// ------------------------------------------------------------------------------------------- grep

TEST_F(InitSearch, GrepShowsLinesInTheOrderOfNames) {
  sh("mkdir -p b/c .git node_modules; printf 'import os\\nno\\n  import sys\\n' > b/c/1.py; "
     "printf 'import a' > a.py; printf 'import z\\r\\n' > z.txt; echo import > .git/f; "
     "echo import > node_modules/f; : > empty");
  EXPECT_EQ(lines("import", "", {".git", "node_mod*"}),
            "a.py:1:import a|b/c/1.py:1:import os|b/c/1.py:3:  import sys|z.txt:1:import z\r|");
  EXPECT_EQ(lines("import", "*.py", {".git"}),
            "a.py:1:import a|b/c/1.py:1:import os|b/c/1.py:3:  import sys|");
  EXPECT_EQ(lines("^import [a-o]", "*.py"), "a.py:1:import a|b/c/1.py:1:import os|");
  EXPECT_EQ(lines("sys$|^no$", "*.py"), "b/c/1.py:2:no|b/c/1.py:3:  import sys|");
  EXPECT_EQ(lines("nothing", "*.py"), "");
  EXPECT_EQ(lines("", "a.py"), "a.py:1:import a|");
  EXPECT_EQ(lines("import", "", {}, "/mnt/a.py"), ":1:import a|");
  EXPECT_EQ(lines("import", "*.txt", {}, "/mnt/a.py"), "");
  EXPECT_EQ(lines("import", "", {".git"}, "/mnt/.git"), "f:1:import|");
  EXPECT_EQ(lines("import a\nno", "*.py"), "a.py:1:import a|b/c/1.py:2:no|");
  EXPECT_EQ(lines("\\bos\\b", "*.py"), "b/c/1.py:1:import os|");
}

TEST_F(InitSearch, GrepAgreesWithGrep) {
  sh("i=0; while [ $i -lt 60 ]; do mkdir -p t/$((i%7)); "
     "for n in 1 2 3; do echo \"line $n of file $i: $((i*n*7919)) foo_$n(bar)\"; done "
     "> t/$((i%7))/f$i; i=$((i+1)); done");
  for (const char* pattern :
       {"foo", "foo_2", "foo_[23]", "1[0-9]{3}", "^line 1", "bar\\)$", "7|9$", "(of|file) 5",
        "fil(e)+ 1", "n*o", "file 3.*2", "x?y?2 of", "[^0-9]7"}) {
    const std::string theirs = sh("cd t; LC_ALL=C grep -rnE -- '" + std::string(pattern) +
                                  "' . | sed 's,^\\./,,' | LC_ALL=C sort -t: -k1,1 -k2,2n");
    const auto matches = grep_in("/mnt/t", pattern, "", {}, 1000);
    ASSERT_TRUE(matches) << matches.error().message;
    std::string ours;
    for (const auto& line : matches->lines)
      ours += line.name + ":" + std::to_string(line.line) + ":" + line.text + "\n";
    EXPECT_EQ(ours, theirs) << pattern;
  }
}

TEST_F(InitSearch, GrepKnowsCharactersAndStillReadsOtherText) {
  sh("printf 'gr\\303\\274n\\n' > utf8; printf 'gr\\374n\\n' > latin1");
  EXPECT_EQ(lines("gr.n", "utf8"), "utf8:1:gr\xc3\xbcn|");
  EXPECT_EQ(lines("gr[\xc3\xbc\xc3\xb6]n"), "utf8:1:gr\xc3\xbcn|");
  EXPECT_EQ(lines("gr.n", "latin1"), "latin1:1:gr\xfcn|");
  EXPECT_EQ(lines("n$"), "latin1:1:gr\xfcn|utf8:1:gr\xc3\xbcn|");
  EXPECT_EQ(lines("gr\xfcn"), "latin1:1:gr\xfcn|");
  EXPECT_EQ(lines("gr\xc3\xbc+n"), "utf8:1:gr\xc3\xbcn|");
}

TEST_F(InitSearch, MatchesHaveALimitThatIsTold) {
  sh("i=0; while [ $i -lt 10 ]; do echo hit; i=$((i+1)); done > f");
  EXPECT_FALSE(grep_in("/mnt", "hit", "", {}, 10)->truncated);
  const auto cut = grep_in("/mnt", "hit", "", {}, 9);
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->truncated);
  EXPECT_EQ(cut->lines.size(), 9U);
  EXPECT_TRUE(grep_in("/mnt", "hit", "", {}, 0)->truncated);
}

TEST_F(InitSearch, LongLinesAreCutAndVeryLongOnesAreNoText) {
  write("/mnt/a", "hit" + std::string(wire::kMatchTextMax - 4, 'x') + "\xe2\x82\xac\n");
  write("/mnt/b", std::string(3UL * 1024 * 1024, 'x') + "hit\n");
  // Lines across the border of a window are whole, and counted.
  std::string content;
  int last = 0;
  while (content.size() < 3'000'000) content += "line " + std::to_string(++last) + "\n";
  write("/mnt/c", content + "hit");
  const auto matches = grep_in("/mnt", "hit");
  ASSERT_TRUE(matches) << matches.error().message;
  ASSERT_EQ(matches->lines.size(), 2U);
  EXPECT_EQ(matches->lines[0].text.size(), wire::kMatchTextMax - 1);
  EXPECT_EQ(matches->lines[1].name, "c");
  EXPECT_EQ(matches->lines[1].line, static_cast<std::uint64_t>(last) + 1);
  const auto every = grep_in("/mnt", "^line [0-9]+$", "c", {}, 1'000'000);
  ASSERT_TRUE(every);
  EXPECT_TRUE(every->truncated || every->lines.size() == static_cast<std::size_t>(last));
  for (std::size_t i = 0; i < every->lines.size(); ++i) {
    ASSERT_EQ(every->lines[i].text, "line " + std::to_string(i + 1));
    ASSERT_EQ(every->lines[i].line, i + 1);
  }
}

}  // namespace
}  // namespace caisson::test
