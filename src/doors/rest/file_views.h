// doors/rest/file_views.h — images, snapshots, changes and volumes as JSON.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string_view>

#include "control/file_state.h"
#include "engine/layers.h"

namespace caisson::rest {

[[nodiscard]] boost::json::object to_json(const control::ImageView& view);
[[nodiscard]] boost::json::object to_json(const control::ImageProgress& progress);
[[nodiscard]] boost::json::object to_json(const control::GarbageView& view);
[[nodiscard]] boost::json::object to_json(const control::SnapshotView& view);
[[nodiscard]] boost::json::object to_json(const control::UndoView& view);
[[nodiscard]] boost::json::object to_json(const control::Change& change);
// Of a merge that was applied.
[[nodiscard]] boost::json::object to_json(const control::MergeView& view);
[[nodiscard]] boost::json::object to_json(const control::VolumeView& view);
[[nodiscard]] boost::json::object to_json(const engine::PoolFacts& facts);

[[nodiscard]] std::string_view storage_name(engine::Storage storage) noexcept;
[[nodiscard]] std::string_view checkpoint_name(control::Checkpoints checkpoint) noexcept;
[[nodiscard]] boost::json::array to_json(const std::vector<control::VolumeUse>& volumes);

}  // namespace caisson::rest
