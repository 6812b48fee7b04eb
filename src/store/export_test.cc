#include "store/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "store/forger_test.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

AuditRow row() {
  AuditRow row;
  row.sequence = 3;
  row.time = 1'700'000'000'000'000;
  row.event = sample_event(3);
  row.previous = std::string(64, '0');
  row.hash = std::string(64, 'a');
  return row;
}

TEST(Export, JsonHoldsEveryColumn) {
  EXPECT_EQ(json_line(row()),
            R"({"sequence":3,"time":"2023-11-14T22:13:20.000000Z","tenant":"default",)"
            R"("actor":"abcdefghijkl","action":"tool.shell_exec","sandbox":"sandbox-0",)"
            R"("object":"echo 3","outcome":"allowed","detail":{"exit_code":0},)"
            R"("request_id":"0123456789abcdef","previous":")" +
                std::string(64, '0') + R"(","hash":")" + std::string(64, 'a') + "\"}\n");
}

// Whatever a guest named a file: one line stays one line, and valid JSON.
TEST(Export, HostileTextStaysInItsString) {
  for (const std::string& text :
       {std::string("a\"b\\c\nd\r\t\x01\x7F"), std::string("\0x", 2), std::string("\xFF\xC3"),
        std::string("\xED\xA0\x80"), std::string("\xE2\x82\xAC\xF0\x9F\x98\x80"),
        std::string("\xF8\x88\x80\x80\x80\xC0\xAF")}) {
    AuditRow hostile = row();
    hostile.event.object = text;
    hostile.event.detail = "{\n\"a\":1}" + text;
    const std::string line = json_line(hostile);
    EXPECT_EQ(std::ranges::count(line, '\n'), 1);
    boost::json::error_code error;
    const auto value = boost::json::parse(line, error);
    ASSERT_FALSE(error) << line;
    EXPECT_TRUE(value.at("detail").is_string());
  }
  AuditRow good = row();
  good.event.object = "\xE2\x82\xAC\n";
  EXPECT_NE(json_line(good).find("\xE2\x82\xAC\\u000a"), std::string::npos);
  good.event.detail = "";
  EXPECT_NE(json_line(good).find("\"detail\":null"), std::string::npos);
}

TEST(Export, CsvCannotBecomeAFormula) {
  AuditRow hostile = row();
  hostile.event.object = "=HYPERLINK(\"http://x\")";
  EXPECT_NE(csv_line(hostile).find("\"'=HYPERLINK(\"\"http://x\"\")\""), std::string::npos);
  EXPECT_TRUE(csv_line(hostile).starts_with("3,\"2023-11-14T22:13:20.000000Z\",\"default\","));
  EXPECT_EQ(std::ranges::count(csv_header(), ','), 11);
}

TEST(Export, GoesThroughAllPages) {
  const sys::TempDir dir;
  auto store = Store::open({.path = dir.path("db"), .anchor_path = ""}).value();
  Store::Batch batch;
  for (int number = 1; number <= 2500; ++number) batch.audit.push_back(sample_event(number));
  ASSERT_TRUE(write_and_wait(*store, std::move(batch)));
  const RowSource source = [&store](const AuditQuery& query) { return store->audit(query); };
  std::string text;
  const TextSink sink = [&text](std::string_view more) -> Result<void> {
    text += more;
    return {};
  };
  EXPECT_EQ(export_audit(source, {}, ExportFormat::JsonLines, sink).value(), 2500);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2500);
  EXPECT_NE(text.find("\"echo 2500\""), std::string::npos);

  // From the file, to a file, as a command does.
  Reader reader = Reader::open(dir.path("db")).value();
  const RowSource offline = [&reader](const AuditQuery& query) { return reader.audit(query); };
  AuditQuery query;
  query.sandbox = "sandbox-1";
  std::FILE* file = std::fopen(dir.path("out.csv").c_str(), "we");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(export_audit(offline, query, ExportFormat::Csv, file_sink(file)).value(), 834);
  std::fclose(file);
  EXPECT_EQ(std::ranges::count(dir.read("out.csv"), '\n'), 835);

  const TextSink broken = [](std::string_view) -> Result<void> {
    return failure(Errc::StoreFull, "no room");
  };
  EXPECT_EQ(export_audit(source, {}, ExportFormat::Csv, broken).error().code, Errc::StoreFull);
}

}  // namespace
}  // namespace caisson::store
