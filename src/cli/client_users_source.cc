#include "cli/client_users_source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "cli/client_json.h"
#include "control/server_program.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/spawn.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kStepBytes = 64UL * 1024;

Result<std::size_t> read_some(int fd, std::span<char> into) {
  for (;;) {
    const ssize_t got = ::read(fd, into.data(), into.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return sys_failure("read from the reader of the database", errno);
  }
}

// What it said of its end; read when it has written everything else.
std::string complaint(int fd) {
  std::string text(kSourceComplaintBytesMax, '\0');
  const auto got = read_some(fd, text);
  text.resize(got.value_or(0));
  while (text.ends_with('\n')) text.pop_back();
  return one_line(text);
}

Result<void> read_all(const std::string& path, const ImportTake& take) {
  const std::string program = TRY(control::find_server());
  sys::Pipe lines = TRY(sys::make_pipe());
  sys::Pipe words = TRY(sys::make_pipe());
  const sys::HandedFd handed[] = {{.path = "/dev/null", .number = STDIN_FILENO},
                                  {.fd = lines.write.get(), .number = STDOUT_FILENO},
                                  {.fd = words.write.get(), .number = STDERR_FILENO}};
  sys::Child child =
      TRY(sys::spawn(program, {"read-sandboxer", path}, handed, sys::Session::Shared));
  lines.write = UniqueFd();
  words.write = UniqueFd();
  LineReader reader(take);
  std::array<char, kStepBytes> buffer{};
  for (;;) {
    const std::size_t got = TRY(read_some(lines.read.get(), buffer));
    if (got == 0) break;
    TRY(reader.feed(std::string_view(buffer.data(), got)));
  }
  const std::string said = complaint(words.read.get());
  const sys::ExitStatus status = TRY(child.wait());
  if (status.signal != 0) {
    return failure(Errc::Gone,
                   fmt::format("the reader of the database was ended by signal {}", status.signal));
  }
  if (status.code != 0)
    return failure(Errc::InvalidArgument, said.empty() ? "the database cannot be read" : said);
  return reader.finish();
}

}  // namespace

Result<void> LineReader::feed(std::string_view bytes) {
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos;
       end = rest_.find('\n', begin)) {
    const auto line = TRY(parse_json(std::string_view(rest_).substr(begin, end - begin)));
    if (!line.is_object())
      return failure(Errc::Protocol, "the reader of the database says something else than objects");
    TRY(take_(line));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  if (rest_.size() <= kSourceLineBytesMax) return {};
  return failure(Errc::TooLarge,
                 fmt::format("a line of the reader of the database has more than {} "
                             "bytes",
                             kSourceLineBytesMax));
}

Result<void> LineReader::finish() const {
  if (rest_.empty()) return {};
  return failure(Errc::Protocol, "the reader of the database ended in the middle of a line");
}

ImportSource sandboxer_file(std::string path) {
  return [path = std::move(path)](const ImportTake& take) { return read_all(path, take); };
}

}  // namespace caisson::cli
