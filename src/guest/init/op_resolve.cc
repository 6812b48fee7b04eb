// Resolve: where a path leads, as the guest's user sees it; and a file that is reached without any
// link. Whoever must know what a path means before it is opened asks the first, judges the answer,
// and opens that by the second: a link that the guest puts there in between leads nowhere.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/init/below.h"
#include "guest/init/op_child.h"

namespace caisson::init {

using wire::Step;

namespace {

constexpr int kLinksMax = 40;  // as many as the kernel follows

// A path in the making: `left` is what is still to be read, `known` what is settled, without links.
class Resolving {
 public:
  explicit Resolving(const char* path) { memcpy(left_, path, strlen(path) + 1); }

  // 0, or -errno.
  long run() {
    while (const char* name = next()) {
      if (strcmp(name, "..") == 0) {
        drop();
      } else if (!push(name) || !follow()) {
        return -ENAMETOOLONG;
      }
    }
    return 0;
  }
  [[nodiscard]] const char* path() const { return size_ == 0 ? "/" : known_; }

 private:
  // The next name that says something; null at the end.
  const char* next() {
    for (;;) {
      while (left_[at_] == '/') ++at_;
      if (left_[at_] == '\0') return nullptr;
      size_t size = 0;
      while (left_[at_ + size] != '/' && left_[at_ + size] != '\0') ++size;
      memcpy(name_, left_ + at_, size);
      name_[size] = '\0';
      at_ += size;
      if (strcmp(name_, ".") != 0) return name_;
    }
  }

  void drop() {
    while (size_ > 0 && known_[--size_] != '/') {
    }
    known_[size_] = '\0';
  }

  bool push(const char* name) {
    const size_t more = strlen(name);
    if (size_ + 1 + more > wire::kPathMax) return false;
    known_[size_++] = '/';
    memcpy(known_ + size_, name, more + 1);
    size_ += more;
    return true;
  }

  // When `known` ends in a link, what it names takes its place. One that turns in a circle stays as
  // it is, and whoever opens it is told so. False: too long.
  bool follow() {
    char target[wire::kPathMax + 1];
    const ssize_t got = links_ < kLinksMax ? readlink(known_, target, wire::kPathMax) : -1;
    if (got <= 0) return true;
    ++links_;
    const size_t size = static_cast<size_t>(got);
    const size_t rest = strlen(left_ + at_);
    if (size + rest > wire::kPathMax) return false;
    memmove(left_ + size, left_ + at_, rest + 1);
    memcpy(left_, target, size);
    at_ = 0;
    drop();
    if (target[0] == '/') size_ = 0;
    known_[size_] = '\0';
    return true;
  }

  int links_ = 0;
  size_t at_ = 0;
  size_t size_ = 0;
  char left_[wire::kPathMax + 1];
  char name_[wire::kPathMax + 1];
  char known_[wire::kPathMax + 1] = {};
};

}  // namespace

void op_resolve(OpChannel& channel, const OpRequest& request) {
  static Resolving resolving(request.path);
  const long done = resolving.run();
  if (done < 0) channel.fail(static_cast<int>(-done), Step::Resolve);
  struct stat info{};
  if (lstat(resolving.path(), &info) != 0) info = {};  // not there: an entry of no type
  channel.entry(info, resolving.path(), "", 0);
  channel.done(0, 1);
}

int open_parent_without_links(const char* parent, bool create) {
  const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return -errno;
  Below below(root);
  size_t size = strlen(parent);
  while (size > 1 && parent[size - 1] == '/') --size;
  const int folder = below.open(parent + 1, size - 1, create);
  if (folder != -ELOOP) return folder;
  // A file in the place of a folder is told as what it is.
  const int plain = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (plain < 0 && errno == ENOTDIR) return -ENOTDIR;
  if (plain >= 0) close(plain);
  return -ELOOP;
}

}  // namespace caisson::init
