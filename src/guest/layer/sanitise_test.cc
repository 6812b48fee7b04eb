// What the members of anybody's archive must not do, then what becomes of them.
#include "guest/layer/sanitise.h"

#include <gtest/gtest.h>

#include "guest/layer/sanitise_kit_test.h"

namespace caisson::layer {
namespace {

// --------------------------------------------------------------------------------------- names

TEST(Sanitise, NamesThatLeadElsewhereRefuseTheArchive) {
  for (const char* name : {"/etc/passwd", "/", "//x", ".//x", "././/x", "../x", "a/../x", "a/..",
                           "..", "./..", "a/./../b", "a//../b"}) {
    expect_refused(Tar().file("good", "x").file(name, "x").end(), std::string("'") + name + "'");
  }
  expect_refused(Tar().folder("/").end(), "absolute");
  expect_refused(Tar().link("/l", "x").end(), "absolute");
  expect_refused(Tar().hard("../l", "x").end(), "'..'");
  expect_refused(Tar().header({.name = "/dev/null", .type = '3'}).end(), "absolute");
  expect_refused(Tar().pax({{"path", "a/../../evil"}}).file("good").end(), "'..'");
  expect_refused(Tar().extension('L', "/evil").file("good").end(), "absolute");
  expect_refused(Tar().header({.name = "evil", .prefix = ".."}).end(), "'..'");
  expect_refused(Tar().pax({{"path", std::string("a\0b", 3)}}).file("x").end(), "path");
}

TEST(Sanitise, OddNamesAreMadePlain) {
  expect_kept(Tar()
                  .folder("./")
                  .folder(".")
                  .folder("./.")
                  .file("././a", "1")
                  .file("b//c", "2")
                  .file("b/./d", "3")
                  .file("./b/.//./e/", "4")
                  .file("...", "5")
                  .file("..f", "6")
                  .file("g..", "7")
                  .file(" ", "8")
                  .file("-rf", "9")
                  .file("new\nline", "10")
                  .file("latin-\xe9", "11")
                  .file("back\\slash", "12")
                  .folder("h/."),
              {" ", "-rf", "...", "..f", "a", "b", "b/c", "b/d", "b/e", "back\\slash", "g..", "h",
               "latin-\xe9", "new\nline"},
              0);
}

TEST(Sanitise, TheRootIsNoMember) {
  expect_kept(Tar().file(".", "x").link("./", "a").hard(".", "a").folder("."), {}, 3);
}

TEST(Sanitise, NamesAndDepthHaveLimits) {
  const std::string long_name(kNameBytesMax, 'n');
  expect_kept(Tar().pax({{"path", long_name}}).file("x", "1"), {long_name}, 0);
  expect_refused(Tar().pax({{"path", long_name + "n"}}).file("x").end(), "at most 255");
  std::string deep;
  for (std::size_t i = 1; i < kMemberDepthMax; ++i) deep += "d/";
  Seed deepest(Tar().pax({{"path", deep + "x"}}).file("x").end());
  const auto done = deepest.run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->entries, kMemberDepthMax);
  expect_refused(Tar().pax({{"path", deep + "d/x"}}).file("x").end(), "65 folders deep");
  std::string wide;
  while (wide.size() + 251 <= kMemberBytesMax) wide += std::string(250, 'w') + "/";
  const std::string fits = wide + std::string(kMemberBytesMax - wide.size(), 'w');
  EXPECT_TRUE(Seed(Tar().pax({{"path", fits}}).file("x").end()).run());
  expect_refused(Tar().pax({{"path", fits + "w"}}).file("x").end(), "at most 3072");
}

TEST(Sanitise, AReasonIsSeenBehindALongName) {
  const std::string name = "../" + std::string(4000, 'x');
  expect_refused(Tar().pax({{"path", name}}).file("x").end(), "…' has a '..'");
}

// --------------------------------------------------------------------------------------- kinds

TEST(Sanitise, WhatIsNeitherFileNorFolderIsLeftOut) {
  expect_kept(Tar()
                  .file("f", "x")
                  .hard("h", "f")
                  .hard("outside", "/etc/passwd")
                  .header({.name = "null", .type = '3', .device_major = 1, .device_minor = 3})
                  .header({.name = "whiteout", .type = '3'})
                  .header({.name = "sda", .type = '4', .device_major = 8})
                  .header({.name = "fifo", .type = '6'})
                  .header({.name = "/a label/..", .type = 'V'})
                  .header({.name = "dump", .type = 'D', .size = 600})
                  .data(std::string(600, 'd'))
                  .header({.name = "socket", .type = 's'})
                  .header({.name = "contiguous", .type = '7', .size = 1})
                  .data("y")
                  .header({.name = "oldest", .type = '\0', .size = 1})
                  .data("z")
                  .header({.name = "oldest folder/", .type = '\0'}),
              {"contiguous", "f", "oldest", "oldest folder"}, 9);
}

// What lies below something that was left out gets a folder of its own.
TEST(Sanitise, MissingFoldersAreMade) {
  Seed seed(Tar().file("a/b/c", "x").link("out", "/etc").file("out/passwd", "y").end());
  ASSERT_TRUE(seed.run());
  EXPECT_EQ(seed.paths(), (Paths{"a", "a/b", "a/b/c", "out", "out/passwd"}));
  EXPECT_EQ(seed.mode("a/b"), S_IFDIR | 0755U);
  EXPECT_EQ(seed.mode("out"), S_IFDIR | 0755U);
  EXPECT_EQ(seed.files(), (Files{{"a/b/c", "x"}, {"out/passwd", "y"}}));
}

TEST(Sanitise, ModesAreTamed) {
  const std::map<std::uint32_t, std::uint32_t> files{{0700, 0755},  {0600, 0644},  {0, 0644},
                                                     {04711, 0755}, {0666, 0666},  {0010, 0755},
                                                     {07777, 0777}, {06644, 0644}, {0464, 0664}};
  for (const auto& [mode, wanted] : files) EXPECT_EQ(tame_mode(mode, false), wanted) << mode;
  EXPECT_EQ(tame_mode(0, true), 0755U);
  EXPECT_EQ(tame_mode(03770, true), 0775U);
  EXPECT_EQ(tame_mode(01777, true), 0777U);
  Seed seed(Tar().folder("d", 01700).file("d/f", "x", 04711).end());
  ASSERT_TRUE(seed.run());
  EXPECT_EQ(seed.mode("d"), S_IFDIR | 0755U);
  EXPECT_EQ(seed.mode("d/f"), S_IFREG | 0755U);
}

// ----------------------------------------------------------------------------------- duplicates

TEST(Sanitise, OfTwoFilesTheLastCountsAndItsPlaceIsTold) {
  Seed seed(Tar().file("f", "old").file("./f", "new one", 0755).file("g", "x").end());
  const auto done = seed.run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(seed.files(), (Files{{"f", "new one"}, {"g", "x"}}));
  EXPECT_EQ(seed.mode("f"), S_IFREG | 0755U);
  EXPECT_EQ(done->conflicts, 0U);
  Home tree;
  ASSERT_TRUE(tree.unpack(seed.written));
  EXPECT_EQ(tree.read("out/root/f"), "new one");
}

TEST(Sanitise, FilesAndFoldersOfOneName) {
  expect_kept(Tar().file("x", "1").folder("x").file("x/y", "2"), {"x", "x/y"}, 0);
  expect_kept(Tar().folder("x").file("x", "1"), {"x"}, 1);
  expect_kept(Tar().file("x/y", "1").file("x", "2"), {"x", "x/y"}, 1);
  expect_kept(Tar().file("x", "1").file("x/y", "2").file("x/y/z", "3"), {"x"}, 2);
  expect_kept(Tar().folder("x", 0700).folder("x", 0777), {"x"}, 0);
  Seed seed(Tar().folder("x", 0700).folder("x", 0777).file("f", "1").folder("f").end());
  ASSERT_TRUE(seed.run());
  EXPECT_EQ(seed.mode("x"), S_IFDIR | 0777U);
  EXPECT_EQ(seed.mode("f"), S_IFDIR | 0755U);
}

// ---------------------------------------------------------------------------------------- links

TEST(Sanitise, LinksThatStayInsideAreKept) {
  Seed seed(Tar()
                .folder("d")
                .file("d/f", "x")
                .link("a", "d/f")
                .link("d/b", "../d/./f")
                .link("c", "d")
                .link("d/e", "..")
                .link("self", ".")
                .link("nowhere", "not/there")
                .link("slash", "d/")
                .link("chain", "a")
                .link("back", "d/../d/f")
                .end());
  const auto done = seed.run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->conflicts, 0U);
  EXPECT_EQ(seed.mode("a"), S_IFLNK | 0777U);
  const Files wanted{{"a", "d/f"},   {"back", "d/../d/f"},     {"c", "d"},
                     {"chain", "a"}, {"d/b", "../d/./f"},      {"d/e", ".."},
                     {"d/f", "x"},   {"nowhere", "not/there"}, {"self", "."},
                     {"slash", "d/"}};
  EXPECT_EQ(seed.files(), wanted);
}

