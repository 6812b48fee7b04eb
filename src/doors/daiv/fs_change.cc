// write, edit, delete.
#include <fmt/format.h>

#include <cerrno>

#include "doors/daiv/edit_text.h"
#include "doors/daiv/python_text.h"

namespace caisson::daiv {

namespace json = boost::json;

namespace {

constexpr int kLinksMax = 8;  // of a path's last part, one after the other
constexpr std::int64_t kModeMax = 07777;
constexpr std::int64_t kModeDefault = 0644;

// Readable by all and writable by its owner; executable by all or by nobody.
std::uint32_t normal_mode(std::uint32_t mode) {
  const std::uint32_t plain = (mode & 0777U) | 0444U | 0200U;
  return (mode & 0111U) != 0 ? plain | 0111U : plain & ~0111U;
}

struct Nothing {};
template <class T>
using Done = std::expected<T, FsError>;
template <class T>
Result<Done<T>> not_done(FsError error) {
  return Done<T>(std::unexpected(std::move(error)));
}

awaitable<Result<Done<Nothing>>> put_bytes(Call& call, std::string path,
                                           control::Fleet::WriteWish wish, std::string bytes) {
  const auto wrong = [&](const Error& error) -> Result<Done<Nothing>> {
    if (is_session_trouble(error)) return std::unexpected(error);
    if (error.code == Errc::AlreadyExists)
      return not_done<Nothing>(
          {kAlreadyExists,
           fmt::format("Cannot write to {} because it already exists. Read and then make an "
                       "edit, or write to a new path.",
                       path)});
    FsError fs = fs_error(error, path, "No such file");
    // Its parents are made, so what is missing is a folder where a file stands.
    if (fs.code == kNotFound)
      fs = {kExecFailed, fmt::format("write staging failed for {}: {}", path, error.message)};
    return not_done<Nothing>(std::move(fs));
  };
  auto writer = co_await call.fleet().write_file(call.caller, call.id(), path, std::move(wish));
  if (!writer) co_return wrong(writer.error());
  if (!bytes.empty()) {
    auto written = co_await (*writer)->write(std::as_bytes(std::span(bytes)));
    if (!written) co_return wrong(written.error());
  }
  auto finished = co_await (*writer)->finish();
  if (!finished) co_return wrong(finished.error());
  co_return Done<Nothing>(Nothing{});
}

awaitable<Result<std::optional<FsError>>> write(Call& call, std::string path, std::uint32_t mode) {
  using Wrong = std::optional<FsError>;
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  // A link that leads nowhere is there, too.
  auto entry = co_await call.fleet().stat(call.caller, call.id(), path, false);
  if (!entry && is_session_trouble(entry.error())) co_return std::unexpected(entry.error());
  if (entry)
    co_return Wrong(FsError{kAlreadyExists,
                            fmt::format("Cannot write to {} because it already exists. Read and "
                                        "then make an edit, or write to a new path.",
                                        path)});
  control::Fleet::WriteWish wish;
  wish.mode = normal_mode(mode);
  wish.parents = true;
  wish.exclusive = true;
  auto done =
      co_await put_bytes(call, std::move(path), std::move(wish), std::move(call.body.bytes));
  if (!done) co_return std::unexpected(done.error());
  co_return *done ? Wrong() : Wrong(done->error());
}

// ------------------------------------------------------------------------------------ edit

// Where a link's text leads, by its letters.
std::string lexical_target(const std::string& link, std::string_view target) {
  std::string out = target.starts_with('/') ? "" : link.substr(0, link.rfind('/'));
  while (!target.empty()) {
    const std::size_t end = std::min(target.find('/'), target.size());
    const std::string_view part = target.substr(0, end);
    target.remove_prefix(std::min(end + 1, target.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      out.resize(out.find('/') == std::string::npos ? 0 : out.rfind('/'));
      continue;
    }
    out += '/';
    out += part;
  }
  return out;
}

struct Place {
  std::string path;  // of the file itself, no link
  control::FileView file;
};

// The file behind a path. A new content takes the place of the file and not of a link to it.
awaitable<Result<Done<Place>>> find_file(Call& call, std::string path) {
  const auto fs = not_done<Place>;
  auto wanted = co_await call.fleet().stat(call.caller, call.id(), path, true);
  if (!wanted && is_session_trouble(wanted.error())) co_return std::unexpected(wanted.error());
  if (!wanted) co_return fs(fs_error(wanted.error(), path, "No such file"));
  if (wanted->entry.type == wire::EntryType::Folder)
    co_return fs({kIsADirectory, "Is a directory: " + path});
  if (wanted->entry.type != wire::EntryType::File)
    co_return fs({kNotFound, "No such file: " + path});
  std::string at = path;
  for (int i = 0; i <= kLinksMax; ++i) {
    auto here = co_await call.fleet().stat(call.caller, call.id(), at, false);
    if (!here && is_session_trouble(here.error())) co_return std::unexpected(here.error());
    if (!here) break;
    if (here->entry.type != wire::EntryType::Link) {
      if (here->entry.inode != wanted->entry.inode) break;
      co_return Done<Place>(Place{std::move(at), *std::move(here)});
    }
    at = lexical_target(at, here->entry.target);
  }
  co_return fs({kExecFailed, "the link could not be followed: " + path});
}

awaitable<Result<Done<std::string>>> read_all(Call& call, std::string path) {
  std::string out;
  auto download = co_await call.fleet().read_file(call.caller, call.id(), path, std::nullopt);
  for (bool more = true; download && more;) {
    auto piece = co_await download->bytes->next();
    if (!piece) {
      download = std::unexpected(piece.error());
      break;
    }
    more = !piece->empty();
    out.append(reinterpret_cast<const char*>(piece->data()), piece->size());
    if (out.size() > kEditBytesMax)
      co_return not_done<std::string>(
          {kTooLarge, fmt::format("File exceeds maximum edit size of {} bytes", kEditBytesMax)});
  }
  if (download) co_return Done<std::string>(std::move(out));
  if (is_session_trouble(download.error())) co_return std::unexpected(download.error());
  co_return not_done<std::string>(fs_error(download.error(), path, "No such file"));
}

struct EditWish {
  std::string path;
  std::string old_text;
  std::string new_text;
  bool replace_all = false;
};

awaitable<Result<Done<std::uint64_t>>> edit(Call& call, EditWish wish) {
  using Outcome = Done<std::uint64_t>;
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  auto place = co_await find_file(call, wish.path);
  if (!place) co_return std::unexpected(place.error());
  if (!*place) co_return Outcome(std::unexpected(place->error()));
  const Place& file = **place;
  // The file as it is and as it will be, beside the body.
  const std::uint64_t size = std::min<std::uint64_t>(file.file.entry.size, kEditBytesMax);
  if (auto room = co_await call.hold().resize(call.hold().bytes() + 2 * size); !room)
    co_return std::unexpected(room.error());
  auto text = co_await read_all(call, file.path);
  if (!text) co_return std::unexpected(text.error());
  if (!*text) co_return Outcome(std::unexpected(text->error()));
  if (!is_utf8(**text))
    co_return Outcome(std::unexpected(FsError{kNotATextFile, "Not a text file: " + wish.path}));
  auto edited =
      edit_text(**text, std::move(wish.old_text), std::move(wish.new_text), wish.replace_all);
  if (!edited) co_return Outcome(std::unexpected(edited.error()));
  control::Fleet::WriteWish write;
  write.mode = 0;  // as it was; so is its owner, and its time is now
  write.parents = false;
  write.if_match = file.file.etag;
  auto done = co_await put_bytes(call, file.path, std::move(write), std::move(edited->text));
  if (!done) co_return std::unexpected(done.error());
  if (!*done) co_return Outcome(std::unexpected(done->error()));
  co_return Outcome(edited->occurrences);
}

// ------------------------------------------------------------------------------------ delete

awaitable<Result<Done<bool>>> remove(Call& call, std::string path) {
  const auto fs = not_done<bool>;
  auto session = co_await enter(call, Wake::Yes);
  if (!session) co_return std::unexpected(session.error());
  auto entry = co_await call.fleet().stat(call.caller, call.id(), path, false);
  if (!entry && is_session_trouble(entry.error())) co_return std::unexpected(entry.error());
  if (!entry && entry.error().code == Errc::NotFound) co_return Done<bool>(false);
  if (!entry) co_return fs(fs_error(entry.error(), path, "No such file"));
  bool folder = entry->entry.type == wire::EntryType::Folder;
  if (entry->entry.type == wire::EntryType::Link) {
    auto behind = co_await call.fleet().stat(call.caller, call.id(), path, true);
    folder = behind && behind->entry.type == wire::EntryType::Folder;
  }
  if (folder) co_return fs({kIsADirectory, "Is a directory: " + path});
  auto done = co_await call.fleet().remove(call.caller, call.id(), path, false);
  if (!done && is_session_trouble(done.error())) co_return std::unexpected(done.error());
  if (!done && done.error().code == Errc::NotFound) co_return Done<bool>(false);
  if (!done) co_return fs(fs_error(done.error(), path, "No such file"));
  co_return Done<bool>(true);
}

}  // namespace

awaitable<Result<void>> fs_write(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  std::string path = fields.text("path");
  if (const json::value* content = fields.required("content")) {
    if (read_text(*content, fields.loc("content"), problems) && call.body.base64_error)
      problems.base64(fields.loc("content"), *call.body.base64_error, *content);
  }
  const auto mode =
      static_cast<std::uint32_t>(fields.integer("mode", kModeDefault, Bounds{0, kModeMax}));
  if (!problems.empty()) co_return refuse(call, problems);
  std::optional<FsError> error = check_path(path, RootItself::Refused);
  if (!error) {
    auto done = co_await write(call, without_slashes(std::move(path)), mode);
    if (!done) co_return std::unexpected(done.error());
    error = *std::move(done);
  }
  const json::object body{{"error", to_json(error)}, {"ok", !error}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> fs_edit(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  EditWish wish;
  wish.path = fields.text("path");
  wish.old_text = fields.text("old");
  wish.new_text = fields.text("new");
  wish.replace_all = fields.flag("replace_all", false);
  if (!problems.empty()) co_return refuse(call, problems);
  call.body.value = nullptr;
  Done<std::uint64_t> done(0);
  if (auto error = check_path(wish.path, RootItself::Refused)) {
    done = std::unexpected(*std::move(error));
  } else {
    wish.path = without_slashes(std::move(wish.path));
    auto edited = co_await edit(call, std::move(wish));
    if (!edited) co_return std::unexpected(edited.error());
    done = *std::move(edited);
  }
  json::object body;
  body["occurrences"] = done.value_or(0);
  body["error"] = to_json(done ? std::nullopt : std::optional(done.error()));
  co_return co_await answer(call, body);
}

awaitable<Result<void>> fs_delete(Call& call) {
  if (auto good = want_body(call); !good) co_return good;
  Problems problems;
  Fields fields(call.body.value, json::array{"body"}, problems);
  std::string path = fields.text("path");
  if (!problems.empty()) co_return refuse(call, problems);
  Done<bool> done(false);
  if (auto error = check_path(path, RootItself::Refused)) {
    done = std::unexpected(*std::move(error));
  } else {
    auto removed = co_await remove(call, without_slashes(std::move(path)));
    if (!removed) co_return std::unexpected(removed.error());
    done = *std::move(removed);
  }
  json::object body;
  body["removed"] = done.value_or(false);
  body["error"] = to_json(done ? std::nullopt : std::optional(done.error()));
  body["ok"] = done.has_value();
  co_return co_await answer(call, body);
}

}  // namespace caisson::daiv
