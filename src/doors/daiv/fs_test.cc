// The seven file operations.
#include "doors/daiv/fs.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "doors/daiv/fakes_test.h"

namespace caisson::daiv {
namespace {

using fake::House;
using fake::kId;
using fake::Node;
using wire::EntryType;

class DaivFs : public testing::Test {
 protected:
  DaivFs() {
    house.fleet.files["/workspace"] = {EntryType::Folder, "", 0755};
    house.fleet.files["/workspace/d"] = {EntryType::Folder, "", 0755};
    house.fleet.files["/workspace/d/b"] = {EntryType::File, "one\ntwo\n", 0755};
    house.fleet.files["/workspace/d/.a"] = {EntryType::Folder, "", 0755};
    house.fleet.files["/workspace/d/\xff"] = {EntryType::File, "", 0644};
    house.fleet.files["/workspace/dir-link"] = {EntryType::Link, "d", 0777};
    house.fleet.files["/workspace/link"] = {EntryType::Link, "d/b", 0777};
    house.fleet.files["/workspace/dangling"] = {EntryType::Link, "nothing", 0777};
    house.fleet.files["/workspace/fifo"] = {EntryType::Fifo, "", 0644};
    house.fleet.files["/workspace/closed"] = {EntryType::Folder, "", 0700, false};
    house.fleet.files["/workspace/secret"] = {EntryType::File, "x", 0600, false};
  }
  std::string ask(const std::string& operation, std::string body) {
    const auto answer = house.post("fs/" + operation, std::move(body));
    return answer->code == 200 ? answer->body : std::to_string(answer->code) + answer->body;
  }
  std::string read(const std::string& path, const std::string& more = "") {
    return ask("read", R"({"path":")" + path + "\"" + more + "}");
  }
  static std::string failed_read(std::string_view code, std::string_view message) {
    return R"({"content":null,"encoding":null,"total_lines":null,"end_line":null,"truncated":false,"error":{"code":")" +
           std::string(code) + R"(","message":")" + std::string(message) + R"("}})";
  }
  House house;
};

TEST(DaivPath, IsJudgedByItsLetters) {
  const auto judged = [](std::string_view path, RootItself root = RootItself::Refused) {
    const auto error = check_path(path, root);
    return error ? error->message : "good";
  };
  for (const std::string_view good :
       {"/workspace/a", "/workspace//a/", "/workspace/./a", "///workspace/a", "/./workspace/a"})
    EXPECT_EQ(judged(good), "good") << good;
  EXPECT_EQ(judged("/workspace", RootItself::Allowed), "good");
  EXPECT_EQ(judged("/workspace/"), "path must not equal a reserved root: '/workspace/'");
  EXPECT_EQ(judged("a\nb"), "path must not contain NUL or newline characters: 'a\\nb'");
  EXPECT_EQ(judged(std::string_view("/a\0", 3)),
            "path must not contain NUL or newline characters: '/a\\x00'");
  EXPECT_EQ(judged("workspace/a"), "path must be absolute, got: 'workspace/a'");
  EXPECT_EQ(judged(""), "path must be absolute, got: ''");
  EXPECT_EQ(judged("/workspace/tmp/../x"),
            "path must not contain '..' segments: '/workspace/tmp/../x'");
  EXPECT_EQ(judged("/etc/passwd"), "path must be under one of ('/workspace',), got: '/etc/passwd'");
  EXPECT_EQ(judged("/workspacex/a"),
            "path must be under one of ('/workspace',), got: '/workspacex/a'");
  EXPECT_EQ(judged("//workspace/a"),
            "path must be under one of ('/workspace',), got: '//workspace/a'");
  EXPECT_EQ(judged("/", RootItself::Allowed),
            "path must be under one of ('/workspace',), got: '/'");
}

TEST_F(DaivFs, ABadPathIsToldBeforeTheSession) {
  for (const std::string operation : {"ls", "read", "grep", "glob", "write", "edit", "delete"}) {
    const auto answer =
        house.ask({http::Method::Post, "/session/unknown/fs/" + operation,
                   R"({"path":"/etc","pattern":"x","content":"","old":"","new":""})"});
    EXPECT_EQ(answer->code, 200U) << operation;
    EXPECT_NE(answer->body.find(R"("code":"invalid_path")"), std::string::npos) << answer->body;
  }
}

