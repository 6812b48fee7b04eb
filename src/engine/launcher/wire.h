// engine/launcher/wire.h — requests and replies between a launcher and whoever asks it, over
// SOCK_SEQPACKET. One message is a Header, a fixed struct by kind, and a tail of bounded strings;
// descriptors travel with it. Both ends check every length: the asker may have been taken over, and
// must then get nothing but an error. Replies come in any order, by sequence; Ended comes unasked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/gate.h"
#include "engine/launch_request.h"
#include "engine/launcher/answers.h"
#include "engine/layers.h"

namespace caisson::engine::launcher_wire {

inline constexpr std::uint32_t kLauncherVersion = 9;
inline constexpr std::size_t kMessageBytesMax = 64UL * 1024;
inline constexpr std::size_t kStringBytesMax = 4096;
inline constexpr std::uint32_t kLivingPerMessageMax = 96;
// A page of the living stays within one message whatever its strings hold: it is closed early.
inline constexpr std::size_t kLivingPageBytes = 24UL * 1024;
inline constexpr std::uint32_t kStoredPerMessageMax = 256;

enum class Request : std::uint32_t {
  Hello = 1,
  Launch,
  Connect,
  Destroy,
  Freeze,
  Thaw,
  SetLimits,
  Status,
  List,
  Living,        // the sandboxes after an id, with all that a new server needs; a page at a time
  Watch,         // from now on, say which sandboxes end by themselves
  SocketInside,  // a TCP socket in a sandbox's network
  OpenGate,      // the sockets of a sandbox's way out
  StopOne,       // destroy a sandbox, but for its files on disk
  Pool,          // what the store can do; made if it is not there
  Seal,          // a sandbox's writable layer becomes a layer
  Restack,       // another stack under a living sandbox
  CommitLayer,   // what a layer program made becomes a layer
  Drop,          // a layer, the files of a sandbox that is not running, a volume
  Stored,        // everything in the store; a page at a time
  SetVolume,     // a new one, or another limit
  SyncStore,     // wait until all of it is on disk
  SaveMemory,    // of a sandbox, which then stands still
  GoOn,          // it stands still no longer
  Measure,       // the digest of a saved memory
  Reclaim,       // the memory of a sandbox that stands still, as far as the kernel can take it back
  Stop,          // end every sandbox, then the launcher and its keeper
  Ended,         // never asked: what Watch asked for
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
  Writer& put_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t size() const noexcept { return out_.size(); }
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

void write_ports(Writer& writer, const std::vector<std::uint16_t>& ports);
[[nodiscard]] std::vector<std::uint16_t> read_ports(Reader& reader);
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

// Who answers: the reply to Hello.
struct Greeting {
  std::int32_t pid = 0;  // of the worker: another one means that the sandboxes are others, too
  std::string boot_id;
  std::string kernel;

  friend bool operator==(const Greeting&, const Greeting&) = default;
};
void write(Writer& writer, const Greeting& greeting);
[[nodiscard]] Greeting read_greeting(Reader& reader);

void write(Writer& writer, const Living& living);
[[nodiscard]] Living read_living(Reader& reader);

// The descriptors of a way out travel in this order: the resolver, the steering where there is one,
// the listeners. The words say how many.
void write(Writer& writer, const GateSockets& gate);
void append(std::vector<UniqueFd>& out, GateSockets gate);
struct GateShape {
  bool open = false;
  bool steered = false;
  std::uint32_t listeners = 0;

  [[nodiscard]] std::size_t descriptors() const noexcept {
    return open ? 1U + (steered ? 1U : 0U) + listeners : 0U;
  }
};
[[nodiscard]] GateShape read_gate(Reader& reader);
// The last shape.descriptors() of them, which must be there.
[[nodiscard]] GateSockets take_gate(const GateShape& shape, std::vector<UniqueFd>& fds);

struct LivingPage {
  std::vector<Living> sandboxes;
  bool more = false;  // ask again, after the last of these
};
// As many of `sandboxes` as fit in one message. `more` says whether others follow them.
void write_page(Writer& writer, const std::vector<Living>& sandboxes, bool more);
[[nodiscard]] LivingPage read_page(Reader& reader);

void write(Writer& writer, const LayerStack& stack);
[[nodiscard]] LayerStack read_stack(Reader& reader);
void write(Writer& writer, const Sealed& sealed);
[[nodiscard]] Sealed read_sealed(Reader& reader);
void write(Writer& writer, const SavedMemory& saved);
[[nodiscard]] SavedMemory read_saved(Reader& reader);
void write(Writer& writer, const PoolFacts& facts);
[[nodiscard]] PoolFacts read_pool(Reader& reader);
void write_kind(Writer& writer, StoreEntry::Kind kind);
[[nodiscard]] StoreEntry::Kind read_kind(Reader& reader);
struct StoredPage {
  std::vector<StoreEntry> entries;
  bool more = false;  // ask again, from as many on as came so far
};
void write(Writer& writer, const StoredPage& page);
[[nodiscard]] StoredPage read_stored(Reader& reader);

struct EndedNote {
  std::string id;
  Status status;
};
void write(Writer& writer, const EndedNote& note);
[[nodiscard]] EndedNote read_ended(Reader& reader);

[[nodiscard]] inline Writer begin(Request kind, std::uint32_t sequence = 0) {
  Header header;
  header.kind = static_cast<std::uint32_t>(kind);
  header.sequence = sequence;
  return Writer(header);
}

}  // namespace caisson::engine::launcher_wire
