#include "main/server_log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace caisson::server {
namespace {

spdlog::level::level_enum level_of(policy::LogLevel level) {
  switch (level) {
    case policy::LogLevel::Trace:
      return spdlog::level::trace;
    case policy::LogLevel::Debug:
      return spdlog::level::debug;
    case policy::LogLevel::Info:
      return spdlog::level::info;
    case policy::LogLevel::Warning:
      return spdlog::level::warn;
    case policy::LogLevel::Error:
      break;
  }
  return spdlog::level::err;
}

constexpr const char* kTextPattern = "%Y-%m-%dT%H:%M:%S.%eZ %-7l %v";
constexpr const char* kJsonPattern = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

}  // namespace

struct ServerLog::Sink {
  spdlog::logger logger{"caisson", std::make_shared<spdlog::sinks::stderr_sink_st>()};
  bool json = false;
};

std::string quoted(std::string_view text, std::size_t max) {
  std::string out = "\"";
  const bool cut = text.size() > max;
  if (cut) text = text.substr(0, max);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + (cut ? "\\u2026\"" : "\"");
}

ServerLog::ServerLog(const policy::LoggingSettings& settings) : sink_(std::make_unique<Sink>()) {
  apply(settings);
}

ServerLog::~ServerLog() = default;

void ServerLog::apply(const policy::LoggingSettings& settings) {
  sink_->json = settings.format == policy::LogFormat::Json;
  sink_->logger.set_level(level_of(settings.level));
  sink_->logger.set_pattern(sink_->json ? kJsonPattern : kTextPattern,
                            spdlog::pattern_time_type::utc);
  sink_->logger.flush_on(spdlog::level::trace);
}

void ServerLog::say(policy::LogLevel level, std::string_view message) {
  const auto severity = level_of(level);
  if (!sink_->logger.should_log(severity)) return;
  constexpr std::size_t kLongest = 4096;
  const std::string text = quoted(message, kLongest);
  if (sink_->json) {
    sink_->logger.log(severity, "\"message\":{}", text);
  } else {
    sink_->logger.log(severity, "{}", std::string_view(text).substr(1, text.size() - 2));
  }
}

void ServerLog::request(const rest::RequestLine& line) {
  const auto severity = line.status >= 500 ? spdlog::level::warn : spdlog::level::info;
  // Health checks come every second and say nothing.
  const bool quiet =
      line.route == "/healthz" || line.route == "/readyz" || line.route == "/metrics";
  const auto at = quiet && line.status < 400 ? spdlog::level::debug : severity;
  if (!sink_->logger.should_log(at)) return;
  const double ms = static_cast<double>(line.took.count()) / 1000;
  if (sink_->json) {
    sink_->logger.log(at,
                      R"("message":"request","request_id":{},"method":{},"path":{},"route":{},)"
                      R"("status":{},"ms":{:.3f},"peer":{},"actor":{},"tenant":{})",
                      quoted(line.request_id), quoted(line.method), quoted(line.path),
                      quoted(line.route), line.status, ms, quoted(line.peer), quoted(line.actor),
                      quoted(line.tenant));
  } else {
    sink_->logger.log(at, "{} {} {} {:.1f}ms peer={} actor={} request={}", quoted(line.method),
                      quoted(line.path), line.status, ms, quoted(line.peer), quoted(line.actor),
                      quoted(line.request_id));
  }
}

void ServerLog::failed(std::string_view request_id, const Error& error) {
  const std::string text = std::string(to_string(error.code)) + ": " + error.message;
  if (sink_->json) {
    sink_->logger.log(spdlog::level::err, "\"message\":{},\"request_id\":{}", quoted(text, 4096),
                      quoted(request_id));
  } else {
    sink_->logger.log(spdlog::level::err, "{} request={}", quoted(text, 4096), quoted(request_id));
  }
}

}  // namespace caisson::server
