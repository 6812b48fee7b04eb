#include "egress/credentials/secret_box.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include "base/base64.h"
#include "base/unique_fd.h"
#include "egress/credentials/seal.h"
#include "egress/credentials/secret_file.h"
#include "policy/rule_checks.h"
#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::egress {

namespace {

using policy::in_quotes;

constexpr std::string_view kFirstLine = "caisson secrets 1";
// Every entry at its largest, and its name.
constexpr std::size_t kFileBytesMax = kSecretsMax * (kStoredSecretBytesMax * 2);

std::unexpected<Error> damaged(const std::string& path, std::size_t line, std::string_view why) {
  return failure(Errc::InvalidArgument, fmt::format("{}: line {}: {}", in_quotes(path), line, why));
}

struct Line {
  std::string_view text;
  std::size_t number = 0;
};

// Takes one line off; a file that does not end in a newline was cut.
std::optional<Line> next_line(std::string_view& rest, std::size_t number) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const Line line{rest.substr(0, end), number};
  rest.remove_prefix(end + 1);
  return line;
}

// Held while the file is read, changed and written.
Result<UniqueFd> lock_beside(const std::string& path) {
  const std::string name = path + ".lock";
  UniqueFd fd = TRY(sys::open_at(AT_FDCWD, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  while (::flock(fd.get(), LOCK_EX) != 0) {
    const int error = errno;
    if (error != EINTR) return sys_failure("lock " + in_quotes(name), error);
  }
  return fd;
}

}  // namespace

Result<SecretBox> SecretBox::open(std::string secrets_path, std::string key_path) {
  SecretBox box(std::move(secrets_path), std::move(key_path));
  TRY(lock_secret_memory());
  TRY_IN("secrets", box.reload());
  return box;
}

Result<Secret> SecretBox::key() const {
  Secret out = TRY(read_secret_file(key_path_, kSealKeyBytes));
  if (out.size() == kSealKeyBytes) return out;
  return failure(Errc::InvalidArgument,
                 fmt::format("{} is not a key of {} bytes", in_quotes(key_path_), kSealKeyBytes));
}

Result<Secret> SecretBox::key_or_new() const {
  Result<Secret> there = key();
  if (there || there.error().code != Errc::NotFound) return there;
  const Secret made = TRY(new_seal_key());
  const auto written = write_private(key_path_, made.expose(), Replace::No);
  // Somebody else was first: then theirs is the key.
  if (!written && written.error().code != Errc::AlreadyExists)
    return std::unexpected(written.error());
  return key();
}

Result<SecretBox::Entries> SecretBox::load() const {
  Entries entries;
  const Result<UniqueFd> fd = open_private(secrets_path_);
  if (!fd && fd.error().code == Errc::NotFound) return entries;
  if (!fd) return std::unexpected(fd.error());
  const std::string text = TRY(sys::read_again(fd->get(), kFileBytesMax));
  std::string_view rest = text;
  const auto first = next_line(rest, 1);
  if (!first || first->text != kFirstLine)
    return damaged(secrets_path_, 1, "not a file of secrets");
  if (rest.empty()) return entries;
  Result<Secret> opened_by = key();
  if (!opened_by && opened_by.error().code == Errc::NotFound) {
    return failure(Errc::NotFound,
                   fmt::format("{} holds secrets, but their key {} is not there; bring it back, or "
                               "remove both and enter the secrets anew",
                               in_quotes(secrets_path_), in_quotes(key_path_)));
  }
  if (!opened_by) return std::unexpected(opened_by.error());
  for (std::size_t number = 2; !rest.empty(); ++number) {
    const auto line = next_line(rest, number);
    if (!line) return damaged(secrets_path_, number, "the file was cut");
    if (entries.size() == kSecretsMax)
      return damaged(secrets_path_, number, fmt::format("more than {} secrets", kSecretsMax));
    const std::size_t space = line->text.find(' ');
    const auto name = policy::check_secret_name(line->text.substr(0, space));
    if (space == std::string_view::npos || !name)
      return damaged(secrets_path_, number, "not a name and a secret");
    const std::string_view letters = line->text.substr(space + 1);
    const auto sealed = from_base64(letters);
    if (!sealed) return damaged(secrets_path_, number, "not base64");
    Secret value = TRY(unseal(*opened_by, *name, *sealed));
    const auto [at, added] =
        entries.try_emplace(*name, Entry{std::string(letters), std::move(value)});
    if (!added) return damaged(secrets_path_, number, in_quotes(at->first) + " is there twice");
  }
  return entries;
}

Result<void> SecretBox::reload() {
  entries_ = TRY(load());
  return {};
}

Result<void> SecretBox::store(Entries entries) {
  std::string text = std::string(kFirstLine) + '\n';
  for (const auto& [name, entry] : entries) text += fmt::format("{} {}\n", name, entry.sealed);
  TRY(write_private(secrets_path_, text, Replace::Yes));
  entries_ = std::move(entries);
  return {};
}

std::vector<std::string> SecretBox::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

const Secret* SecretBox::find(std::string_view name) const noexcept {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second.value;
}

Result<void> SecretBox::put(std::string_view name, const Secret& value) {
  const std::string checked = TRY(policy::check_secret_name(name));
  if (value.size() == 0)
    return failure(Errc::InvalidArgument,
                   fmt::format("the secret {} is empty", in_quotes(checked)));
  if (value.size() > kStoredSecretBytesMax) {
    return failure(Errc::TooLarge,
                   fmt::format("the secret {} has {} bytes, at most {} are kept",
                               in_quotes(checked), value.size(), kStoredSecretBytesMax));
  }
  const UniqueFd lock = TRY(lock_beside(secrets_path_));
  Entries entries = TRY(load());
  if (!entries.contains(checked) && entries.size() == kSecretsMax) {
    return failure(Errc::Exhausted,
                   fmt::format("there are {} secrets already, the most there can be", kSecretsMax));
  }
  const Secret sealed_by = TRY(key_or_new());
  const std::string sealed = TRY(seal(sealed_by, checked, value));
  Secret copy = TRY(value.clone());
  entries.insert_or_assign(checked, Entry{to_base64(sealed), std::move(copy)});
  return store(std::move(entries));
}

Result<void> SecretBox::remove(std::string_view name) {
  const UniqueFd lock = TRY(lock_beside(secrets_path_));
  Entries entries = TRY(load());
  const auto found = entries.find(name);
  if (found == entries.end()) {
    return failure(Errc::NotFound, fmt::format("there is no secret {}", in_quotes(name)));
  }
  entries.erase(found);
  return store(std::move(entries));
}

}  // namespace caisson::egress
