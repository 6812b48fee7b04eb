#include "control/layer_answers.h"

#include <cstring>

#include "control/guest_path.h"
#include "control/text.h"

namespace caisson::control {
namespace {

std::unexpected<Error> broken(std::string_view why) {
  return failure(Errc::Protocol, "the layer's process answered with nonsense: " + std::string(why));
}

template <class T>
bool read_as(std::span<const std::byte> bytes, T& out) {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&out, bytes.data(), sizeof(T));
  return true;
}

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Error told(const wire::LayerFailed& failed, std::span<const std::byte> text) {
  const std::string why = cut_text(to_utf8(text_of(text)), wire::kLayerMessageMax);
  switch (failed.error) {
    case wire::LayerError::BadInput:
      return Error{Errc::Protocol, why, 0};
    case wire::LayerError::TooLarge:
      return Error{Errc::TooLarge, why, 0};
    case wire::LayerError::NoSpace:
      return Error{Errc::Exhausted, why, 0};
    default:
      return Error{Errc::Internal, why, 0};
  }
}

// A path inside a layer, however it was written: every part is a name.
Result<std::string> judged_path(std::string path) {
  if (!path.starts_with('/')) path.insert(path.begin(), '/');
  if (path.size() > kPathBytesMax) return broken("a path is too long");
  if (path.find('\0') != std::string::npos) return broken("a path holds NUL");
  std::string_view rest = path;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    if (part.empty() || part == "." || part == "..") {
      return broken("a path has an empty part, '.' or '..'");
    }
    rest.remove_prefix(end);
  }
  return path;
}

}  // namespace

Result<bool> LayerAnswers::take(std::span<const std::byte> bytes) {
  held_.insert(held_.end(), bytes.begin(), bytes.end());
  std::span<const std::byte> rest = held_;
  wire::JobHeader header{};
  while (!rest.empty()) {
    if (over_) return broken("more after the end");
    if (!read_as(rest, header)) break;
    if (header.version != wire::kLayerVersion) return broken("of another version");
    if (header.size > wire::kLayerAnswerMax) return broken("an answer is too long");
    if (rest.size() < sizeof(header) + header.size) break;
    const auto body = rest.subspan(sizeof(header), header.size);
    over_ = TRY(take_one(static_cast<wire::AnswerKind>(header.kind), body));
    rest = rest.subspan(sizeof(header) + header.size);
  }
  held_.erase(held_.begin(), held_.end() - static_cast<std::ptrdiff_t>(rest.size()));
  return over_;
}

Result<bool> LayerAnswers::take_one(wire::AnswerKind kind, std::span<const std::byte> body) {
  switch (kind) {
    case wire::AnswerKind::Progress: {
      wire::LayerProgress at{};
      if (body.size() != sizeof(at) || !read_as(body, at)) return broken("progress");
      if (progress) progress(at);
      return false;
    }
    case wire::AnswerKind::Entry:
      TRY(take_entry(body));
      return false;
    case wire::AnswerKind::Done:
      if (body.size() != sizeof(outcome_.done) || !read_as(body, outcome_.done))
        return broken("its end");
      return true;
    case wire::AnswerKind::Failed: {
      wire::LayerFailed failed{};
      if (!read_as(body, failed) || body.size() > sizeof(failed) + wire::kLayerMessageMax)
        return broken("its failure");
      return std::unexpected(told(failed, body.subspan(sizeof(failed))));
    }
  }
  return broken("an unknown word");
}

Result<void> LayerAnswers::take_entry(std::span<const std::byte> body) {
  wire::LayerEntry entry{};
  if (!read_as(body, entry) || entry.path_size != body.size() - sizeof(entry))
    return broken("an entry");
  if (entry.kind < wire::EntryKind::Added || entry.kind > wire::EntryKind::Conflict)
    return broken("the kind of an entry");
  std::string path = TRY(judged_path(text_of(body.subspan(sizeof(entry)))));
  path_bytes_ += path.size();
  if (outcome_.entries.size() >= entries_max_ || path_bytes_ > kAnswerPathBytesMax) {
    outcome_.truncated = true;
    return {};
  }
  outcome_.entries.push_back({entry.kind, entry.mode, entry.size, std::move(path), entry.offset});
  return {};
}

}  // namespace caisson::control