TEST_F(DaivFs, Ls) {
  EXPECT_EQ(ask("ls", R"({"path":"/workspace/d/"})"),
            "{\"entries\":[{\"path\":\"/workspace/d/.a\",\"is_dir\":true},{\"path\":\"/workspace/d/"
            "b\",\"is_dir\":false},"
            "{\"path\":\"/workspace/d/\xef\xbf\xbd\",\"is_dir\":false}],\"error\":null}");
  EXPECT_EQ(
      ask("ls", R"({"path":"/workspace/x"})"),
      R"({"entries":[],"error":{"code":"not_found","message":"No such directory: /workspace/x"}})");
  EXPECT_EQ(
      ask("ls", R"({"path":"/workspace/d/b"})"),
      R"({"entries":[],"error":{"code":"not_a_directory","message":"Not a directory: /workspace/d/b"}})");
  EXPECT_EQ(
      ask("ls", R"({"path":"/workspace/closed"})"),
      R"({"entries":[],"error":{"code":"permission_denied","message":"Permission denied: /workspace/closed"}})");
  EXPECT_NE(ask("ls", R"({"path":"/workspace"})")
                .find(R"({"path":"/workspace/dir-link","is_dir":false})"),
            std::string::npos);
  EXPECT_EQ(ask("ls", R"({})").substr(0, 3), "422");
}

TEST_F(DaivFs, ReadAWindow) {
  EXPECT_EQ(
      read("/workspace/d/b"),
      R"({"content":"one\ntwo","encoding":"utf-8","total_lines":2,"end_line":2,"truncated":false,"error":null})");
  std::string lines;
  for (int i = 0; i < 250; ++i) lines += std::to_string(i) + "\r\n";
  house.fleet.files["/workspace/l"] = {EntryType::File, lines};
  EXPECT_EQ(
      read("/workspace/l", R"(,"offset":100,"limit":2)"),
      R"({"content":"100\n101","encoding":"utf-8","total_lines":250,"end_line":102,"truncated":false,"error":null})");
  EXPECT_EQ(
      read("/workspace/l", R"(,"offset":249)"),
      R"({"content":"249","encoding":"utf-8","total_lines":250,"end_line":250,"truncated":false,"error":null})");
  EXPECT_EQ(read("/workspace/l", R"(,"offset":250)"),
            failed_read("invalid_offset", "Line offset 250 exceeds file length (250 lines)"));
  EXPECT_EQ(read("/workspace/l", R"(,"limit":0)").substr(0, 3), "422");
  EXPECT_EQ(read("/workspace/l", R"(,"offset":-1)").substr(0, 3), "422");
}

