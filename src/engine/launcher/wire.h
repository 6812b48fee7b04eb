// engine/launcher/wire.h — requests and replies between a launcher and whoever asks it, over
// SOCK_SEQPACKET. One message is a Header, a fixed struct by kind, and a tail of bounded strings;
// descriptors travel with it. Both ends check every length: the asker may have been taken over, and
// must then get nothing but an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/launch_request.h"
#include "engine/launcher/core.h"

namespace caisson::engine::launcher_wire {

inline constexpr std::uint32_t kLauncherVersion = 1;
inline constexpr std::size_t kMessageBytesMax = 64UL * 1024;
inline constexpr std::size_t kStringBytesMax = 4096;

enum class Request : std::uint32_t {
  Hello = 1,
  Launch,
  Connect,
  Destroy,
  Freeze,
  Thaw,
  SetLimits,
  Status,
  List
};

struct Header {
  std::uint32_t version = kLauncherVersion;
  std::uint32_t kind = 0;      // Request; the reply repeats it
  std::uint32_t sequence = 0;  // the reply repeats it
  std::uint32_t failed = 0;    // reply: 0, or 1 and an error follows
};

using Bytes = std::vector<std::byte>;

class Writer {
 public:
  explicit Writer(const Header& header) { put(header); }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  Writer& put(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Writer& put_string(std::string_view text);
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

// Reads what a Writer wrote. After the first wrong length every read gives zero, and finish() is
// the error.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T get() {
    T value{};
    copy(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  std::string get_string();
  // A count that is followed by that many elements of at least one byte each.
  std::uint32_t get_count(std::uint32_t max);
  [[nodiscard]] Result<void> finish() const;

 private:
  void copy(std::span<std::byte> out);
  std::span<const std::byte> left_;
  bool wrong_ = false;
};

void write(Writer& writer, const LaunchRequest& request);
[[nodiscard]] LaunchRequest read_launch_request(Reader& reader);
void write(Writer& writer, const Limits& limits);
[[nodiscard]] Limits read_limits(Reader& reader);
void write(Writer& writer, const Status& status);
[[nodiscard]] Status read_status(Reader& reader);
void write(Writer& writer, const Record& record);
[[nodiscard]] Record read_record(Reader& reader);
void write(Writer& writer, const Error& error);
[[nodiscard]] Error read_error(Reader& reader);

}  // namespace caisson::engine::launcher_wire
