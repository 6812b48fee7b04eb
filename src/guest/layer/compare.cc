#include "guest/layer/compare.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{512} * 1024;

bool same_time(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

// One file of one layer that both states show. Nobody can set the time of the last change, so a
// file that was written to and then dated back is not taken for it.
bool is_one_file(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && same_time(a.st_mtim, b.st_mtim) && same_time(a.st_ctim, b.st_ctim);
}

Result<std::size_t> read_at(int file, std::vector<std::byte>& buffer, off_t at) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got =
        ::pread(file, buffer.data() + done, buffer.size() - done, at + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read a file", errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

off_t next_data(int file, off_t at, off_t end) {
  const off_t data = ::lseek(file, at, SEEK_DATA);
  if (data < 0) return errno == ENXIO ? end : at;
  return std::min(data, end);
}

Result<bool> same_bytes(const Spot& a, const Spot& b, const std::string& name, Meter& meter) {
  const UniqueFd first = TRY(open_file(a.folder, name));
  const UniqueFd second = TRY(open_file(b.folder, name));
  std::vector<std::byte> one(kPieceBytes);
  std::vector<std::byte> two(kPieceBytes);
  const off_t end = a.facts->st_size;
  for (off_t at = 0; at < end;) {
    // What is a hole in both is the same.
    at = std::min(next_data(first.get(), at, end), next_data(second.get(), at, end));
    if (at >= end) break;
    const std::size_t got_one = TRY(read_at(first.get(), one, at));
    const std::size_t got_two = TRY(read_at(second.get(), two, at));
    meter.add_in(got_one + got_two);
    if (got_one != got_two || std::memcmp(one.data(), two.data(), got_one) != 0) return false;
    if (got_one == 0) break;
    at += static_cast<off_t>(got_one);
  }
  return true;
}

}  // namespace

Result<Spot> look(int folder, const std::string& name) {
  Spot spot{folder, TRY(find_entry(folder, name))};
  if (spot.facts && S_ISSOCK(spot.facts->st_mode)) spot.facts.reset();
  return spot;
}

Result<UniqueFd> enter(const Spot& spot, const std::string& name) {
  if (!spot.is_folder()) return UniqueFd();
  return open_folder(spot.folder, name);
}

Result<std::vector<std::string>> list_both(int a, int b, std::uint64_t names_max) {
  std::vector<std::string> first;
  std::vector<std::string> second;
  if (a >= 0) first = TRY(list_folder(a, names_max));
  if (b >= 0) second = TRY(list_folder(b, names_max));
  std::vector<std::string> all;
  std::ranges::set_union(first, second, std::back_inserter(all));
  return all;
}

bool same_type(const Spot& a, const Spot& b) noexcept {
  return a.exists() && b.exists() && (a.facts->st_mode & S_IFMT) == (b.facts->st_mode & S_IFMT);
}

bool same_mode(const Spot& a, const Spot& b) noexcept {
  return a.facts->st_mode == b.facts->st_mode && a.facts->st_uid == b.facts->st_uid &&
         a.facts->st_gid == b.facts->st_gid;
}

Result<bool> same_content(const Spot& a, const Spot& b, const std::string& name, Meter& meter) {
  const mode_t mode = a.facts->st_mode;
  if (S_ISLNK(mode)) {
    const std::string first = TRY(read_link(a.folder, name));
    const std::string second = TRY(read_link(b.folder, name));
    return first == second;
  }
  if (!S_ISREG(mode)) return true;
  if (a.facts->st_size != b.facts->st_size) return false;
  if (is_one_file(*a.facts, *b.facts)) return true;
  return same_bytes(a, b, name, meter);
}

Result<bool> same_entry(const Spot& a, const Spot& b, const std::string& name, Meter& meter) {
  if (!a.exists() && !b.exists()) return true;
  if (!same_type(a, b) || !same_mode(a, b)) return false;
  return same_content(a, b, name, meter);
}

}  // namespace caisson::layer