TEST_F(DaivFs, ReadWhatIsNoPlainText) {
  EXPECT_EQ(read("/workspace/x"), failed_read("not_found", "No such file: /workspace/x"));
  EXPECT_EQ(read("/workspace/fifo"), failed_read("not_found", "No such file: /workspace/fifo"));
  EXPECT_EQ(read("/workspace/d"),
            failed_read("is_a_directory", "Is a directory: /workspace/d (use fs/ls to list it)"));
  EXPECT_EQ(read("/workspace/secret"),
            failed_read("permission_denied", "Permission denied: /workspace/secret"));
  EXPECT_EQ(read("/workspace/link/"), read("/workspace/d/b")) << "links are followed";
  house.fleet.files["/workspace/e"] = {EntryType::File, ""};
  EXPECT_EQ(
      read("/workspace/e", R"(,"offset":5)"),
      R"({"content":"System reminder: File exists but has empty contents","encoding":"utf-8","total_lines":null,"end_line":null,"truncated":false,"error":null})");
  house.fleet.files["/workspace/n"] = {EntryType::File, std::string("a\0b", 3)};
  EXPECT_NE(read("/workspace/n").find(R"("content":"a\u0000b","encoding":"utf-8")"),
            std::string::npos);
  house.fleet.files["/workspace/bin"] = {EntryType::File, "\xff\x00"};
  EXPECT_EQ(
      read("/workspace/bin", R"(,"offset":99)"),
      R"({"content":")" + to_base64("\xff") +
          R"(","encoding":"base64","total_lines":null,"end_line":null,"truncated":false,"error":null})");
  house.fleet.files["/workspace/bin"].content = std::string(512'000, '\xff');
  EXPECT_NE(read("/workspace/bin").find(R"("encoding":"base64")"), std::string::npos);
  house.fleet.files["/workspace/bin"].content += '\xff';
  EXPECT_EQ(read("/workspace/bin"),
            failed_read("too_large", "Binary file exceeds maximum preview size of 512000 bytes"));
  house.fleet.files["/workspace/bin"].content = std::string(600'000, 'a') + "\xff";
  EXPECT_EQ(read("/workspace/bin"),
            failed_read("too_large", "Binary file exceeds maximum preview size of 512000 bytes"));
}

TEST_F(DaivFs, ReadIsCutAtACharacter) {
  constexpr std::size_t kMax = 512'000;
  constexpr std::size_t kMarker = 123;
  house.fleet.files["/workspace/t"] = {EntryType::File, std::string(kMax, 'a')};
  auto answer = boost::json::parse(read("/workspace/t")).as_object();
  EXPECT_FALSE(answer.at("truncated").as_bool());
  EXPECT_EQ(answer.at("content").as_string().size(), kMax);
  house.fleet.files["/workspace/t"].content += "b";
  answer = boost::json::parse(read("/workspace/t")).as_object();
  EXPECT_TRUE(answer.at("truncated").as_bool());
  EXPECT_EQ(answer.at("content").as_string().size(), kMax);
  EXPECT_EQ(answer.at("end_line"), 0);
  EXPECT_TRUE(std::string_view(answer.at("content").as_string()).ends_with("to read the rest.]"));
  std::string text = "x\n";
  while (text.size() <= kMax) text += "\xe2\x82\xac";
  house.fleet.files["/workspace/t"].content = text;
  answer = boost::json::parse(read("/workspace/t")).as_object();
  const std::string content(answer.at("content").as_string());
  EXPECT_LE(content.size(), kMax);
  EXPECT_GT(content.size(), kMax - 3);
  EXPECT_EQ(content.substr(content.size() - kMarker - 3, 5), "\xe2\x82\xac\n\n");
  EXPECT_EQ(answer.at("end_line"), 1);
  EXPECT_EQ(answer.at("total_lines"), 2);
}

TEST_F(DaivFs, ReadHasALimit) {
  house.fleet.files["/workspace/t"] = {EntryType::File, std::string((64UL << 20U) + 1, '\n')};
  EXPECT_EQ(read("/workspace/t"),
            failed_read("too_large", "File exceeds maximum size of 67108864 bytes"));
  house.fleet.files["/workspace/t"].content.pop_back();
  EXPECT_NE(read("/workspace/t", R"(,"limit":1)").find(R"("total_lines":67108864)"),
            std::string::npos);
}

TEST_F(DaivFs, WhatIsHeldHasALimit) {
  house.options.held_per_tenant_max = 64UL * 1024;
  house.options.held_patience = milliseconds(1);
  const std::string large = to_base64(std::string(256UL * 1024, 'x'));
  EXPECT_EQ(ask("write", R"({"path":"/workspace/z","content":")" + large + "\"}").substr(0, 3),
            "503");
  EXPECT_EQ(
      ask("edit", R"({"path":"/workspace/z","old":")" + large + R"(","new":""})").substr(0, 3),
      "503");
  EXPECT_EQ(ask("ls", R"({"path":"/workspace"})").substr(0, 3), "503");
  EXPECT_EQ(ask("delete", R"({"path":"/workspace/d/b"})"),
            R"({"removed":true,"error":null,"ok":true})")
      << "small things go on";
}

TEST_F(DaivFs, Write) {
  EXPECT_EQ(ask("write", R"({"path":"/workspace/new/f/","content":"aGk=","mode":384})"),
            R"({"error":null,"ok":true})");
  EXPECT_EQ(house.fleet.files.at("/workspace/new/f").content, "hi");
  EXPECT_EQ(house.fleet.files.at("/workspace/new/f").mode, 0644U);
  for (const auto& [wanted, mode] : std::vector<std::pair<int, std::uint32_t>>{
           {0700, 0755}, {0, 0644}, {04711, 0755}, {0666, 0666}, {0100, 0755}}) {
    (void)ask("write", R"({"path":"/workspace/m)" + std::to_string(wanted) +
                           R"(","content":"","mode":)" + std::to_string(wanted) + "}");
    EXPECT_EQ(house.fleet.files.at("/workspace/m" + std::to_string(wanted)).mode, mode) << wanted;
  }
  for (const std::string there : {"/workspace/d/b", "/workspace/d", "/workspace/dangling"})
    EXPECT_EQ(
        ask("write", R"({"path":")" + there + R"(","content":""})"),
        R"({"error":{"code":"already_exists","message":"Cannot write to )" + there +
            R"( because it already exists. Read and then make an edit, or write to a new path."},"ok":false})");
  EXPECT_NE(
      ask("write", R"({"path":"/workspace/d/b/c","content":""})")
          .find(R"("code":"exec_failed","message":"write staging failed for /workspace/d/b/c)"),
      std::string::npos);
  EXPECT_NE(ask("write", R"({"path":"/workspace/z"})")
                .find(R"("type":"missing","loc":["body","content"])"),
            std::string::npos);
  EXPECT_NE(ask("write", R"({"path":"/workspace/z","content":"A"})").find("base64_decode"),
            std::string::npos);
  EXPECT_NE(ask("write", R"({"path":"/workspace/z","content":1})").find("string_type"),
            std::string::npos);
  EXPECT_NE(
      ask("write", R"({"path":"/workspace/z","content":"","mode":4096})").find("less_than_equal"),
      std::string::npos);
  house.fleet.fails["write"] = Error{Errc::Denied, "no", EACCES, {}};
  EXPECT_NE(ask("write", R"({"path":"/workspace/z","content":""})").find("permission_denied"),
            std::string::npos);
}

