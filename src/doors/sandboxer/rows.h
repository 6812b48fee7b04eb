// doors/sandboxer/rows.h — what a client sees of its sandboxes, living and terminated, and how they
// come from each other. All rows are in memory; each is kept as JSON in control's history, too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/history.h"

namespace caisson::sandboxer {

class MainProcess;

inline constexpr std::size_t kIdLength = 64;
inline constexpr std::size_t kLabelBytesMax = 1024;
inline constexpr std::string_view kUserDeleted = "user_deleted";
inline constexpr std::string_view kMainEnded = "container_stopped";
inline constexpr std::string_view kCoalesced = "coalesced";
inline constexpr std::string_view kStartupSync = "startup_sync";
inline constexpr std::string_view kImported = "imported";

struct Row {
  std::string id;    // 64 hex digits
  std::string name;  // the sandbox's own id
  std::string tenant;
  std::string label;
  std::string image;
  std::string hostname;
  std::string parent;  // id of the row it was forked from, or empty
  bool interactive = false;
  bool is_public = false;            // when it was changed here last; Services::is_public() knows
  std::vector<std::string> command;  // of the main process; of one that has ended, none
  std::uint16_t port = 0;            // the lowest that the image exposes; 0: none
  store::WallTime created = 0;
  store::WallTime last_active = 0;
  std::optional<store::WallTime> deleted_at;
  std::string delete_reason;
  std::uint32_t process = 0;     // number of the main process inside; 0: none
  std::optional<int> exit_code;  // of it

  // Of this server's life only.
  std::shared_ptr<MainProcess> main{};
  bool ending = false;  // somebody ends it; he says why

  [[nodiscard]] bool living() const noexcept { return !deleted_at; }
  [[nodiscard]] std::optional<std::string> parent_or_null() const {
    return parent.empty() ? std::nullopt : std::optional(parent);
  }
};
using RowPtr = std::shared_ptr<Row>;

[[nodiscard]] control::Listing listing_of(const Row& row);
[[nodiscard]] Result<Row> row_of(const control::Listing& listing);
// A fresh id: nobody can guess one.
[[nodiscard]] Result<std::string> fresh_id();
[[nodiscard]] bool is_id(std::string_view text) noexcept;

class Rows {
 public:
  void add(RowPtr row);
  void remove(const RowPtr& row);
  void set_parent(const RowPtr& row, std::string parent);

  [[nodiscard]] RowPtr by_id(std::string_view id) const;
  [[nodiscard]] RowPtr by_name(std::string_view name) const;
  // Oldest first.
  [[nodiscard]] std::vector<RowPtr> of_tenant(std::string_view tenant) const;
  // Of the same tenant: what an import says of a parent may be anything.
  [[nodiscard]] std::vector<RowPtr> children(std::string_view id) const;
  // A row and everything below it, living ones only when asked for.
  [[nodiscard]] std::vector<RowPtr> subtree(const RowPtr& top, bool living_only) const;
  [[nodiscard]] std::vector<RowPtr> all() const;
  [[nodiscard]] std::size_t count(std::string_view tenant) const;
  [[nodiscard]] std::size_t size() const noexcept { return by_id_.size(); }
  // The oldest terminated row of a tenant with nothing living below it; null when there is none.
  [[nodiscard]] RowPtr forgettable(std::string_view tenant) const;

 private:
  using Key = std::pair<store::WallTime, std::string>;  // created, id
  [[nodiscard]] static Key key_of(const Row& row) { return {row.created, row.id}; }

  std::map<std::string, RowPtr, std::less<>> by_id_;
  std::map<std::string, RowPtr, std::less<>> by_name_;
  std::map<std::string, std::map<Key, RowPtr>, std::less<>> by_tenant_;
  std::map<std::string, std::map<Key, RowPtr>, std::less<>> by_parent_;
};

}  // namespace caisson::sandboxer
