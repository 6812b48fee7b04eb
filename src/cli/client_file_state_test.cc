// States, changes and images as the command line says them, against a server that is not there.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_image_transfer.h"
#include "cli/client_json.h"
#include "cli/client_states.h"
#include "cli/fake_remote_test.h"

namespace caisson::cli {
namespace {

const std::string kId(26, 'a');
constexpr const char* kListing =
    R"({"sandboxes": [{"id": "aaaaaaaaaaaaaaaaaaaaaaaaaa", "name": "build"},
                      {"id": "aaaaaabbbbbbbbbbbbbbbbbbbb", "name": ""}]})";
constexpr const char* kImageBody =
    R"({"reference": "registry.example/python:3", "digest": "sha256:ab", "bytes": 5})";

struct Talk {
  Talk() : session("image", make()) {}
  std::unique_ptr<Remote> make() {
    auto own = std::make_unique<FakeRemote>();
    remote = own.get();
    return own;
  }
  FakeRemote* remote = nullptr;
  Session session;
};

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/caisson-cli-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() {
    for (const auto& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& content) {
    files_.push_back(path_ + "/" + name);
    std::ofstream(files_.back()) << content;
    return files_.back();
  }
  std::string use(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

TEST(States, AWordAloneIsASandboxThenASnapshot) {
  Talk talk;
  talk.remote->say(200, kListing);
  EXPECT_EQ(*state_of(talk.session, "snapshot:good"), "snapshot:good");
  EXPECT_EQ(*state_of(talk.session, "image:python:3.12"), "image:python:3.12");
  EXPECT_EQ(*state_of(talk.session, kId), kId);  // the server knows which it is
  EXPECT_TRUE(talk.remote->calls.empty());
  EXPECT_EQ(*state_of(talk.session, "build"), "sandbox:" + kId);
  EXPECT_EQ(*state_of(talk.session, "sandbox:build"), "sandbox:" + kId);
  EXPECT_EQ(*state_of(talk.session, "good"), "snapshot:good");
  EXPECT_EQ(state_of(talk.session, "sandbox:good").error().code, Errc::NotFound);
  // Two sandboxes could be meant: no snapshot is guessed.
  EXPECT_EQ(state_of(talk.session, "aaaaaa").error().code, Errc::InvalidArgument);
}

TEST(Changes, AreLinesWithoutControlCharacters) {
  const auto changes = parse_json(R"([{"kind": "added", "path": "/a"},
    {"kind": "type_changed", "path": "/b\n\u001b[2J"}, 7])");
  EXPECT_EQ(changes_text(changes->as_array()),
            "added         /a\ntype_changed  /b??[2J\n              \n");
}

TEST(Changes, ConflictsAreNamed) {
  Answer answer;
  answer.status = 409;
  answer.body = R"({"error": {"code": "Conflict", "message": "m",
    "details": {"conflicts": ["/a", "/b"], "conflicts_total": 5}}})";
  EXPECT_EQ(conflicts_text(answer), "conflict      /a\nconflict      /b\nand 3 more\n");
  answer.body = R"({"error": {"code": "Busy", "message": "m", "details": {}}})";
  EXPECT_EQ(conflicts_text(answer), "");
  answer.body = "<html>";
  EXPECT_EQ(conflicts_text(answer), "");
}

PullWords words_for(std::string reference) {
  PullWords words;
  words.reference = std::move(reference);
  words.quiet = true;
  return words;
}

TEST(Images, APullEndsWithTheImage) {
  Talk talk;
  talk.remote->say(200, "");
  talk.remote->stream = {{"", "progress", R"({"stage": "resolve"})"},
                         {"", "progress", "no json"},
                         {"", "image", kImageBody}};
  PullWords words = words_for("python:3");
  words.platform = "linux/arm64";
  words.keep = true;
  testing::internal::CaptureStdout();
  EXPECT_EQ(pull_image(talk.session, words, false), kExitOk);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "registry.example/python:3\n");
  EXPECT_EQ(talk.remote->calls.back(), "POST /api/v1/images/pull?stream=true");
  EXPECT_EQ(
      *parse_json(talk.remote->bodies.back()),
      *parse_json(R"({"reference": "python:3", "platform": "linux/arm64", "refresh": false})"));
}