TEST_F(DaivFs, WriteHasALimit) {
  const std::string most = to_base64(std::string(kContentBytesMax, 'x'));
  EXPECT_EQ(ask("write", R"({"path":"/workspace/big","content":")" + most + "\"}"),
            R"({"error":null,"ok":true})");
  EXPECT_EQ(house.fleet.files.at("/workspace/big").content.size(), kContentBytesMax);
  EXPECT_EQ(
      ask("write", R"({"path":"/workspace/bigger","content":"QUJD)" + most + "\"}").substr(0, 3),
      "413");
}

TEST_F(DaivFs, Edit) {
  const auto edit = [&](const std::string& path, const std::string& rest) {
    return ask("edit", R"({"path":")" + path + "\"," + rest + "}");
  };
  EXPECT_EQ(edit("/workspace/d/b", R"("old":"two","new":"2")"),
            R"({"occurrences":1,"error":null})");
  EXPECT_EQ(house.fleet.files.at("/workspace/d/b").content, "one\n2\n");
  EXPECT_EQ(house.fleet.files.at("/workspace/d/b").mode, 0755U) << "its mode stays";
  EXPECT_EQ(edit("/workspace/link", R"("old":"one","new":"1")"),
            R"({"occurrences":1,"error":null})");
  EXPECT_EQ(house.fleet.files.at("/workspace/d/b").content, "1\n2\n");
  EXPECT_EQ(house.fleet.files.at("/workspace/link").type, EntryType::Link) << "the link stays one";
  EXPECT_EQ(edit("/workspace/d/b", R"("old":"\n","new":";","replace_all":true)"),
            R"({"occurrences":2,"error":null})");
  EXPECT_NE(edit("/workspace/d/b", R"("old":";","new":"")").find("multiple_occurrences"),
            std::string::npos);
  EXPECT_EQ(
      edit("/workspace/d/b", R"("old":"zz","new":"")"),
      R"({"occurrences":0,"error":{"code":"string_not_found","message":"string_not_found"}})");
  EXPECT_NE(edit("/workspace/d", R"("old":"a","new":"")")
                .find(R"("message":"Is a directory: /workspace/d")"),
            std::string::npos);
  EXPECT_NE(edit("/workspace/x", R"("old":"a","new":"")")
                .find(R"("message":"No such file: /workspace/x")"),
            std::string::npos);
  house.fleet.files["/workspace/bin"] = {EntryType::File, "\xff"};
  EXPECT_NE(edit("/workspace/bin", R"("old":"a","new":"")")
                .find(R"({"code":"not_a_text_file","message":"Not a text file: /workspace/bin"})"),
            std::string::npos);
  house.fleet.files["/workspace/huge"] = {EntryType::File, std::string((32UL << 20U) + 1, 'a')};
  EXPECT_NE(edit("/workspace/huge", R"("old":"b","new":"")").find("too_large"), std::string::npos);
  EXPECT_EQ(edit("/workspace/d/b",
                 R"("old":")" + std::string(kLongTextBytesMax + 1, 'x') + R"(","new":"")")
                .substr(0, 3),
            "413");
}

