// engine/native/slots.h — id ranges for sandboxes.
//
// Every sandbox runs in a *slot*: 65536 ids of the host that belong to nobody else, as a user
// namespace made ahead and held by descriptor. What lies on disk belongs to one *store range*; a
// slot carries a view of the store in which those owners appear as the slot's own. Which slots are
// taken is a table in one file: each launcher of this host locks its record there, and writes the
// sandbox's name into it before anything of that name is made. A lock goes with its process, so a
// record with a name and without a lock is what a killed launcher left: the next claimer cleans up
// first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/namespace.h"

namespace caisson::engine::native {

inline constexpr std::uint32_t kStoreBase = 1'000'000;
inline constexpr std::uint32_t kSlotBase = 2'000'000;
inline constexpr std::uint32_t kSlotsMax = 16'384;

class SlotTable {
 public:
  // Called with the name in a record whose launcher is gone, while the record is locked by us.
  using CleanUp = std::function<Result<void>(const std::string& id)>;

  [[nodiscard]] static Result<SlotTable> open(int launcher_dir);
  [[nodiscard]] static Result<SlotTable> open_in(int state_dir);

  // Takes away what killed launchers left, in every record. What cannot be taken away now stays on
  // record for the next one.
  [[nodiscard]] Result<void> sweep(const CleanUp& clean_up);
  [[nodiscard]] Result<std::uint32_t> claim(const CleanUp& clean_up);
  [[nodiscard]] Result<void> name(std::uint32_t slot,
                                  const SandboxId& id);  // before anything of that name exists
  [[nodiscard]] Result<void> clear(std::uint32_t slot);  // after the last thing of it is gone
  void release(std::uint32_t slot) noexcept;
  [[nodiscard]] int file() const noexcept { return file_.get(); }

 private:
  explicit SlotTable(UniqueFd file) : file_(std::move(file)), ours_(kSlotsMax, false) {}
  [[nodiscard]] bool lock(std::uint32_t slot) noexcept;
  [[nodiscard]] Result<std::string> read_name(std::uint32_t slot) const;

  UniqueFd file_;
  std::vector<bool> ours_;  // a lock never conflicts with its own holder: we must remember
};

// SlotTable::clear() for one who may not allocate: the table by its descriptor.
void clear_record(int table, std::uint32_t slot) noexcept;

// Which ids of the host (rootless: of the outer user namespace) stand behind those inside.
struct IdPlan {
  enum class Kind : std::uint8_t {
    Slot,    // 65536 of the host's that belong to nobody else
    SubIds,  // rootless: the tenant is the caller himself, so that his folders are his inside; the
             // rest are sub-ids
    Single,  // rootless without sub-ids: the tenant, and init, are the caller himself
  };
  Kind kind = Kind::Slot;
  std::uint32_t base = 0;        // Slot: the first
  std::uint32_t tenant_uid = 0;  // SubIds and Single: who the caller is inside
  std::uint32_t tenant_gid = 0;

  [[nodiscard]] bool single() const noexcept { return kind == Kind::Single; }
  [[nodiscard]] std::uint32_t host_uid(std::uint32_t inside) const noexcept {
    return host_id(inside, tenant_uid);
  }
  [[nodiscard]] std::uint32_t host_gid(std::uint32_t inside) const noexcept {
    return host_id(inside, tenant_gid);
  }
  [[nodiscard]] sys::IdMap users() const { return map(tenant_uid); }
  [[nodiscard]] sys::IdMap groups() const { return map(tenant_gid); }

 private:
  [[nodiscard]] std::uint32_t host_id(std::uint32_t inside, std::uint32_t tenant) const noexcept;
  [[nodiscard]] sys::IdMap map(std::uint32_t tenant) const;
};

// The owner of a host folder, who is to appear as the tenant inside.
struct FolderOwner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t tenant_uid = 0;
  std::uint32_t tenant_gid = 0;

  friend bool operator==(const FolderOwner&, const FolderOwner&) = default;
};

// A launch needs all of it, a running sandbox only its number: Supply::put_by().
struct Slot {
  std::uint32_t index = 0;
  IdPlan ids;
  UniqueFd user_namespace;
  UniqueFd store_namespace;  // the map that shows the store's owners as the slot's; none: rootless
  // The last owner whose folder was shown in this slot, and the map that makes him the tenant.
  std::optional<FolderOwner> folder_owner;
  UniqueFd folder_namespace;
};

// The map for idmapped mounts of a slot: the store range, and one folder owner who takes the
// tenant's place in it.
[[nodiscard]] sys::IdMap store_map(const IdPlan& ids, std::optional<std::uint32_t> owner,
                                   std::uint32_t tenant);

// Whether one map can serve for both. Not when the owner lies in the store range, nor when the
// tenant is the slot's root, whose place the store's own files need.
[[nodiscard]] bool fits_store_map(const FolderOwner& owner) noexcept;

}  // namespace caisson::engine::native
