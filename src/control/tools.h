// control/tools.h — the built-in tools: their schemas, the reading of their arguments, and the
// shape of their answers. What they do is fleet_tools.cc; edit and search have files of their own
// (edit_file.h, search_files.h).
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "control/fleet.h"
#include "egress/gate/tool_request.h"
#include "engine/channel/guest_channel.h"

namespace caisson::control {

inline constexpr std::string_view kShellExec = "shell_exec";
inline constexpr std::string_view kFileRead = "file_read";
inline constexpr std::string_view kFileWrite = "file_write";
inline constexpr std::string_view kFileList = "file_list";
inline constexpr std::string_view kHttpRequest = "http_request";
inline constexpr std::string_view kFileEdit = "file_edit";
inline constexpr std::string_view kFileSearch = "file_search";
inline constexpr std::string_view kRequestAccess = "request_access";
inline constexpr std::size_t kToolFileBytesMax = 8UL * 1024 * 1024;
inline constexpr std::size_t kToolEntriesMax = 10'000;
inline constexpr std::size_t kToolInputBytesMax = 8UL * 1024 * 1024;

// InvalidArgument that names those which exist.
[[nodiscard]] Result<void> check_tool_name(std::string_view tool, std::string_view field);
[[nodiscard]] boost::json::array tool_schemas();

// Arguments, each judged: an unknown one, a missing one and a wrong type name "arguments.x".
struct FileReadArguments {
  std::string path;
};
struct FileWriteArguments {
  std::string path;
  std::string content;  // decoded
};
struct FileListArguments {
  std::string path;
  bool recursive = false;
};
[[nodiscard]] Result<ExecWish> shell_exec_arguments(const boost::json::object& arguments);
[[nodiscard]] Result<FileReadArguments> file_read_arguments(const boost::json::object& arguments);
[[nodiscard]] Result<FileWriteArguments> file_write_arguments(const boost::json::object& arguments);
[[nodiscard]] Result<FileListArguments> file_list_arguments(const boost::json::object& arguments);

[[nodiscard]] Result<egress::ToolRequest> http_request_arguments(
    const boost::json::object& arguments);

[[nodiscard]] boost::json::object http_request_answer(const egress::ToolAnswer& answer);
[[nodiscard]] boost::json::object shell_exec_answer(const ExecOutcome& outcome);
[[nodiscard]] boost::json::object file_read_answer(std::string_view path, std::string_view content);
[[nodiscard]] boost::json::object file_list_answer(std::string_view path,
                                                   const engine::Listing& listing);
[[nodiscard]] std::string_view to_string(wire::EntryType type) noexcept;

}  // namespace caisson::control
