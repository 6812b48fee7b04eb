// cp: files and folders between this machine and a sandbox. A file goes raw; a folder goes as a
// tar archive. As with cp, a folder that is there already receives what is copied, and "SRC/."
// means what is in it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_new_file.h"
#include "cli/client_path.h"
#include "cli/client_progress.h"
#include "cli/client_session.h"
#include "cli/client_tar.h"
#include "cli/client_text.h"
#include "cli/client_untar.h"
#include "cli/client_upload.h"
#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

enum class Kind : std::uint8_t { Nothing, File, Folder, Other };

bool means_content(std::string_view path) {
  return path == "." || path.ends_with("/.") || path == ".." || path.ends_with("/..");
}

Result<Kind> remote_kind(const Session& session, const std::string& id, const std::string& path) {
  auto entry = session.json("GET", file_target(id, "stat", path));
  if (!entry && entry.error().code == Errc::NotFound) return Kind::Nothing;
  if (!entry) return std::unexpected(entry.error());
  const std::string type = text_at(*entry, "type");
  if (type == "file") return Kind::File;
  return type == "folder" ? Kind::Folder : Kind::Other;
}

Result<Kind> local_kind(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Kind::Nothing;
    return sys_failure(policy::printable(path), errno);
  }
  if (S_ISREG(info.st_mode)) return Kind::File;
  return S_ISDIR(info.st_mode) ? Kind::Folder : Kind::Other;
}

// Where a copy of `source` ends up, when `target` is what was written and `there` what it is.
std::string final_path(const std::string& source, const std::string& target, Kind there) {
  const std::string name = base_name(source);
  const bool inside = there == Kind::Folder || target.ends_with('/');
  if (!inside || means_content(source) || name.empty()) return target;
  return join_path(target, name);
}

Result<void> accept(const Result<Answer>& answer) {
  if (!answer) return std::unexpected(answer.error());
  if (!answer->ok()) return std::unexpected(error_of(*answer));
  return {};
}

// --- into a sandbox ---

Result<void> upload_file(const Session& session, const std::string& id, const std::string& from,
                         const std::string& to) {
  const UniqueFd file = TRY(sys::open_at(AT_FDCWD, from, O_RDONLY));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return sys_failure("stat", errno);
  const std::string target =
      fmt::format("{}?mode={:04o}", file_target(id, "files", to), info.st_mode & 0777U);
  return accept(upload_bytes(session, {"PUT", target}, "application/octet-stream", file.get(), from,
                             static_cast<std::uint64_t>(info.st_size)));
}

Result<void> upload_folder(const Session& session, const std::string& id, const std::string& from,
                           const std::string& to) {
  return accept(
      upload_packed(session, {"PUT", file_target(id, "archive", to)}, from, "caisson cp"));
}

Result<void> copy_in(const Session& session, const std::string& from, const Place& to) {
  const std::string id = TRY(session.resolve(*to.sandbox));
  const Kind kind = TRY(local_kind(from));
  if (kind == Kind::Nothing)
    return failure(Errc::NotFound, policy::printable(from) + " is not there");
  if (kind == Kind::Other) {
    return failure(Errc::Unsupported, policy::printable(from) + " is neither a file nor a folder");
  }
  const std::string target = final_path(from, to.path, TRY(remote_kind(session, id, to.path)));
  return kind == Kind::File ? upload_file(session, id, from, target)
                            : upload_folder(session, id, from, target);
}

// --- out of a sandbox ---

Result<void> download_file(const Session& session, const std::string& id, const std::string& from,
                           const std::string& to) {
  NewFile file = TRY(NewFile::make(to));
  {
    Progress progress(base_name(from));
    TRY(accept(session.remote().download(
        file_target(id, "files", from), [&](std::uint64_t total) { progress.set_total(total); },
        [&](std::span<const std::byte> bytes) -> Result<void> {
          progress.add(bytes.size());
          return write_all(file.fd(), bytes);
        })));
  }
  return file.finish(0666);
}

Result<void> download_folder(const Session& session, const std::string& id, const std::string& from,
                             const std::string& to) {
  TRY(sys::make_dir(AT_FDCWD, to, 0777, sys::Existing::Accept));
  Unpacker unpacker(TRY(sys::open_at(AT_FDCWD, to, O_RDONLY | O_DIRECTORY)));
  Progress progress(base_name(from));
  TRY(accept(session.remote().download(
      file_target(id, "archive", from), [](std::uint64_t) {},
      [&](std::span<const std::byte> bytes) -> Result<void> {
        progress.add(bytes.size());
        return unpacker.take(bytes);
      })));
  return unpacker.finish();
}

Result<void> copy_out(const Session& session, const Place& from, const std::string& to) {
  const std::string id = TRY(session.resolve(*from.sandbox));
  const Kind kind = TRY(remote_kind(session, id, from.path));
  if (kind == Kind::Nothing)
    return failure(Errc::NotFound, policy::printable(from.path) + " is not there");
  if (kind == Kind::Other) {
    return failure(Errc::Unsupported,
                   policy::printable(from.path) + " is neither a file nor a folder");
  }
  const Kind there = TRY(local_kind(to));
  std::string target = final_path(from.path, to, there);
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  return kind == Kind::File ? download_file(session, id, from.path, target)
                            : download_folder(session, id, from.path, target);
}

}  // namespace

int cp_command(std::span<char*> args) {
  CommandLine line("Copies a file or a folder into a sandbox, or out of one.");
  ClientOptions options;
  std::string source;
  std::string target;
  add_client_options(line, options, JsonFlag::None);
  line.word("source", source, Need::Required, "SOURCE", "a path here, or SANDBOX:PATH");
  line.word("target", target, Need::Required, "TARGET", "a path here, or SANDBOX:PATH");
  if (const auto done = line.parse(args)) return *done;
  const auto from = parse_place(source);
  const auto to = parse_place(target);
  if (!from || !to) {
    complain(args[0], one_line((from ? to : from).error().message));
    return kExitUsage;
  }
  if (from->sandbox.has_value() == to->sandbox.has_value()) {
    complain(args[0], "one side is SANDBOX:PATH, the other a path here");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto copied =
      to->sandbox ? copy_in(*session, from->path, *to) : copy_out(*session, *from, to->path);
  return copied ? kExitOk : session->fail(copied.error());
}

}  // namespace caisson::cli
