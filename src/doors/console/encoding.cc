#include "doors/console/encoding.h"

#include "http/field.h"

namespace caisson::console {

namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The part before the mark, and the text behind it.
std::string_view next_part(std::string_view& text, char mark) noexcept {
  const std::string_view part = text.substr(0, text.find(mark));
  text.remove_prefix(part.size() < text.size() ? part.size() + 1 : part.size());
  return trimmed(part);
}

// Parameters of one coding: a weight of nothing but zeros is a no.
bool has_weight(std::string_view parameters) noexcept {
  while (!parameters.empty()) {
    std::string_view value = next_part(parameters, ';');
    const std::string_view name = next_part(value, '=');
    if (http::same_name(name, "q")) {
      return trimmed(value).find_first_not_of("0.") != std::string_view::npos;
    }
  }
  return true;
}

}  // namespace

bool takes_gzip(std::string_view accept_encoding) noexcept {
  bool any = false;
  while (!accept_encoding.empty()) {
    std::string_view parameters = next_part(accept_encoding, ',');
    const std::string_view name = next_part(parameters, ';');
    if (http::same_name(name, "gzip")) return has_weight(parameters);
    if (name == "*") any = has_weight(parameters);
  }
  return any;
}

bool has_etag(std::string_view if_none_match, std::string_view etag) noexcept {
  if (trimmed(if_none_match) == "*") return true;
  while (!if_none_match.empty()) {
    std::string_view one = next_part(if_none_match, ',');
    if (one.starts_with("W/")) one.remove_prefix(2);  // a proxy that compresses writes it so
    if (one == etag) return true;
  }
  return false;
}

Inflater::Inflater(std::span<const std::byte> gzip) noexcept {
  // zlib's interface is older than const; it only reads.
  stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(gzip.data()));
  stream_.avail_in = static_cast<uInt>(gzip.size());
  ready_ = inflateInit2(&stream_, kGzipWindow) == Z_OK;
}

Inflater::~Inflater() {
  if (ready_) inflateEnd(&stream_);
}

Result<std::size_t> Inflater::next(std::span<std::byte> out) noexcept {
  if (!ready_) return failure(Errc::Exhausted, "inflate: no memory");
  if (ended_ || out.empty()) return std::size_t{0};
  stream_.next_out = reinterpret_cast<Bytef*>(out.data());
  stream_.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream_, Z_NO_FLUSH);
  if (status != Z_OK && status != Z_STREAM_END) {
    return failure(Errc::Internal, "inflate: the file is damaged");
  }
  ended_ = status == Z_STREAM_END;
  const std::size_t made = out.size() - stream_.avail_out;
  if (made == 0 && !ended_) return failure(Errc::Internal, "inflate: the file is cut off");
  return made;
}

}  // namespace caisson::console
