// doors/rest/file_wishes.h — JSON bodies about images, snapshots and volumes as control's wishes.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <string>

#include "base/result.h"
#include "control/file_state.h"
#include "control/fleet.h"
#include "doors/rest/json_reader.h"

namespace caisson::rest {

inline constexpr std::size_t kReferenceBytesMax = 512;
inline constexpr std::size_t kSnapshotNameMax = 128;
inline constexpr std::size_t kVolumeNameMax = 40;
inline constexpr std::size_t kStateBytesMax = 600;  // "snapshot:", or "image:" and a reference
inline constexpr std::size_t kPasswordBytesMax = 16UL * 1024;
inline constexpr std::int64_t kVolumeBytesMin = 1LL << 20U;
inline constexpr std::int64_t kVolumeBytesMax = 16LL << 40U;

[[nodiscard]] std::map<std::string, std::string> read_labels(Fields& fields);
// Of a create: what its files are, and how long they last.
void read_file_state(Fields& fields, control::CreateWish& wish);

[[nodiscard]] Result<control::PullWish> pull_wish(const boost::json::object& body);
[[nodiscard]] Result<control::BuildWish> build_wish(const boost::json::object& body);
[[nodiscard]] Result<control::SnapshotWish> snapshot_wish(const boost::json::object& body);
[[nodiscard]] Result<control::ForkWish> fork_wish(const boost::json::object& body);
// Without a word about where to: back over one call.
[[nodiscard]] Result<control::UndoWish> undo_wish(const boost::json::object& body);
[[nodiscard]] Result<control::PromoteWish> promote_wish(const boost::json::object& body);
[[nodiscard]] Result<control::MergeWish> merge_wish(const boost::json::object& body);
[[nodiscard]] Result<std::uint64_t> volume_bytes(const boost::json::object& body);

}  // namespace caisson::rest