TEST_F(DaivFs, Delete) {
  EXPECT_EQ(ask("delete", R"({"path":"/workspace/d/b"})"),
            R"({"removed":true,"error":null,"ok":true})");
  EXPECT_EQ(ask("delete", R"({"path":"/workspace/d/b"})"),
            R"({"removed":false,"error":null,"ok":true})");
  EXPECT_EQ(ask("delete", R"({"path":"/workspace/dangling"})"),
            R"({"removed":true,"error":null,"ok":true})");
  EXPECT_EQ(ask("delete", R"({"path":"/workspace/fifo"})"),
            R"({"removed":true,"error":null,"ok":true})");
  for (const std::string folder : {"/workspace/d", "/workspace/dir-link"})
    EXPECT_EQ(ask("delete", R"({"path":")" + folder + "\"}"),
              R"({"removed":false,"error":{"code":"is_a_directory","message":"Is a directory: )" +
                  folder + R"("},"ok":false})");
  EXPECT_TRUE(house.fleet.files.contains("/workspace/dir-link"));
}

TEST_F(DaivFs, Glob) {
  house.fleet.found = {fake::Fleet::view_of("/workspace/d/z", Node{}),
                       fake::Fleet::view_of("/workspace/d/a", Node{EntryType::Folder, "", 0755})};
  EXPECT_EQ(
      ask("glob", R"({"path":"/workspace/d","pattern":"**","exclude":["node_modules"]})"),
      R"({"matches":[{"path":"/workspace/d/a","is_dir":true},{"path":"/workspace/d/z","is_dir":false}],"error":null})");
  EXPECT_EQ(house.fleet.find_wish.prune.size(), 30U);
  EXPECT_EQ(house.fleet.find_wish.prune.front(), ".git");
  EXPECT_EQ(house.fleet.find_wish.prune.back(), "node_modules");
  for (const std::string none : {"", "/a", "./a", "a/"})
    EXPECT_EQ(ask("glob", R"({"path":"/workspace/d","pattern":")" + none + "\"}"),
              R"({"matches":[],"error":null})")
        << none;
  EXPECT_EQ(house.fleet.count("find"), 1U);
  EXPECT_NE(ask("glob", R"({"path":"/workspace/x","pattern":"*"})")
                .find("No such directory: /workspace/x"),
            std::string::npos);
  EXPECT_NE(ask("glob", R"({"path":"/workspace/d/b","pattern":"*"})").find("not_a_directory"),
            std::string::npos);
  std::string names = "\"a\"";
  for (std::size_t i = 0; i < control::kPruneNamesMax; ++i) names += ",\"a\"";
  EXPECT_NE(ask("glob", R"({"path":"/workspace/d","pattern":"*","exclude":[)" + names + "]}")
                .find("invalid_pattern"),
            std::string::npos);
}

TEST_F(DaivFs, Grep) {
  house.fleet.grepped.matches = {{"/workspace/d/b", 2, "tw\xff"}};
  EXPECT_EQ(ask("grep", R"({"path":"/workspace","pattern":"-x","glob":"*.py"})"),
            "{\"matches\":[{\"path\":\"/workspace/d/"
            "b\",\"line\":2,\"text\":\"tw\xef\xbf\xbd\"}],\"truncated\":false,\"error\":null}");
  EXPECT_EQ(house.fleet.grep_wish.pattern, "-x");
  EXPECT_EQ(house.fleet.grep_wish.glob, "*.py");
  EXPECT_EQ(house.fleet.grep_wish.matches_max, 200U);
  house.fleet.grepped.truncated = true;
  EXPECT_NE(ask("grep", R"({"path":"/workspace","pattern":"x"})").find(R"("truncated":true)"),
            std::string::npos);
  EXPECT_EQ(ask("grep", R"({"path":"/workspace/dir-link","pattern":"x"})"),
            R"({"matches":[],"truncated":false,"error":null})");
  house.fleet.grepped.unreadable = 1;
  EXPECT_EQ(
      ask("grep", R"({"path":"/workspace","pattern":"x"})"),
      R"({"matches":[],"truncated":false,"error":{"code":"exec_failed","message":"grep failed (exit 2) for '/workspace'"}})");
  EXPECT_NE(
      ask("grep", R"({"path":"/workspace/x","pattern":"x"})").find("No such path: /workspace/x"),
      std::string::npos);
  house.fleet.fails["grep"] = Error{Errc::InvalidArgument, "bad", EINVAL, {}};
  EXPECT_NE(ask("grep", R"({"path":"/workspace","pattern":"("})")
                .find(R"({"code":"invalid_pattern","message":"invalid regular expression: '('"})"),
            std::string::npos);
}

TEST_F(DaivFs, ASessionThatEndsIsAStatus) {
  house.fleet.fails["stat"] = Error{Errc::Gone, "ended", 0, {}};
  EXPECT_EQ(read("/workspace/d/b").substr(0, 3), "503");
}

}  // namespace
}  // namespace caisson::daiv
