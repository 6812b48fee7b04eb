#include "engine/native/slots.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "engine/launch_request.h"
#include "sys/file.h"

namespace caisson::engine::native {
namespace {

constexpr std::size_t kRecordBytes = 32;
// The first few are tried in order, so that what a killed command left is found by the next one;
// then from anywhere, so that a thousand live sandboxes do not cost a thousand attempts.
constexpr std::uint32_t kInOrder = 8;

off_t offset_of(std::uint32_t slot) noexcept { return static_cast<off_t>(slot * kRecordBytes); }

struct flock record_lock(std::uint32_t slot, short type) noexcept {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = offset_of(slot);
  lock.l_len = kRecordBytes;
  return lock;
}

Result<void> write_record(int file, std::uint32_t slot, std::string_view name) {
  std::array<char, kRecordBytes> record{};
  name.copy(record.data(), record.size());
  if (::pwrite(file, record.data(), record.size(), offset_of(slot)) !=
      static_cast<ssize_t>(record.size())) {
    return sys_failure("write the slot table", errno);
  }
  return {};
}

}  // namespace

Result<SlotTable> SlotTable::open(int launcher_dir) {
  UniqueFd file = TRY(sys::open_at(launcher_dir, "slots", O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  return SlotTable(TRY(sys::park(std::move(file))));
}

Result<SlotTable> SlotTable::open_in(int state_dir) {
  const UniqueFd launcher = TRY(sys::open_at(state_dir, "launcher", O_RDONLY | O_DIRECTORY));
  return open(launcher.get());
}

bool SlotTable::lock(std::uint32_t slot) noexcept {
  if (ours_[slot]) return false;
  struct flock want = record_lock(slot, F_WRLCK);
  if (::fcntl(file_.get(), F_OFD_SETLK, &want) != 0) return false;
  ours_[slot] = true;
  return true;
}

Result<std::string> SlotTable::read_name(std::uint32_t slot) const {
  std::array<char, kRecordBytes> record{};
  const ssize_t got = ::pread(file_.get(), record.data(), record.size(), offset_of(slot));
  if (got < 0) return sys_failure("read the slot table", errno);
  const std::string_view text(record.data(), static_cast<std::size_t>(got));
  return std::string(text.substr(0, text.find('\0')));
}

Result<void> SlotTable::sweep(const CleanUp& clean_up) {
  std::vector<char> table(kSlotsMax * kRecordBytes);
  const ssize_t got = ::pread(file_.get(), table.data(), table.size(), 0);
  if (got < 0) return sys_failure("read the slot table", errno);
  for (std::uint32_t slot = 0; slot * kRecordBytes < static_cast<std::size_t>(got); ++slot) {
    if (table[slot * kRecordBytes] == '\0' || !lock(slot)) continue;
    // Once more, now that nobody else can write it.
    const std::string name = TRY(read_name(slot));
    if (!SandboxId::parse(name) || clean_up(name)) TRY(clear(slot));
    release(slot);
  }
  return {};
}

Result<std::uint32_t> SlotTable::claim(const CleanUp& clean_up) {
  std::uint32_t random = 0;
  TRY(sys::random_bytes(std::as_writable_bytes(std::span(&random, 1))));
  const std::uint32_t start = random % kSlotsMax;
  for (std::uint32_t attempt = 0; attempt < kSlotsMax + kInOrder; ++attempt) {
    const std::uint32_t slot = attempt < kInOrder ? attempt : (start + attempt) % kSlotsMax;
    if (!lock(slot)) continue;
    const std::string name = TRY(read_name(slot));
    if (name.empty()) return slot;
    // What cannot be taken away now keeps its slot, and is no reason to refuse a sandbox another
    // one.
    if (SandboxId::parse(name) && !clean_up(name)) {
      release(slot);
      continue;
    }
    TRY(clear(slot));
    return slot;
  }
  return failure(Errc::Exhausted,
                 "id ranges: all " + std::to_string(kSlotsMax) + " slots of this host are taken");
}

Result<void> SlotTable::name(std::uint32_t slot, const SandboxId& id) {
  return write_record(file_.get(), slot, id.str());
}
Result<void> SlotTable::clear(std::uint32_t slot) { return write_record(file_.get(), slot, ""); }

void SlotTable::release(std::uint32_t slot) noexcept {
  struct flock free = record_lock(slot, F_UNLCK);
  (void)::fcntl(file_.get(), F_OFD_SETLK, &free);
  ours_[slot] = false;
}

void clear_record(int table, std::uint32_t slot) noexcept {
  const std::array<char, kRecordBytes> empty{};
  (void)!::pwrite(table, empty.data(), empty.size(), offset_of(slot));
}

std::uint32_t IdPlan::host_id(std::uint32_t inside, std::uint32_t tenant) const noexcept {
  switch (kind) {
    case Kind::Slot:
      return base + inside;
    case Kind::SubIds:
      return inside == tenant ? 0 : inside < tenant ? inside + 1 : inside;
    case Kind::Single:
      return 0;
  }
  return 0;
}

sys::IdMap IdPlan::map(std::uint32_t tenant) const {
  switch (kind) {
    case Kind::Slot:
      return {{0, base, kIdsPerSlot}};
    case Kind::Single:
      return {{tenant, 0, 1}};
    case Kind::SubIds:
      break;
  }
  sys::IdMap parts;
  if (tenant > 0) parts.push_back({0, 1, tenant});
  parts.push_back({tenant, 0, 1});
  parts.push_back({tenant + 1, tenant + 1, kIdsPerSlot - tenant - 1});
  return parts;
}

sys::IdMap store_map(const IdPlan& ids, std::optional<std::uint32_t> owner, std::uint32_t tenant) {
  if (!owner) return {{kStoreBase, ids.base, kIdsPerSlot}};
  sys::IdMap map;
  if (tenant > 0) map.push_back({kStoreBase, ids.base, tenant});
  map.push_back({*owner, ids.base + tenant, 1});
  map.push_back({kStoreBase + tenant + 1, ids.base + tenant + 1, kIdsPerSlot - tenant - 1});
  return map;
}

bool fits_store_map(const FolderOwner& owner) noexcept {
  return owner.uid < kStoreBase && owner.gid < kStoreBase && owner.tenant_uid != 0 &&
         owner.tenant_gid != 0;
}

}  // namespace caisson::engine::native