TEST(Images, APullThatFailsOrBreaksOffIsAFailure) {
  Talk talk;
  talk.remote->say(200, "");
  talk.remote->stream = {
      {"", "error", R"({"error": {"code": "Protocol", "message": "other bytes"}})"}};
  testing::internal::CaptureStderr();
  EXPECT_EQ(pull_image(talk.session, words_for("a"), false), kExitFailed);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "caisson image: other bytes\n");
  talk.remote->stream.clear();
  EXPECT_EQ(pull_image(talk.session, words_for("a"), false), kExitFailed);
  talk.remote->answers.clear();
  talk.remote->say(403, "{}");
  EXPECT_EQ(pull_image(talk.session, words_for("a"), false), kExitFailed);
}

TEST(Images, AUserNeedsAPasswordAndTheOtherWayRound) {
  Talk talk;
  PullWords words = words_for("a");
  words.username = "u";
  EXPECT_EQ(pull_image(talk.session, words, false), kExitUsage);
  words.username.clear();
  words.password_stdin = true;
  EXPECT_EQ(pull_image(talk.session, words, false), kExitUsage);
  EXPECT_TRUE(talk.remote->calls.empty());
}

TEST(Images, AnArchiveGoesAsItIsAndAFolderAsTar) {
  Talk talk;
  talk.remote->say(201, kImageBody);
  Folder folder;
  const std::string file = folder.write("image.tar.gz", "not looked at");
  EXPECT_EQ(import_image(talk.session, file, "mine:1", "other", true), kExitOk);
  EXPECT_EQ(talk.remote->calls.back(), "POST /api/v1/images/import?reference=mine%3A1&pick=other");
  EXPECT_EQ(talk.remote->bodies.back(), "not looked at");
  EXPECT_EQ(talk.remote->uploaded_length, 13U);
  EXPECT_EQ(import_image(talk.session, folder.path(), "mine:1", "", true), kExitOk);
  EXPECT_FALSE(talk.remote->uploaded_length);
  EXPECT_EQ(talk.remote->bodies.back().substr(0, 12), "image.tar.gz");
  EXPECT_EQ(talk.remote->bodies.back().substr(257, 5), "ustar");
  EXPECT_EQ(import_image(talk.session, folder.path() + "/none", "mine:1", "", true), kExitFailed);
  EXPECT_EQ(import_image(talk.session, "/dev/null", "mine:1", "", true), kExitFailed);
}

TEST(Images, AnExportAppearsWholeOrNotAtAll) {
  Talk talk;
  Folder folder;
  const std::string target = folder.use("out.tar");
  talk.remote->say(404, R"({"error": {"message": "no such image"}})");
  EXPECT_EQ(export_image(talk.session, "a", target), kExitFailed);
  EXPECT_NE(::access(target.c_str(), F_OK), 0);
  talk.remote->answers.clear();
  talk.remote->say(200, "layout");
  EXPECT_EQ(export_image(talk.session, "a/b:1", target), kExitOk);
  EXPECT_EQ(talk.remote->calls.back(), "GET /api/v1/images/export?reference=a%2Fb%3A1");
  std::ifstream read(target);
  std::string content;
  std::getline(read, content);
  EXPECT_EQ(content, "layout");
}

// The words are judged before a server is asked.
TEST(FileStateCommands, WrongWordsAreUsageErrors) {
  using Run = int (*)(std::span<char*>);
  const std::pair<Run, std::vector<std::string>> table[] = {
      {image_command, {"image"}},
      {image_command, {"image", "pull"}},
      {image_command, {"image", "import", "x.tar"}},
      {image_command, {"image", "export", "a"}},
      {image_command, {"image", "build-from", "good"}},
      {image_command, {"image", "push", "a"}},
      {snapshot_command, {"snapshot", "create"}},
      {snapshot_command, {"snapshot", "rm"}},
      {fork_command, {"fork"}},
      {undo_command, {"undo", "build", "--calls", "0"}},
      {undo_command, {"undo", "build", "--calls", "33"}},
      {undo_command, {"undo", "build", "--calls", "1", "--to", "good"}},
      {diff_command, {"diff", "a"}},
      {diff_command, {"diff", "a", "b", "--json", "--patch"}},
      {merge_command, {"merge", "a"}},
      {volume_command, {"volume", "create", "cache"}},
      {volume_command, {"volume", "rm"}},
      {stop_command, {"stop"}},
      {start_command, {"start"}},
  };
  for (const auto& [run, given] : table) {
    std::vector<std::string> words = given;
    std::vector<char*> args;
    for (std::string& word : words) args.push_back(word.data());
    EXPECT_EQ(run(args), kExitUsage) << given.front() << " " << given.back();
  }
}

}  // namespace
}  // namespace caisson::cli
