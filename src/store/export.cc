#include "store/export.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>

namespace caisson::store {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool continues(std::string_view text, std::size_t at, std::size_t count) noexcept {
  if (at + count >= text.size()) return false;
  for (std::size_t next = 1; next <= count; ++next)
    if ((static_cast<unsigned char>(text[at + next]) & 0xC0U) != 0x80U) return false;
  return true;
}

// How many bytes the character at `at` has; 0 when it is not UTF-8 (too long, a surrogate, a half).
std::size_t character_at(std::string_view text, std::size_t at) noexcept {
  const auto first = static_cast<unsigned char>(text[at]);
  const auto second = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : '\0');
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(text, at, 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F);
    return !bad && continues(text, at, 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool bad = (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
    return !bad && continues(text, at, 3) ? 4 : 0;
  }
  return 0;
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_at(text, at);
    const char letter = text[at];
    if (size == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    if (letter == '"' || letter == '\\') {
      out.push_back('\\');
      out.push_back(letter);
    } else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else {
      out += text.substr(at, size);
    }
    at += size;
  }
  out.push_back('"');
}

bool is_object_on_one_line(const std::string& text) {
  if (text.empty() || text.front() != '{') return false;
  for (const char letter : text)
    if (static_cast<unsigned char>(letter) < 0x20) return false;
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(text, error);
  return !error && value.is_object();
}

void append_field(std::string& out, std::string_view name, std::string_view text) {
  out += ",\"";
  out += name;
  out += "\":";
  append_json_string(out, text);
}

void append_cell(std::string& out, std::string_view text) {
  if (!out.empty()) out.push_back(',');
  out.push_back('"');
  constexpr std::string_view kFormula = "=+-@\t\r";
  if (!text.empty() && kFormula.find(text.front()) != std::string_view::npos) out.push_back('\'');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_at(text, at);
    if (size == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    if (text[at] == '"') out.push_back('"');
    out += text.substr(at, size);
    at += size;
  }
  out.push_back('"');
}

}  // namespace

std::string json_line(const AuditRow& row) {
  const AuditEvent& event = row.event;
  std::string out = fmt::format("{{\"sequence\":{}", row.sequence);
  append_field(out, "time", to_rfc3339(row.time));
  append_field(out, "tenant", event.tenant);
  append_field(out, "actor", event.actor);
  append_field(out, "action", event.action);
  append_field(out, "sandbox", event.sandbox);
  append_field(out, "object", event.object);
  append_field(out, "outcome", to_string(event.outcome));
  if (is_object_on_one_line(event.detail)) {
    out += ",\"detail\":" + event.detail;
  } else if (event.detail.empty()) {
    out += ",\"detail\":null";
  } else {
    append_field(out, "detail", event.detail);
  }
  append_field(out, "request_id", event.request_id);
  append_field(out, "previous", row.previous);
  append_field(out, "hash", row.hash);
  return out + "}\n";
}

std::string_view csv_header() noexcept {
  return "sequence,time,tenant,actor,action,sandbox,object,outcome,detail,request_id,previous,hash"
         "\r\n";
}

std::string csv_line(const AuditRow& row) {
  const AuditEvent& event = row.event;
  std::string out = fmt::format("{}", row.sequence);
  append_cell(out, to_rfc3339(row.time));
  append_cell(out, event.tenant);
  append_cell(out, event.actor);
  append_cell(out, event.action);
  append_cell(out, event.sandbox);
  append_cell(out, event.object);
  append_cell(out, to_string(event.outcome));
  append_cell(out, event.detail);
  append_cell(out, event.request_id);
  append_cell(out, row.previous);
  append_cell(out, row.hash);
  return out + "\r\n";
}

TextSink file_sink(std::FILE* file) {
  return [file](std::string_view text) -> Result<void> {
    if (std::fwrite(text.data(), 1, text.size(), file) == text.size()) return {};
    return sys_failure("write the export", errno);
  };
}

Result<std::int64_t> export_audit(const RowSource& source, AuditQuery query, ExportFormat format,
                                  const TextSink& sink) {
  query.before.reset();
  query.limit = kPageRowsMax;
  if (format == ExportFormat::Csv) TRY(sink(csv_header()));
  std::int64_t count = 0;
  for (;;) {
    const std::vector<AuditRow> rows = TRY(source(query));
    for (const AuditRow& row : rows) {
      const std::string line = format == ExportFormat::Csv ? csv_line(row) : json_line(row);
      TRY(sink(line));
    }
    count += static_cast<std::int64_t>(rows.size());
    if (rows.size() < kPageRowsMax) return count;
    query.after = rows.back().sequence;
  }
}

}  // namespace caisson::store
