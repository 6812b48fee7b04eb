// control/edit_file.h — the tool file_edit: one text in the place of another, inside a sandbox.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "control/edit_text.h"
#include "engine/channel/guest_channel.h"

namespace caisson::control {

struct FileEdit {
  std::string path;
  std::string old_text;
  std::string new_text;
  EditScope scope = EditScope::One;
};
[[nodiscard]] Result<FileEdit> file_edit_arguments(const boost::json::object& arguments);

// {"path", "replaced", "size"}. A link stays, and what it leads to is changed. The new content
// takes the old one's place in one step, unless the file has become another one meanwhile (Busy).
boost::asio::awaitable<Result<boost::json::object>> edit_file(
    std::shared_ptr<engine::GuestChannel> guest, engine::GuestUser user, FileEdit edit);

}  // namespace caisson::control
