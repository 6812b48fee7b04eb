#include "cli/client_upload.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "cli/client_path.h"
#include "cli/client_progress.h"
#include "cli/client_tar.h"
#include "cli/client_text.h"
#include "policy/wording.h"

namespace caisson::cli {

Result<Answer> upload_bytes(const Session& session, const UploadTarget& to, std::string_view type,
                            int file, const std::string& name, std::uint64_t size) {
  Progress progress(base_name(name));
  progress.set_total(size);
  std::uint64_t left = size;
  // No more than was announced, or the rest would be read as the next request.
  const auto source = [&](std::span<std::byte> out) -> Result<std::size_t> {
    const std::size_t want = std::min<std::uint64_t>(out.size(), left);
    if (want == 0) return 0UL;
    const ssize_t got = ::read(file, out.data(), want);
    if (got < 0) return sys_failure("read " + policy::printable(name), errno);
    if (got == 0)
      return failure(Errc::Busy, policy::printable(name) + " became shorter while it was read");
    left -= static_cast<std::size_t>(got);
    progress.add(static_cast<std::size_t>(got));
    return static_cast<std::size_t>(got);
  };
  return session.remote().upload(to.method, to.target, type, size, source);
}

Result<Answer> upload_packed(const Session& session, const UploadTarget& to,
                             const std::string& folder, std::string_view command) {
  Packer packer = TRY(Packer::scan(folder));
  for (const std::string& name : packer.left_out())
    fmt::print(stderr, "{}: left out, neither a file nor a folder nor a link: {}\n", command,
               shown(name, 200));
  Progress progress(base_name(folder));
  progress.set_total(packer.content_bytes());
  const auto source = [&](std::span<std::byte> out) -> Result<std::size_t> {
    const std::uint64_t before = packer.content_sent();
    const std::size_t got = TRY(packer.read(out));
    progress.add(packer.content_sent() - before);
    return got;
  };
  return session.remote().upload(to.method, to.target, "application/x-tar", std::nullopt, source);
}

}  // namespace caisson::cli
