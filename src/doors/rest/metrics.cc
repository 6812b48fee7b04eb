#include "doors/rest/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace caisson::rest {
namespace {

void one(std::string& out, std::string_view name, std::string_view type, std::string_view help,
         std::uint64_t value) {
  fmt::format_to(std::back_inserter(out), "# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help,
                 type, value);
}

}  // namespace

Metrics::Metrics(std::span<const Route> table) : table_(table), routes_(table.size() + 1) {}

void Metrics::count(std::size_t route, unsigned status, microseconds took) {
  PerRoute& own = routes_[std::min(route, table_.size())];
  const auto found = std::ranges::find(own.statuses, status, &std::pair<unsigned, uint64_t>::first);
  if (found != own.statuses.end()) {
    ++found->second;
  } else {
    own.statuses.emplace_back(status, 1);
  }
  const double seconds = std::chrono::duration<double>(took).count();
  const auto* bucket = std::ranges::lower_bound(kBuckets, seconds);
  ++own.buckets[static_cast<std::size_t>(bucket - kBuckets.begin())];
  ++own.requests;
  own.seconds += seconds;
}

std::string Metrics::labels(std::size_t route) const {
  if (route == table_.size()) return R"(route="",method="")";
  return fmt::format(R"(route="{}",method="{}")", table_[route].pattern,
                     http::to_string(table_[route].method));
}

std::string Metrics::text() const {
  std::string out =
      "# HELP caisson_http_requests_total Answered requests by route and status.\n"
      "# TYPE caisson_http_requests_total counter\n";
  auto into = std::back_inserter(out);
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    for (const auto& [status, count] : routes_[i].statuses) {
      fmt::format_to(into, "caisson_http_requests_total{{{},status=\"{}\"}} {}\n", labels(i),
                     status, count);
    }
  }
  out +=
      "# HELP caisson_http_request_seconds Time from the request's head to the end of its answer.\n"
      "# TYPE caisson_http_request_seconds histogram\n";
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const PerRoute& own = routes_[i];
    if (own.requests == 0) continue;
    std::uint64_t sum = 0;
    for (std::size_t b = 0; b < own.buckets.size(); ++b) {
      sum += own.buckets[b];
      const std::string bound = b < kBuckets.size() ? fmt::format("{}", kBuckets[b]) : "+Inf";
      fmt::format_to(into, "caisson_http_request_seconds_bucket{{{},le=\"{}\"}} {}\n", labels(i),
                     bound, sum);
    }
    fmt::format_to(into, "caisson_http_request_seconds_sum{{{}}} {}\n", labels(i), own.seconds);
    fmt::format_to(into, "caisson_http_request_seconds_count{{{}}} {}\n", labels(i), own.requests);
  }
  return out;
}

std::string fleet_metrics(const control::FleetCounters& fleet, const store::Store::Counters& store,
                          std::uint64_t login_failures, std::size_t streams,
                          std::string_view version) {
  std::string out = fmt::format(
      "# HELP caisson_build_info The version that runs.\n# TYPE caisson_build_info gauge\n"
      "caisson_build_info{{version=\"{}\"}} 1\n",
      version);
  one(out, "caisson_sandboxes_living", "gauge", "Sandboxes that live now.", fleet.living);
  one(out, "caisson_sandboxes_resting", "gauge", "Of these, at rest until they are used.",
      fleet.resting);
  one(out, "caisson_sandboxes_rested_total", "counter", "How often a sandbox went to rest.",
      fleet.rested);
  one(out, "caisson_sandboxes_created_total", "counter", "Sandboxes made.", fleet.created);
  one(out, "caisson_sandboxes_ended_total", "counter", "Sandboxes that ended.", fleet.ended);
  one(out, "caisson_sandboxes_failed_total", "counter", "Creates that failed.", fleet.failed);
  one(out, "caisson_execs_total", "counter", "Commands started.", fleet.execs);
  one(out, "caisson_denied_total", "counter", "Calls that a policy denied.", fleet.denied);
  one(out, "caisson_model_calls_total", "counter", "Calls of language models.", fleet.model_calls);
  one(out, "caisson_model_tokens_total", "counter", "Tokens that they used.", fleet.model_tokens);
  one(out, "caisson_egress_allowed_total", "counter", "Ways out that a rule allowed.",
      fleet.egress_allowed);
  one(out, "caisson_egress_denied_total", "counter", "Ways out that were refused.",
      fleet.egress_denied);
  one(out, "caisson_egress_bytes_up_total", "counter", "Bytes sent out of sandboxes.",
      fleet.egress_bytes_up);
  one(out, "caisson_egress_bytes_down_total", "counter", "Bytes let into sandboxes.",
      fleet.egress_bytes_down);
  one(out, "caisson_login_failures_total", "counter", "Tokens that were refused.", login_failures);
  one(out, "caisson_streams_open", "gauge", "Event streams and WebSockets open now.", streams);
  one(out, "caisson_audit_rows_total", "counter", "Rows of the audit written.", store.rows);
  one(out, "caisson_store_commits_total", "counter", "Commits of the store.", store.commits);
  one(out, "caisson_store_failures_total", "counter", "Writes that failed.", store.failures);
  one(out, "caisson_store_waiting", "gauge", "Writes that wait now.", store.waiting);
  return out;
}

}  // namespace caisson::rest
