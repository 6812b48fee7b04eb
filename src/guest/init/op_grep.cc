// Grep: the lines that match an extended regular expression, in one file or in all below a folder,
// in the order of their names. Links are neither followed nor searched, and what is no regular file
// is never read from. The expression is musl's, asked line by line; plain bytes that every match
// holds are looked for first.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/glob.h"
#include "guest/init/grep_pattern.h"
#include "guest/init/line_matcher.h"
#include "guest/init/name_walker.h"
#include "guest/init/op_child.h"
#include "guest/init/op_strings.h"
#include "guest/init/search.h"
#include "guest/init/sys.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr size_t kWindowBytes = 1024UL * 1024;  // of a file at once; a longer line is no text

class Grep {
 public:
  Grep(OpChannel& channel, const char* pattern, const char* name_glob, uint64_t matches_max)
      : channel_(channel),
        matcher_(channel, pattern),
        name_glob_(name_glob),
        left_(matches_max),
        window_(reinterpret_cast<char*>(map_unshared(kWindowBytes + 1))) {
    if (window_ == nullptr) channel.fail(ENOMEM, Step::Io);
  }

  [[nodiscard]] bool wants(const char* name) const {
    return name_glob_[0] == '\0' || glob_name(name_glob_, name);
  }
  // What `name` in `folder` is called in the answer is `shown`. 0, or -errno.
  int search(int folder, const char* name, const char* shown);
  void count_unreadable() { ++unreadable_; }
  [[noreturn]] void finish(bool more) { channel_.done(unreadable_, more ? 1 : 0); }

 private:
  size_t fill(int fd, size_t held, bool& ended);
  void search_file(int fd, const char* shown);
  void search_lines(char* begin, char* end, const char* shown, uint64_t first_line);
  void tell(uint64_t line, const char* shown, const char* text, size_t size);

  OpChannel& channel_;
  LineMatcher matcher_;
  const char* name_glob_;
  uint64_t left_;
  uint64_t unreadable_ = 0;
  char* window_;
};

uint64_t count_lines(const char* begin, const char* end) {
  uint64_t count = 0;
  for (; begin < end; ++begin) count += *begin == '\n' ? 1 : 0;
  return count;
}

int Grep::search(int folder, const char* name, const char* shown) {
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return -errno;
  struct stat info{};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && !on_proc(fd)) search_file(fd, shown);
  close_fd(fd);
  return 0;
}

// Reads behind what is held until the window is full or the file has ended.
size_t Grep::fill(int fd, size_t held, bool& ended) {
  while (held < kWindowBytes) {
    const ssize_t got = read(fd, window_ + held, kWindowBytes - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) count_unreadable();
    ended = got <= 0;
    if (ended) break;
    held += static_cast<size_t>(got);
  }
  return held;
}

void Grep::search_file(int fd, const char* shown) {
  uint64_t line = 1;
  size_t held = 0;
  for (bool ended = false; !ended;) {
    const size_t size = fill(fd, held, ended);
    if (memchr(window_ + held, 0, size - held) != nullptr) return;  // not a text
    const void* last = memrchr(window_, '\n', size);
    if (last == nullptr && !ended) return;
    char* end = ended ? window_ + size : window_ + (static_cast<const char*>(last) - window_) + 1;
    search_lines(window_, end, shown, line);
    if (ended) return;
    line += count_lines(window_, end);
    held = static_cast<size_t>(window_ + size - end);
    memmove(window_, end, held);
  }
}

// `end[0]` may be written to.
void Grep::search_lines(char* begin, char* end, const char* shown, uint64_t first_line) {
  const char* counted = begin;
  for (char* at = begin; at < end;) {
    char* from = at;
    char* look = at;
    if (matcher_.needle_size() != 0) {
      look = matcher_.find_needle(at, end);
      if (look == nullptr) return;
      void* before = memrchr(at, '\n', static_cast<size_t>(look - at));
      if (before != nullptr) from = static_cast<char*>(before) + 1;
    }
    void* newline = memchr(look, '\n', static_cast<size_t>(end - look));
    char* to = newline != nullptr ? static_cast<char*>(newline) : end;
    if (matcher_.matches(from, static_cast<size_t>(to - from))) {
      first_line += count_lines(counted, from);
      counted = from;
      tell(first_line, shown, from, static_cast<size_t>(to - from));
    }
    at = to + 1;
  }
}

void Grep::tell(uint64_t line, const char* shown, const char* text, size_t size) {
  if (left_ == 0) finish(true);
  --left_;
  channel_.match(line, shown, text, cut_at(text, size, wire::kMatchTextMax));
}

// It went, or is what is never opened.
bool is_no_file(int error) {
  return error == ENOENT || error == ELOOP || error == ENXIO || error == ENODEV || error == ENOTDIR;
}

void search_below(OpChannel& channel, Grep& grep, const Pruning& pruning, int folder) {
  static NameWalker walker;
  if (!walker.open(folder)) fail_walk(channel, walker);
  for (;;) {
    const NameWalker::Step step = walker.next();
    if (step == NameWalker::Step::Failed) fail_walk(channel, walker);
    if (step == NameWalker::Step::End) return;
    if (walker.type() == DT_DIR) {
      if (pruning.covers(walker.name())) continue;
      if (!walker.descend() && !may_be_skipped(walker.error())) fail_walk(channel, walker);
    } else if (walker.type() == DT_REG && grep.wants(walker.name())) {
      const int searched = grep.search(walker.folder(), walker.name(), walker.path());
      if (searched < 0 && !is_no_file(-searched)) grep.count_unreadable();
    }
  }
}

const char* last_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

}  // namespace

void op_grep(OpChannel& channel, const OpRequest& request) {
  static OpStrings strings(channel, wire::kPatternBytesMax);
  const char* pattern = strings.next();
  const char* name_glob = strings.next();
  if (pattern == nullptr || name_glob == nullptr) channel.fail(EINVAL, Step::Request);
  static Grep grep(channel, pattern, name_glob, request.body.length);
  static Pruning pruning(channel, strings);
  struct stat info{};
  if (lstat(request.path, &info) != 0) channel.fail(errno, Step::Resolve);
  if (S_ISREG(info.st_mode) && grep.wants(last_name(request.path))) {
    const int searched = grep.search(AT_FDCWD, request.path, "");
    if (searched < 0) channel.fail(-searched, Step::Resolve);
  }
  if (S_ISDIR(info.st_mode)) {
    search_below(channel, grep, pruning, open_search(channel, request.path, O_NOFOLLOW));
  }
  grep.finish(false);
}

}  // namespace caisson::init