TEST(Sanitise, LinksThatLeadElsewhereAreLeftOut) {
  expect_kept(Tar()
                  .folder("d")
                  .link("a", "/etc/passwd")
                  .link("b", "..")
                  .link("c", "d/../../x")
                  .link("d/e", "../../x")
                  .link("f", "../" + std::string(90, 'x'))
                  .header({.name = "empty", .type = '2'})
                  .pax({{"linkpath", "../../../etc"}})
                  .link("g", "d"),
              {"d"}, 7);
}

TEST(Sanitise, ALinkDoesNotLeadThroughALink) {
  expect_kept(Tar().folder("d").link("l", "d").link("x", "l/f").link("y", "l/../f").link("z", "l"),
              {"d", "l", "z"}, 2);
}

// The text of the first stays inside; with the second in its way it would lead to the folder above.
TEST(Sanitise, ALaterLinkDoesNotBendAnEarlierOne) {
  expect_kept(Tar().folder("p/q").link("p/q/x", "d/../../y").link("p/q/d", "../.."),
              {"p", "p/q", "p/q/x"}, 1);
  expect_kept(Tar().link("p/q/x", "d/e/../../../y").link("p/q/d", ".").link("p/q/d/e", ".."),
              {"p", "p/q", "p/q/x"}, 2);
  expect_kept(Tar().link("x", "x/../../y"), {}, 1);
  expect_kept(Tar().link("p/x", "x/../y"), {}, 1);
  // Without a way back up there is nothing to bend.
  expect_kept(Tar().link("x", "d/f").link("d", "real").folder("real"), {"d", "real", "x"}, 0);
}

