// WriteFile and ReadFile. A path means what it means inside, links and ".." followed; that is
// judged first, and what is then opened has no link on its way.
#include <fmt/format.h>

#include <cerrno>

#include "doors/grpc/exec_run.h"
#include "doors/grpc/utf8_fault.h"

namespace caisson::grpc {
namespace {

constexpr std::string_view kNotAllowed = "Path not allowed";
constexpr std::size_t kFileBytesMax = 4UL * 1024 * 1024 - 8UL * 1024;  // of an answer

bool is_below(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/');
}

struct Place {
  std::string path;   // resolved
  std::string fault;  // or why not
};

awaitable<Place> place_of(Call& call, const Session& session, std::string path,
                          std::initializer_list<std::string_view> folders) {
  if (path.find('\0') != std::string::npos) co_return Place{"", "embedded null byte"};
  const std::string asked = path;
  auto resolved = co_await call.fleet().resolve_path(call.caller, session.sandbox, std::move(path));
  if (!resolved && is_dead(resolved.error())) co_return Place{"", std::string(kDeadSandbox)};
  if (!resolved && resolved.error().sys_errno != 0)
    co_return Place{"", errno_words(resolved.error().sys_errno, asked)};
  if (!resolved) co_return Place{"", resolved.error().message};
  for (const std::string_view folder : folders) {
    if (is_below(*resolved, folder)) co_return Place{*std::move(resolved), ""};
  }
  co_return Place{"", std::string(kNotAllowed)};
}

// A file stands where a folder should be. Folders are made from the outside in: if it is the last
// one, it exists and is none; if it is further out, the next one cannot be made in it.
awaitable<std::string> parent_fault(Call& call, const Session& session, std::string path) {
  const std::string parent = path.substr(0, path.rfind('/'));
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    const auto entry = co_await call.fleet().stat(call.caller, session.sandbox, part, true);
    if (entry && entry->entry.type == wire::EntryType::Folder) continue;
    if (part == parent) co_return errno_words(EEXIST, parent);
    const std::size_t next = path.find('/', end + 1);
    co_return errno_words(ENOTDIR, path.substr(0, next));
  }
  co_return errno_words(ENOTDIR, path);
}

std::string words_of(const Error& error, const std::string& path) {
  if (is_dead(error)) return std::string(kDeadSandbox);
  if (error.sys_errno == EINVAL) return "Not a regular file";
  return error.sys_errno != 0 ? errno_words(error.sys_errno, path) : error.message;
}

awaitable<Result<void>> write_all(Call& call, const Session& session,
                                  const api::WriteFileRequest& request, std::string path) {
  control::Fleet::WriteWish wish;
  wish.resolved = true;
  wish.append = !request.mode().empty() && request.mode() != "w";
  auto writer =
      co_await call.fleet().write_file(call.caller, session.sandbox, std::move(path), wish);
  if (!writer) co_return std::unexpected(writer.error());
  if (!request.content().empty()) {
    auto written = co_await (*writer)->write(std::as_bytes(std::span(request.content())));
    if (!written) co_return written;
  }
  auto done = co_await (*writer)->finish();
  if (!done) co_return std::unexpected(done.error());
  co_return Result<void>{};
}

// Empty at its end; nothing: there is more than fits into an answer.
awaitable<Result<std::optional<std::string>>> read_all(Call& call, const Session& session,
                                                       std::string path) {
  auto reader = co_await call.fleet().read_resolved(call.caller, session.sandbox, std::move(path));
  if (!reader) co_return std::unexpected(reader.error());
  std::string content;
  for (;;) {
    auto piece = co_await (*reader)->next();
    if (!piece) co_return std::unexpected(piece.error());
    if (piece->empty()) co_return content;
    if (content.size() + piece->size() > kFileBytesMax) co_return std::nullopt;
    if (auto room = co_await call.hold().resize(call.hold().bytes() + 2 * piece->size()); !room)
      co_return std::unexpected(room.error());
    content.append(reinterpret_cast<const char*>(piece->data()), piece->size());
  }
}

}  // namespace

awaitable<Status> write_file(Call& call, const api::WriteFileRequest& request,
                             api::WriteFileResponse& reply) {
  const InUse session(call, request.session_id());
  if (!session || request.path().empty()) {
    reply.set_error(session ? "Missing 'path' or 'content' field" : std::string(kNoSession));
    co_return Status{};
  }
  auto place = co_await place_of(call, *session, request.path(), {kWorkspace, kOutputs});
  if (!place.fault.empty()) {
    reply.set_error(std::move(place.fault));
    co_return Status{};
  }
  const auto done = co_await write_all(call, *session, request, place.path);
  if (done) {
    reply.set_success(true);
  } else if (done.error().sys_errno == ENOTDIR) {
    reply.set_error(co_await parent_fault(call, *session, place.path));
  } else {
    reply.set_error(words_of(done.error(), place.path));
  }
  co_return Status{};
}

awaitable<Status> read_file(Call& call, const api::ReadFileRequest& request,
                            api::ReadFileResponse& reply) {
  const InUse session(call, request.session_id());
  if (!session || request.path().empty()) {
    reply.set_error(session ? "Missing 'path' field" : std::string(kNoSession));
    co_return Status{};
  }
  auto place = co_await place_of(call, *session, request.path(), {kWorkspace, kUserData});
  if (!place.fault.empty()) {
    reply.set_error(std::move(place.fault));
    co_return Status{};
  }
  auto content = co_await read_all(call, *session, place.path);
  if (!content) {
    reply.set_error(content.error().sys_errno == ENOENT ? "File not found"
                                                        : words_of(content.error(), place.path));
  } else if (!*content) {
    const auto entry = co_await call.fleet().stat(call.caller, session->sandbox, place.path, true);
    reply.set_error(fmt::format("the file has {} bytes; at most {} fit into an answer",
                                entry ? entry->entry.size : kFileBytesMax + 1, kFileBytesMax));
  } else if (std::string fault = utf8_fault(**content); !fault.empty()) {
    reply.set_error(std::move(fault));
  } else {
    reply.set_success(true);
    reply.set_content(**std::move(content));
  }
  co_return Status{};
}

}  // namespace caisson::grpc
