#include "control/patch_box.h"

#include <fmt/format.h>

#include "control/file_state.h"
#include "control/sandbox_spec.h"
#include "control/text.h"
#include "control/tree_changes.h"

namespace caisson::control {
namespace {

constexpr std::uint64_t kMemoryBytes = 1ULL << 30U;
constexpr std::uint64_t kDiskBytes = 4ULL << 30U;
constexpr std::uint64_t kDiskFiles = 1'000'000;
constexpr seconds kTime{300};
constexpr const char* kNames = "/workspace/names";
constexpr const char* kAnswer = "/tmp/answer";
constexpr int kNotFound = 127;

// A repository without a work tree. The last word on attributes is that of info/attributes.
constexpr std::string_view kRepository =
    "set -e\n"
    "cd /workspace\n"
    "export GIT_DIR=/workspace/g\n"
    "if ! test -d g; then\n"
    "  git init -q --bare --template= g\n"
    "  mkdir -p g/info a b w\n"
    "  printf '* !diff -text -eol -filter -ident -working-tree-encoding\\n' >g/info/attributes\n"
    "fi\n"
    "tree() {\n"
    "  export GIT_INDEX_FILE=/workspace/index.$1\n"
    "  test -e $GIT_INDEX_FILE ||\n"
    "    git -C $1 --work-tree=. -c core.bare=false add -A -f . >/dev/null\n"
    "  git write-tree\n"
    "}\n";

// Git cannot apply every patch that it writes, such as one that renames a link and puts a folder in
// its place. So it is tried on the old tree, and written without renames where that fails.
constexpr std::string_view kCompare =
    "chmod -R u+r b\n"
    "A=$(tree a)\n"
    "B=$(tree b)\n"
    "compare() {\n"
    "  git diff-tree -r -p $1 --binary --no-color --no-ext-diff --no-textconv --src-prefix=a/ "
    "--dst-prefix=b/ $A $B >/tmp/answer\n"
    "}\n"
    "applies() {\n"
    "  cp index.a index.c\n"
    "  export GIT_INDEX_FILE=/workspace/index.c\n"
    "  git apply --cached --whitespace=nowarn /tmp/answer 2>/dev/null && test $(git write-tree) = "
    "$B\n"
    "}\n"
    "compare -M\n"
    "if test -s /tmp/answer && ! (applies); then compare --no-renames; fi\n";

constexpr std::string_view kNoText = "printf '* -diff\\n' >>g/info/attributes\n";

constexpr std::string_view kIgnored =
    "git -C w --work-tree=. -c core.bare=false check-ignore --no-index -z --stdin "
    "</workspace/names >/tmp/answer || test $? = 1\n";

engine::LaunchRequest box_request() {
  engine::LaunchRequest request;
  request.hostname = "patch";
  request.uid = kUidDefault;
  request.gid = kUidDefault;
  request.limits.memory_bytes = kMemoryBytes;
  request.limits.processes = 64;
  request.limits.disk_bytes = kDiskBytes;
  request.limits.disk_files = kDiskFiles;
  request.limits.life_us =
      static_cast<std::uint64_t>(duration_cast<microseconds>(2 * kTime).count());
  return request;
}

// Nothing of a user's or the host's configuration has a word in it.
engine::ExecRequest command(std::string script) {
  engine::ExecRequest request;
  request.argv = {"/bin/sh", "-c", std::move(script)};
  request.env = {"PATH=/usr/local/bin:/usr/bin:/bin",
                 "HOME=/nonexistent",
                 "LC_ALL=C",
                 "GIT_CONFIG_NOSYSTEM=1",
                 "GIT_CONFIG_GLOBAL=/dev/null",
                 "GIT_ATTR_NOSYSTEM=1",
                 "GIT_CONFIG_COUNT=8",
                 "GIT_CONFIG_KEY_0=core.quotePath",
                 "GIT_CONFIG_VALUE_0=true",
                 "GIT_CONFIG_KEY_1=core.autocrlf",
                 "GIT_CONFIG_VALUE_1=false",
                 "GIT_CONFIG_KEY_2=core.safecrlf",
                 "GIT_CONFIG_VALUE_2=false",
                 "GIT_CONFIG_KEY_3=core.fileMode",
                 "GIT_CONFIG_VALUE_3=true",
                 "GIT_CONFIG_KEY_4=core.symlinks",
                 "GIT_CONFIG_VALUE_4=true",
                 "GIT_CONFIG_KEY_5=core.protectNTFS",
                 "GIT_CONFIG_VALUE_5=false",
                 "GIT_CONFIG_KEY_6=core.protectHFS",
                 "GIT_CONFIG_VALUE_6=false",
                 "GIT_CONFIG_KEY_7=core.precomposeUnicode",
                 "GIT_CONFIG_VALUE_7=false"};
  request.cwd = "/workspace";
  request.user = PatchBox::user();
  request.timeout = kTime;
  return request;
}

// A name that begins with ':' would be more than a name to git.
constexpr std::string_view kHere = "./";

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(kHere).append(name).push_back('\0');
  return out;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    const std::string_view name = text.substr(0, end);
    out.emplace_back(name.substr(name.starts_with(kHere) ? kHere.size() : 0));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

engine::GuestUser PatchBox::user() noexcept { return {kUidDefault, kUidDefault}; }

awaitable<Result<std::unique_ptr<PatchBox>>> PatchBox::open(boost::asio::any_io_executor executor,
                                                            engine::LauncherChannel& launcher,
                                                            std::function<void(std::string)> end) {
  std::vector<UniqueFd> no_folders;
  auto reply = co_await launcher.launch(box_request(), std::move(no_folders));
  if (!reply) co_return std::unexpected(reply.error().within("patch"));
  std::unique_ptr<PatchBox> box(new PatchBox(reply->id, std::move(end)));
  auto guest =
      co_await engine::GuestChannel::open(executor, std::move(reply->stream), reply->nonce);
  if (!guest) co_return std::unexpected(guest.error().within("patch"));
  box->guest_ = *std::move(guest);
  co_return box;
}

PatchBox::~PatchBox() {
  if (guest_) guest_->close(Error{Errc::Gone, "the patch was made", 0});
  end_(id_);
}

awaitable<Result<int>> PatchBox::run(std::string script) {
  const auto done = co_await guest_->execute(command(std::string(kRepository) + std::move(script)));
  if (!done) co_return std::unexpected(done.error().within("patch"));
  if (done->exit_code == kNotFound)
    co_return failure(Errc::Unsupported, "patch: this host has no git, which writes it");
  if (done->timed_out) co_return failure(Errc::TimedOut, "patch: git took too long");
  if (done->oom_killed)
    co_return failure(Errc::TooLarge, "patch: git needs more memory than 1 GiB for it");
  if (done->exit_code != 0)
    co_return failure(Errc::Internal, "patch: git failed: " + cut_text(to_utf8(done->err), 500));
  co_return done->exit_code;
}

awaitable<Result<std::string>> PatchBox::read(std::string path) {
  auto reader = co_await guest_->read(user(), std::move(path), 0, 0);
  if (!reader) co_return std::unexpected(reader.error().within("patch"));
  std::string out;
  for (;;) {
    const auto bytes = co_await (*reader)->next();
    if (!bytes) co_return std::unexpected(bytes.error().within("patch"));
    if (bytes->empty()) co_return out;
    if (bytes->size() > kPatchBytesMax - out.size())
      co_return failure(Errc::TooLarge, "patch: it has more than 64 MiB");
    out.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
}

awaitable<Result<std::vector<std::string>>> PatchBox::ignored(std::vector<std::string> names) {
  const std::string text = joined(names);
  const engine::WriteOptions options{.mode = 0, .parents = true};
  auto writer = co_await guest_->write(user(), kNames, options);
  if (!writer) co_return std::unexpected(writer.error().within("patch"));
  const auto written = co_await (*writer)->write(std::as_bytes(std::span(text)));
  if (!written) co_return std::unexpected(written.error().within("patch"));
  const auto finished = co_await (*writer)->finish();
  if (!finished) co_return std::unexpected(finished.error().within("patch"));
  const auto done = co_await run(std::string(kIgnored));
  if (!done) co_return std::unexpected(done.error());
  const auto answer = co_await read(kAnswer);
  if (!answer) co_return std::unexpected(answer.error());
  co_return split(*answer);
}

awaitable<Result<std::string>> PatchBox::compare() {
  const auto done = co_await run(std::string(kCompare));
  if (!done) co_return std::unexpected(done.error());
  auto text = co_await read(kAnswer);
  if (!text || is_utf8(*text)) co_return text;
  const auto again = co_await run(std::string(kNoText) + std::string(kCompare));
  if (!again) co_return std::unexpected(again.error());
  const auto binary = co_await read(kAnswer);
  if (!binary) co_return std::unexpected(binary.error());
  co_return as_utf8_patch(*text, *binary);
}

}  // namespace caisson::control
