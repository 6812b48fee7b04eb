// doors/daiv/body.h — the body of a request, read once, with a bound for each part of it.
//
// JSON is judged as it arrives. The one large field of a route, base64, is decoded on the way and
// goes to a spool or to bounded memory; its text is never whole anywhere. A body of somebody
// without a key is read as well, because wrong JSON is told before a wrong key, but only up to
// kUnknownBytesMax, and nothing of it is kept.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/work_tree.h"

namespace caisson::daiv {

using boost::asio::awaitable;

inline constexpr std::size_t kUnknownBytesMax = 1024UL * 1024;  // of somebody without a key
inline constexpr std::size_t kTextBytesMax = 1024UL * 1024;     // of the strings of most routes
inline constexpr std::size_t kLongTextBytesMax = 32UL << 20U;   // of those of fs/edit
inline constexpr std::size_t kContentBytesMax = 32UL << 20U;    // of fs/write's content, decoded
inline constexpr std::size_t kRawBytesMax = 64UL * 1024;        // of a body that is no JSON

struct BodyShape {
  enum class Into : std::uint8_t { Nothing, Spool, Memory };
  std::size_t text_bytes_max = kTextBytesMax;
  std::string_view streamed{};  // the field that is base64 and large
  Into into = Into::Nothing;
};

struct Body {
  bool missing = true;  // there was none, or it was null
  boost::json::value value;
  // Of the streamed field, where the value has a string there.
  std::shared_ptr<control::Spool> spool{};
  std::string bytes{};
  std::optional<std::string> base64_error{};
};

struct Call;
enum class Known : std::uint8_t { Yes, No };  // is there a good key?

// Fails with the call's refusal set.
awaitable<Result<Body>> read_body(Call& call, BodyShape shape, Known known);

}  // namespace caisson::daiv
