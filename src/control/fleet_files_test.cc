// Tools and files of a fleet.
#include <gtest/gtest.h>

#include "control/fleet_fixture_test.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

class FleetFilesTest : public test::FleetTest {};

TEST_F(FleetFilesTest, ToolsDoWhatTheySay) {
  open();
  const std::string id = create();
  EXPECT_EQ(tool(id, "shell_exec", R"({"command": "echo hi"})")->at("stdout"), "hi\n");
  EXPECT_EQ(tool(id, "file_write", R"({"path": "a/b", "content": "text"})")->at("bytes_written"),
            4);
  EXPECT_EQ(tool(id, "file_read", R"({"path": "a/b"})")->at("content"), "text");
  EXPECT_EQ(tool(id, "file_list", "{}")->at("entries").as_array().size(), 1U);
  EXPECT_EQ(store_.last().action, "tool.file_list");
  EXPECT_EQ(tool(id, "file_read", R"({"path": "none"})").error().code, Errc::NotFound);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Failed);
}

TEST_F(FleetFilesTest, ToolsThatAreNotThereAreRefusedAndRecorded) {
  open();
  CreateWish wish;
  wish.tools = {"file_read"};
  const std::string id = create(wish);
  EXPECT_EQ(tool(id, "file_write", "{}").error().code, Errc::Denied);
  EXPECT_EQ(store_.last().action, "tool.file_write");
  EXPECT_EQ(store_.last().outcome, store::Outcome::Denied);
  EXPECT_EQ(tool(id, "http_request", "{}").error().code, Errc::Denied);
  EXPECT_EQ(tool(create({}), "http_request", R"({"url": "http://a.example/"})").error().code,
            Errc::Denied);  // it may use the tool, and has no network
  EXPECT_EQ(tool(id, "format_disk", "{}").error().code, Errc::InvalidArgument);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Failed);
  EXPECT_EQ(tool(id, "file_read", R"({"path": "../../etc/shadow"})").error().code, Errc::Denied);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Denied);
}

TEST_F(FleetFilesTest, AFileThatIsTooLargeForTheToolNamesTheRoute) {
  open();
  const std::string id = create();
  guest(id).files["/workspace/big"] = std::string(kToolFileBytesMax + 1, 'x');
  // The fake sends all of it at once: beyond the credit the link ends, so it is fed in parts.
  const std::string big = std::string(wire::kDataMax, 'x');
  guest(id).on_request = [&, sent = std::uint64_t{0}, reader = std::uint32_t{0}](
                             const wire::FrameHeader& header, wire::Bytes payload) mutable {
    const auto kind = static_cast<wire::Kind>(header.kind);
    std::uint64_t room = 0;
    if (kind == wire::Kind::Op) {
      reader = header.id;
      room = engine::kTransferBytes;
    } else if (kind == wire::Kind::Credit && header.id == reader) {
      wire::CreditBody body{};
      (void)wire::parse_exact(payload, body);
      room = body.bytes;
    } else {
      return false;
    }
    for (; room >= big.size(); room -= big.size(), sent += big.size())
      guest(id).data(reader, sent, big);
    return true;
  };
  const auto refused = tool(id, "file_read", R"({"path": "big"})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::TooLarge);
  EXPECT_NE(refused.error().message.find("/files/"), std::string::npos);
}

TEST_F(FleetFilesTest, DownloadsKnowRanges) {
  open();
  const std::string id = create();
  guest(id).files["/workspace/f"] = "0123456789";
  const auto read = [&](std::optional<Range> range) -> std::string {
    auto download = run(fleet_->read_file(me_, id, "f", range));
    if (!download) return download.error().field;
    std::string all;
    for (;;) {
      const auto bytes = run(download->bytes->next());
      if (!bytes) return bytes.error().message;
      if (bytes->empty()) break;
      all.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
    EXPECT_EQ(all.size(), download->length);
    return all;
  };
  EXPECT_EQ(read(std::nullopt), "0123456789");
  EXPECT_EQ(read(Range{2, 4}), "234");
  EXPECT_EQ(read(Range{8, 100}), "89");
  EXPECT_EQ(read(Range{7, std::nullopt}), "789");
  EXPECT_EQ(read(Range{std::nullopt, 3}), "789");
  EXPECT_EQ(read(Range{std::nullopt, 99}), "0123456789");
  EXPECT_EQ(read(Range{10, 11}), "range");
  EXPECT_EQ(read(Range{std::nullopt, 0}), "range");
  EXPECT_EQ(read(Range{5, 4}), "range");
}

TEST_F(FleetFilesTest, UploadsAreRecordedWhenTheyEnd) {
  open();
  const std::string id = create();
  const std::string content = "content";
  auto writer = run(fleet_->write_file(me_, id, "f", {}));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(run((*writer)->write(std::as_bytes(std::span(content)))));
  EXPECT_EQ(store_.last().action, "sandbox.create");
  ASSERT_EQ(run((*writer)->finish())->bytes, content.size());
  EXPECT_EQ(store_.last().action, "file.write");
  EXPECT_EQ(store_.last().object, "/workspace/f");
  EXPECT_EQ(store_.last().outcome, store::Outcome::Allowed);
  const std::string etag = run(fleet_->stat(me_, id, "f", true))->etag;
  Fleet::WriteWish wish;
  wish.if_match = "\"another\"";
  EXPECT_EQ(run(fleet_->write_file(me_, id, "f", wish)).error().field, "if_match");
  wish.if_match = etag;
  auto second = run(fleet_->write_file(me_, id, "f", wish));
  ASSERT_TRUE(second);
  second->reset();  // given up
  settle();
  EXPECT_EQ(store_.last().outcome, store::Outcome::Failed);
  EXPECT_EQ(guest(id).files.at("/workspace/f"), "content");
}

}  // namespace
}  // namespace caisson::control
