#include "cli/summary.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <csignal>

#include "cli/cli.h"
#include "policy/json_text.h"

namespace caisson::cli {
namespace {

using engine::EndReason;

constexpr double kMiB = 1024.0 * 1024.0;

bool timed_out(const RunReport& report) {
  return report.status.end == EndReason::Life ||
         (report.exited && (report.exited->flags & wire::kExitTimedOut) != 0);
}

bool out_of_memory(const RunReport& report) {
  return report.status.usage.oom_kills > 0 || report.status.end == EndReason::OutOfMemory ||
         (report.exited && (report.exited->flags & wire::kExitOomKilled) != 0);
}

double cpu_seconds(const RunReport& report) {
  std::uint64_t us = report.status.usage.cpu_time_us;
  if (us == 0 && report.exited) us = report.exited->user_us + report.exited->system_us;
  return static_cast<double>(us) / 1e6;
}

double peak_mib(const RunReport& report) {
  const std::uint64_t peak = report.status.usage.memory_peak_bytes;
  if (peak != 0) return static_cast<double>(peak) / kMiB;
  return report.exited ? static_cast<double>(report.exited->peak_rss_kib) / 1024.0 : 0.0;
}

}  // namespace

int exit_status(const RunReport& report) {
  if (timed_out(report)) return kExitTimedOut;
  if (!report.closed_output.empty() && !report.exited) return 128 + SIGPIPE;
  if (report.exited)
    return report.exited->signal != 0 ? 128 + report.exited->signal : report.exited->code & 0xff;
  if (report.status.end == EndReason::CpuTime || report.status.end == EndReason::OutOfMemory)
    return 128 + SIGKILL;
  return kExitSandbox;
}

std::vector<std::string> breaches(const RunReport& report) {
  std::vector<std::string> lines;
  if (timed_out(report)) {
    lines.push_back(fmt::format("time limit exceeded: limit is {:.1f} s, used {:.1f} s",
                                static_cast<double>(report.timeout.count()) / 1000,
                                static_cast<double>(report.duration.count()) / 1000));
  }
  if (report.status.end == EndReason::CpuTime) {
    lines.push_back(fmt::format("CPU limit exceeded: limit is {:.1f} s, used {:.2f} s",
                                static_cast<double>(report.limits.cpu_time_us) / 1e6,
                                cpu_seconds(report)));
  }
  if (out_of_memory(report)) {
    lines.push_back(fmt::format(
        "memory limit exceeded: limit is {:.1f} MiB, peak {:.1f} MiB; {} process(es) killed",
        static_cast<double>(report.limits.memory_bytes) / kMiB, peak_mib(report),
        report.status.usage.oom_kills));
  }
  if (report.status.end == EndReason::InitDied) {
    lines.push_back("the sandbox ended unexpectedly" +
                    (report.status.detail.empty() ? "" : ": " + report.status.detail));
  }
  if (report.egress) {
    for (const std::string& line : report.egress->refused) lines.push_back("network: " + line);
  }
  if (!report.closed_output.empty())
    lines.push_back("nobody reads " + report.closed_output + " any more: ended");
  if (lines.empty() && report.no_spawn && report.exited && report.exited->code != 0) {
    lines.emplace_back(
        "note: the capability does not grant spawn_subprocess; starting a process was refused if "
        "it was tried");
  }
  return lines;
}

std::string summary_text(const RunReport& report) {
  std::string text = fmt::format(
      "[sandbox] finished  exit={}  duration={}ms  cpu={:.2f}s  mem={:.1f}MiB", exit_status(report),
      report.duration.count(), cpu_seconds(report), peak_mib(report));
  if (report.egress)
    text += fmt::format("  net={}/{}  up={:.1f}KiB  down={:.1f}KiB", report.egress->allowed,
                        report.egress->allowed + report.egress->denied,
                        static_cast<double>(report.egress->bytes_up) / 1024,
                        static_cast<double>(report.egress->bytes_down) / 1024);
  return text;
}

std::string summary_json(const RunReport& report) {
  boost::json::array lines;
  for (const std::string& line : breaches(report)) lines.push_back(boost::json::string(line));
  const bool by_signal = report.exited && report.exited->signal != 0;
  boost::json::value network;  // null without rules
  if (report.egress)
    network = boost::json::object{{"allowed", report.egress->allowed},
                                  {"denied", report.egress->denied},
                                  {"bytes_up", report.egress->bytes_up},
                                  {"bytes_down", report.egress->bytes_down}};
  return policy::json_text(boost::json::object{
      {"sandbox_id", report.sandbox_id},
      {"exit_code", exit_status(report)},
      {"signal",
       by_signal ? boost::json::value(report.exited->signal) : boost::json::value(nullptr)},
      {"duration_ms", report.duration.count()},
      {"cpu_seconds", cpu_seconds(report)},
      {"peak_memory_mb", peak_mib(report)},
      {"timed_out", timed_out(report)},
      {"oom_killed", out_of_memory(report)},
      {"end", engine::to_string(report.status.end)},
      {"network", network},
      {"messages", lines},
  });
}

}  // namespace caisson::cli