TEST(Sanitise, NothingGoesThroughALink) {
  expect_kept(Tar()
                  .folder("d")
                  .link("l", "d")
                  .file("l/f", "x")
                  .folder("l/g")
                  .file("l/g/h", "x")
                  .link("l/m", "d"),
              {"d", "l"}, 4);
}

TEST(Sanitise, WhereALinkIsInvolvedTheFirstOfANameCounts) {
  expect_kept(Tar().link("x", "a").link("x", "b").file("x", "1").folder("x"), {"x"}, 3);
  expect_kept(Tar().file("x", "1").link("x", "a"), {"x"}, 1);
  expect_kept(Tar().folder("x").link("x", "a"), {"x"}, 1);
  expect_kept(Tar().file("x/y", "1").link("x", "a"), {"x", "x/y"}, 1);
  Seed seed(Tar().link("x", "a").link("x", "b").end());
  ASSERT_TRUE(seed.run());
  EXPECT_EQ(seed.files(), (Files{{"x", "a"}}));
}

TEST(Sanitise, LinksCanBeLeftOutAsAWhole) {
  Seed seed(Tar().folder("d").link("l", "d").file("l/f", "x").link("l", "d").end());
  seed.job.flags = wire::kJobNoLinks;
  const auto done = seed.run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->conflicts, 2U);
  EXPECT_EQ(seed.paths(), (Paths{"d", "l", "l/f"}));
}

TEST(Sanitise, TargetsHaveLimits) {
  std::string steps;
  for (std::size_t i = 0; i < kTargetStepsMax; ++i) steps += "a/";
  const std::string most(kPathBytesMax, 't');
  expect_kept(Tar()
                  .pax({{"linkpath", steps}})
                  .link("a", "x")
                  .pax({{"linkpath", steps + "a"}})
                  .link("b", "x")
                  .pax({{"linkpath", most}})
                  .link("c", "x")
                  .pax({{"linkpath", most + "t"}})
                  .link("d", "x"),
              {"a", "c"}, 2);
  Seed seed(Tar().pax({{"linkpath", most}}).link("c", "x").end());
  ASSERT_TRUE(seed.run());
  EXPECT_EQ(seed.files(), (Files{{"c", most}}));
}

}  // namespace
}  // namespace caisson::layer
