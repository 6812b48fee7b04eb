// control/search_files.h — the tool file_search: lines by a regular expression, or paths by a glob.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/channel/guest_channel.h"

namespace caisson::control {

inline constexpr std::int64_t kSearchResultsDefault = 200;
inline constexpr std::int64_t kSearchResultsMax = 1000;
inline constexpr std::size_t kSearchPatternBytesMax = 4096;
inline constexpr std::size_t kSearchLineBytesMax = 1000;  // of a line that is shown

struct FileSearch {
  std::string path;
  std::optional<std::string> pattern;  // POSIX, extended
  std::string glob;
  std::vector<std::string> exclude;  // names of folders that nobody looks into
  std::size_t results_max = 0;
};
[[nodiscard]] Result<FileSearch> file_search_arguments(const boost::json::object& arguments);

// With a pattern {"path", "matches": [{"path", "line", "text"}], "truncated", "unreadable"}, else
// {"path", "files": [{"path", "type", "size"}], "truncated"}; by path. Links are not followed.
boost::asio::awaitable<Result<boost::json::object>> search_files(
    std::shared_ptr<engine::GuestChannel> guest, engine::GuestUser user, FileSearch search);

}  // namespace caisson::control
