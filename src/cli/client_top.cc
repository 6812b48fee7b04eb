#include "cli/client_top.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"
#include "cli/terminal.h"

namespace caisson::cli {
namespace {

Result<std::vector<TopRow>> look(const Session& session) {
  const auto listing = TRY(session.json("GET", "/api/v1/sandboxes"));
  std::vector<TopRow> rows;
  for (const auto& one : list_at(listing, "sandboxes")) {
    if (rows.size() >= kTopRowsMax) break;
    auto usage = session.json("GET", sandbox_target(text_at(one, "id"), "usage"));
    // One that ends between the two calls is simply not there any more.
    if (!usage && exit_status_of(usage.error()) == kExitUnreachable)
      return std::unexpected(usage.error());
    if (usage) rows.push_back({one, std::move(*usage)});
  }
  return rows;
}

// As many lines as the terminal has, so that the heading stays in sight.
std::string first_lines(const std::string& text, std::size_t lines) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < lines && at != std::string::npos; ++i) {
    at = text.find('\n', at);
    if (at != std::string::npos) ++at;
  }
  return at == std::string::npos ? text : text.substr(0, at);
}

}  // namespace

std::string top_table(const std::vector<TopRow>& rows, CpuMarks& marks, double now) {
  struct Line {
    double share;
    std::vector<std::string> cells;
  };
  std::vector<Line> lines;
  CpuMarks next;
  for (const TopRow& row : rows) {
    const std::string id = text_at(row.sandbox, "id");
    const CpuMark mark{number_at(row.usage, "cpu_seconds"), number_at(row.usage, "wall_seconds")};
    const auto before = marks.find(id);
    // At the first look, the share of its whole life.
    const CpuMark from = before == marks.end() ? CpuMark{} : before->second;
    const double wall = mark.wall - from.wall;
    const double share = wall > 0 ? std::max(0.0, 100 * (mark.cpu - from.cpu) / wall) : 0;
    next[id] = mark;
    const auto created = parse_time(text_at(row.sandbox, "created_at"));
    lines.push_back(
        {share,
         {id, text_at(row.sandbox, "name"), text_at(row.sandbox, "state"),
          created ? age_text(now - *created) : "", fmt::format("{:.1f}", share),
          fmt::format("{:.2f}", mark.cpu), size_text(count_at(row.usage, "memory_bytes")),
          size_text(count_at(row.usage, "memory_peak_bytes")),
          fmt::to_string(count_at(row.usage, "processes")),
          fmt::to_string(count_at(row.usage, "execs"))}});
  }
  marks = std::move(next);
  std::ranges::sort(lines, [](const Line& a, const Line& b) {
    return a.share != b.share ? a.share > b.share : a.cells[0] < b.cells[0];
  });
  Table table({"ID", "NAME", "STATE", "AGE", "CPU%", "CPU-S", "MEMORY", "PEAK", "PROCS", "EXECS"});
  for (Line& line : lines) table.add(std::move(line.cells));
  return table.text();
}

int top_command(std::span<char*> args) {
  CommandLine line("Shows what the sandboxes use, busiest first, again and again.");
  ClientOptions options;
  bool once = false;
  double every = 2;
  add_client_options(line, options, JsonFlag::None);
  line.flag("--once", once, "one look, then end");
  line.fraction("--every", every, 0.2, 3600, "SECONDS", "between two looks (default 2)");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const bool screen = ::isatty(STDOUT_FILENO) == 1 && !once;
  CpuMarks marks;
  for (;;) {
    const auto rows = look(*session);
    if (!rows) return session->fail(rows.error());
    std::string text = top_table(*rows, marks, wall_seconds());
    if (screen) {
      const std::size_t lines = window_size(STDOUT_FILENO).rows;
      text = "\x1b[H\x1b[2J" + first_lines(text, std::max<std::size_t>(lines, 2) - 1);
    }
    if (!print_out(text)) return kExitFailed;
    if (once) return kExitOk;
    ::poll(nullptr, 0, static_cast<int>(every * 1000));
  }
}

}  // namespace caisson::cli
