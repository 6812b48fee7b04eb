#include "cli/client_pull_board.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/client_progress.h"
#include "cli/client_text.h"
#include "cli/terminal.h"

namespace caisson::cli {
namespace {

constexpr milliseconds kDrawEvery{100};
constexpr std::size_t kDigestShown = 12;

bool is_done(const PullStep& row) {
  return row.stage == "unpack" && row.total > 0 && row.done >= row.total;
}

std::string title(const PullStep& row) {
  if (row.layer.empty()) return shown(row.stage, 16);
  return short_digest(row.layer) + " " + shown(row.stage, 16);
}

}  // namespace

std::string short_digest(const std::string& digest) {
  const std::size_t colon = digest.find(':');
  const std::string rest = colon == std::string::npos ? digest : digest.substr(colon + 1);
  return shown(rest.substr(0, kDigestShown));
}

std::optional<std::string> PullBoard::take(const PullStep& step) {
  const auto at = std::ranges::find(rows_, step.layer, &PullStep::layer);
  if (at == rows_.end() && rows_.size() >= kPullRowsMax) return std::nullopt;
  const bool news = at == rows_.end() || at->stage != step.stage;
  if (at == rows_.end()) {
    rows_.push_back(step);
  } else {
    *at = step;
  }
  if (!news) return std::nullopt;
  std::string line = title(step);
  if (step.total > 0) line += " " + size_text(step.total);
  return line;
}

std::vector<std::string> PullBoard::lines(std::size_t width, std::size_t height,
                                          double seconds) const {
  std::vector<std::string> out;
  std::size_t hidden = 0;
  std::size_t done = 0;
  for (const PullStep& row : rows_) {
    if (row.layer.empty() && rows_.size() > 1) continue;  // the layers say more
    if (is_done(row)) {
      ++done;
    } else if (out.size() + 1 >= height) {
      ++hidden;
    } else {
      const auto total = row.total > 0 ? std::optional(row.total) : std::nullopt;
      out.push_back(progress_line(title(row), row.done, total, seconds, width));
    }
  }
  std::string rest;
  if (hidden > 0) rest = fmt::format("and {} more", hidden);
  if (done > 0) rest += fmt::format("{}{} done", rest.empty() ? "" : ", ", done);
  if (!rest.empty()) out.push_back(shown(rest, width));
  return out;
}

PullScreen::PullScreen(bool quiet)
    : quiet_(quiet),
      person_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_(start_ + kDrawEvery) {}

PullScreen::~PullScreen() { erase(); }

void PullScreen::erase() {
  if (drawn_ > 0) fmt::print(stderr, "\x1b[{}A\r\x1b[J", drawn_);
  drawn_ = 0;
}

void PullScreen::take(const PullStep& step) {
  const auto line = board_.take(step);
  if (quiet_) return;
  if (!person_) {
    if (line) fmt::print(stderr, "{}\n", *line);
    return;
  }
  const TimePoint now = Clock::now();
  if (now < next_) return;
  next_ = now + kDrawEvery;
  const WindowSize size = window_size(STDERR_FILENO);
  const std::size_t width = std::max<std::size_t>(size.columns, 20) - 1;
  const std::size_t height = std::max<std::size_t>(size.rows, 4) - 2;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  erase();
  for (const std::string& text : board_.lines(width, height, seconds)) {
    fmt::print(stderr, "{}\n", text);
    ++drawn_;
  }
}

}  // namespace caisson::cli
