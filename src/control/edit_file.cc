#include "control/edit_file.h"

#include <fmt/format.h>

#include "control/fleet.h"
#include "control/guest_path.h"
#include "control/text.h"
#include "control/tool_arguments.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::string_view kPathField = "arguments.path";
constexpr std::string_view kOldField = "arguments.old_text";

std::unexpected<Error> refused(const EditRefusal& refusal) {
  const std::string field(kOldField);
  switch (refusal.fault) {
    case EditFault::NotFound:
      break;
    case EditFault::LastLine:
      return bad_field(field, field +
                                  ": is not in the file, which does not end with a line feed; "
                                  "leave the one at the end of old_text out");
    case EditFault::Several:
      return bad_field(field,
                       fmt::format("{}: stands {} times in the file; add lines around it until it "
                                   "is the only one, or say replace_all",
                                   field, refusal.occurrences));
    case EditFault::TooLarge:
      return std::unexpected(Error{
          Errc::TooLarge,
          fmt::format("arguments.new_text: the file would be larger than {} bytes", kEditBytesMax),
          0, "arguments.new_text"});
  }
  return bad_field(field, field +
                              ": is not in the file; read it again and copy the text exactly, "
                              "spaces included");
}

std::unexpected<Error> too_large(const std::string& path) {
  return std::unexpected(
      Error{Errc::TooLarge,
            fmt::format("{}: '{}' is larger than {} bytes; edit it with a command", kPathField,
                        cut_text(path, 256), kToolFileBytesMax),
            0, std::string(kPathField)});
}

awaitable<Result<std::string>> read_whole(std::shared_ptr<engine::GuestChannel> guest,
                                          engine::GuestUser user, std::string path) {
  auto reader = co_await guest->read(user, path, 0, 0, /*no_links=*/true);
  if (!reader) co_return std::unexpected(reader.error());
  std::string content;
  for (;;) {
    const auto bytes = co_await (*reader)->next();
    if (!bytes) co_return std::unexpected(bytes.error());
    if (bytes->empty()) co_return content;
    if (content.size() + bytes->size() > kToolFileBytesMax) co_return too_large(path);
    content.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
}

bool same(const engine::FileEntry& left, const engine::FileEntry& right) {
  return left.inode == right.inode && left.size == right.size && left.mtime_ns == right.mtime_ns;
}

// Judged against `before` at the last moment there is.
awaitable<Result<void>> put_whole(std::shared_ptr<engine::GuestChannel> guest,
                                  engine::GuestUser user, std::string path, std::string content,
                                  engine::FileEntry before) {
  const engine::WriteOptions options{.mode = 0, .no_links = true};
  auto writer = co_await guest->write(user, path, options);
  if (!writer) co_return std::unexpected(writer.error());
  auto written = co_await (*writer)->write(std::as_bytes(std::span(content)));
  if (!written) co_return written;
  const auto now = co_await guest->stat(user, path, false);
  if (!now) co_return std::unexpected(now.error());
  if (!same(*now, before))
    co_return std::unexpected(Error{Errc::Busy,
                                    "arguments.path: the file was changed by somebody else while "
                                    "it was edited; read it and try again",
                                    0, std::string(kPathField)});
  auto done = co_await (*writer)->finish();
  if (!done) co_return std::unexpected(done.error());
  co_return Result<void>();
}

}  // namespace

Result<FileEdit> file_edit_arguments(const json::object& arguments) {
  ToolArguments read(arguments);
  FileEdit out;
  out.path = TRY(read.text("path", kPathBytesMax));
  out.old_text = TRY(read.text("old_text", kToolFileBytesMax));
  out.new_text = TRY(read.text("new_text", kToolFileBytesMax));
  out.scope = TRY(read.flag("replace_all")) ? EditScope::All : EditScope::One;
  TRY(read.finish());
  if (out.old_text.empty())
    return bad_field(std::string(kOldField),
                     "arguments.old_text: is empty; write a new file with file_write");
  if (out.old_text == out.new_text)
    return bad_field("arguments.new_text", "arguments.new_text: is the same as old_text");
  return out;
}

awaitable<Result<json::object>> edit_file(std::shared_ptr<engine::GuestChannel> guest,
                                          engine::GuestUser user, FileEdit edit) {
  auto path = guest_path(edit.path, kWorkspace, kPathField);
  if (!path) co_return std::unexpected(path.error());
  const auto place = co_await guest->resolve(user, *path);
  if (!place) co_return std::unexpected(place.error());
  const std::string target = place->name;
  const auto before = co_await guest->stat(user, target, false);
  if (!before) co_return std::unexpected(before.error());
  if (before->type != wire::EntryType::File)
    co_return bad_field(std::string(kPathField),
                        "arguments.path: '" + *path + "' is not a regular file");
  if (before->size > kToolFileBytesMax) co_return too_large(*path);
  const auto text = co_await read_whole(guest, user, target);
  if (!text) co_return std::unexpected(text.error());
  if (!is_utf8(*text))
    co_return bad_field(std::string(kPathField),
                        "arguments.path: '" + *path + "' is no text in UTF-8");
  auto edited = edit_text(*text, std::move(edit.old_text), std::move(edit.new_text), edit.scope);
  if (!edited) co_return refused(edited.error());
  const std::size_t size = edited->text.size();
  const auto put = co_await put_whole(guest, user, target, std::move(edited->text), *before);
  if (!put) co_return std::unexpected(put.error());
  co_return json::object{
      {"path", to_utf8(*path)}, {"replaced", edited->occurrences}, {"size", size}};
}

}  // namespace caisson::control
