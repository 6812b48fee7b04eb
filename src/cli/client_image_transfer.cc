#include "cli/client_image_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>

#include "cli/cli.h"
#include "cli/client_json.h"
#include "cli/client_new_file.h"
#include "cli/client_path.h"
#include "cli/client_progress.h"
#include "cli/client_pull_board.h"
#include "cli/client_secret_input.h"
#include "cli/client_text.h"
#include "cli/client_upload.h"
#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kPasswordBytesMax = 16UL * 1024;

// The reference alone on standard output, for scripts.
int print_image(const Session& session, const std::string& body, bool json) {
  if (json) return print_out(body + "\n") ? kExitOk : kExitFailed;
  const auto image = parse_json(body);
  if (!image) return session.fail(image.error());
  fmt::print(stderr, "{}, {}\n", shown(text_at(*image, "digest"), 80),
             size_text(count_at(*image, "bytes")));
  return print_out(shown(text_at(*image, "reference"), 512) + "\n") ? kExitOk : kExitFailed;
}

Result<std::string> heard(const Session& session, const std::string& request, bool quiet) {
  PullScreen screen(quiet);
  std::optional<std::string> image;
  std::optional<Error> error;
  const auto take = [&](const ServerEvent& event) {
    if (event.name == "image") image = event.data;
    if (event.name == "error") {
      Answer refusal;
      refusal.status = 502;
      refusal.body = event.data;
      error = error_of(refusal);
    }
    if (event.name != "progress") return true;
    if (const auto value = parse_json(event.data)) {
      screen.take({text_at(*value, "stage"), text_at(*value, "layer"), count_at(*value, "done"),
                   count_at(*value, "total")});
    }
    return true;
  };
  const Answer answer =
      TRY(session.remote().post_events("/api/v1/images/pull?stream=true", request, take));
  if (!answer.ok()) return std::unexpected(error_of(answer));
  if (error) return std::unexpected(*error);
  if (!image) return failure(Errc::Gone, "the connection to the server ended before the pull");
  return *std::move(image);
}

Result<std::string> body_of(const Result<Answer>& answer) {
  if (!answer) return std::unexpected(answer.error());
  if (!answer->ok()) return std::unexpected(error_of(*answer));
  return answer->body;
}

Result<std::string> send(const Session& session, const std::string& target,
                         const std::string& path) {
  const UniqueFd file = TRY_IN(policy::printable(path),
                               sys::open_at(AT_FDCWD, path, O_RDONLY | O_NOCTTY | O_NONBLOCK));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return sys_failure("stat", errno);
  if (S_ISDIR(info.st_mode))
    return body_of(upload_packed(session, {"POST", target}, path, "caisson image"));
  if (!S_ISREG(info.st_mode))
    return failure(Errc::Unsupported, policy::printable(path) + " is neither a file nor a folder");
  return body_of(upload_bytes(session, {"POST", target}, "application/x-tar", file.get(), path,
                              static_cast<std::uint64_t>(info.st_size)));
}

Result<void> receive(const Session& session, const std::string& reference, int fd) {
  Progress progress(reference);
  const auto answer = TRY(session.remote().download(
      "/api/v1/images/export" + image_query(reference),
      [&](std::uint64_t total) { progress.set_total(total); },
      [&](std::span<const std::byte> bytes) -> Result<void> {
        progress.add(bytes.size());
        return write_all(fd, bytes);
      }));
  if (!answer.ok()) return std::unexpected(error_of(answer));
  return {};
}

Result<void> receive_file(const Session& session, const std::string& reference,
                          const std::string& target) {
  NewFile file = TRY(NewFile::make(target));
  TRY(receive(session, reference, file.fd()));
  return file.finish(0666);
}

}  // namespace

std::string image_query(const std::string& reference) { return "?reference=" + encode(reference); }

int pull_image(const Session& session, const PullWords& words, bool json) {
  boost::json::object body;
  body["reference"] = words.reference;
  if (!words.platform.empty()) body["platform"] = words.platform;
  if (words.keep) body["refresh"] = false;
  if (words.password_stdin == words.username.empty()) {
    complain("image", "--username and --password-stdin go together");
    return kExitUsage;
  }
  if (words.password_stdin) {
    auto password = read_secret("the password", kPasswordBytesMax);
    if (!password) {
      complain("image", one_line(password.error().message));
      return kExitUsage;
    }
    body["username"] = words.username;
    body["password"] = *password;
    std::ranges::fill(*password, '\0');
  }
  const auto image = heard(session, boost::json::serialize(body), words.quiet);
  if (!image) return session.fail(image.error());
  return print_image(session, *image, json);
}

int import_image(const Session& session, const std::string& source, const std::string& reference,
                 const std::string& pick, bool json) {
  std::string target = "/api/v1/images/import" + image_query(reference);
  if (!pick.empty()) target += "&pick=" + encode(pick);
  const auto image = send(session, target, source);
  if (!image) return session.fail(image.error());
  return print_image(session, *image, json);
}

int export_image(const Session& session, const std::string& reference, const std::string& target) {
  if (target == "-" && ::isatty(STDOUT_FILENO) == 1) {
    complain("image", "an archive is not for a terminal: write -o FILE");
    return kExitUsage;
  }
  const auto done = target == "-" ? receive(session, reference, STDOUT_FILENO)
                                  : receive_file(session, reference, target);
  return done ? kExitOk : session.fail(done.error());
}

}  // namespace caisson::cli
