// image/reference.h — the name of an image, read as docker reads it and written in one way.
// "python:3.12" is docker.io/library/python:3.12. The first part is a registry if it has a dot or a
// port, or is "localhost". No tag and no digest means the tag "latest".
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "image/digest.h"

namespace caisson::image {

inline constexpr std::size_t kReferenceBytesMax = 512;
inline constexpr std::size_t kRepositoryBytesMax = 255;
inline constexpr std::size_t kTagBytesMax = 128;
inline constexpr std::string_view kDefaultRegistry = "docker.io";

class Reference {
 public:
  Reference() = default;  // of nothing
  // Bad text is InvalidArgument with the field "image".
  [[nodiscard]] static Result<Reference> parse(std::string_view text);

  [[nodiscard]] const std::string& registry() const noexcept { return registry_; }  // "host[:port]"
  [[nodiscard]] const std::string& repository() const noexcept { return repository_; }
  [[nodiscard]] const std::string& tag() const noexcept { return tag_; }  // empty: digest only
  [[nodiscard]] const std::optional<Digest>& digest() const noexcept { return digest_; }

  [[nodiscard]] bool empty() const noexcept { return repository_.empty(); }
  // The canonical text: registry/repository[:tag][@digest].
  [[nodiscard]] std::string str() const;
  // As people write it: without the default registry and "library/".
  [[nodiscard]] std::string familiar() const;
  // The same image, now by content.
  [[nodiscard]] Reference with_digest(Digest digest) const;

  friend auto operator<=>(const Reference&, const Reference&) = default;

 private:
  std::string registry_;
  std::string repository_;
  std::string tag_;
  std::optional<Digest> digest_;
};

// "host", "host:port", "127.0.0.1:5000" or "[::1]:5000", in lower case.
[[nodiscard]] Result<std::string> canonical_registry(std::string_view text);

}  // namespace caisson::image
