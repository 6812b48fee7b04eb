// engine/channel/guest_channel.h — one sandbox's init, driven by coroutines of one I/O thread.
//
// The blocking sister is engine/link/guest_session.h; both speak by GuestLink. A request is written
// in the caller's own turn, and each caller is resumed once, when his answer is there. When the
// link dies or is closed, every waiting call fails at once with Errc::Gone. Whoever drops a call,
// by Asio's cancellation or by destroying the object, ends what he asked for: the tree of an exec
// is killed, an operation is cancelled, a reader detaches.
//
// Memory is bounded. What nobody takes gives no credit, so a download, an archive or the output of
// a process holds at most kWindowBytes of each stream here, however much there is to come. Several
// readers of one process share its one attachment: it starts at the smallest offset that anybody
// wants, each skips what lies before his own, and the slowest gives the credit. One who holds up
// others for longer than `reader_stall` is cut off.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/link/guest_session.h"
#include "engine/nonce.h"

namespace caisson::engine {

using boost::asio::awaitable;

inline constexpr std::uint32_t kWindowBytes = 256 * 1024;    // of one output stream
inline constexpr std::uint32_t kTransferBytes = 512 * 1024;  // of one download or archive
// What lies between the server and the reader of a large upload, as the kernel counts it.
inline constexpr std::uint32_t kUploadBytes = 1024 * 1024;
inline constexpr std::size_t kListEntriesMax = 100'000;            // of one listing
inline constexpr std::size_t kListBytesMax = 16UL * 1024 * 1024;   // whole paths and link targets
inline constexpr std::size_t kMatchBytesMax = 4UL * 1024 * 1024;   // names and lines of one search
inline constexpr std::size_t kScanEntriesMax = 400'000;            // of a whole tree
inline constexpr std::size_t kScanBytesMax = 64UL * 1024 * 1024;   // names in it
inline constexpr std::size_t kWatchEventsMax = 4096;               // not yet taken by the caller
inline constexpr std::size_t kWatchBytesMax = 512UL * 1024;        // names of these
inline constexpr std::size_t kReadersMax = 32;                     // of one process
inline constexpr std::size_t kCallsMax = 1024;                     // waiting, of one sandbox
inline constexpr std::uint32_t kBackgroundRingBytes = 512 * 1024;  // of each stream of a process
inline constexpr milliseconds kReaderStall{30'000};
inline constexpr milliseconds kFirstReaderGrace{2'000};

// Bytes out of a sandbox: a file or an archive. Dropping it cancels.
class GuestReader {
 public:
  virtual ~GuestReader() = default;
  // Empty at the end. Valid until the next call.
  virtual awaitable<Result<std::span<const std::byte>>> next() = 0;
};

// Bytes into a sandbox. Dropping it before finish() leaves no trace of a file.
class GuestWriter {
 public:
  virtual ~GuestWriter() = default;
  // `bytes` stay valid until it returns.
  virtual awaitable<Result<void>> write(std::span<const std::byte> bytes) = 0;
  virtual awaitable<Result<TarResult>> finish() = 0;
};

class GuestWatch {
 public:
  virtual ~GuestWatch() = default;
  virtual awaitable<Result<WatchEvent>> next() = 0;
};

struct GuestData {
  bool error = false;        // stderr
  std::uint64_t offset = 0;  // of its first byte
  std::uint64_t lost = 0;    // bytes before it that the ring has dropped
  std::string bytes;
};

// The output of a process, then once its end. Dropping it detaches; the process goes on.
class GuestOutput {
 public:
  using Item = std::variant<GuestData, wire::ExitedBody>;
  virtual ~GuestOutput() = default;
  virtual awaitable<Result<Item>> next() = 0;
};

struct GuestProcess {
  std::uint32_t id = 0;
  std::int32_t pid = 0;
  bool running = true;
  std::uint32_t flags = 0;  // wire::StartFlags
  microseconds age{0};
  std::string name;
  std::uint64_t begin[2] = {0, 0};
  std::uint64_t end[2] = {0, 0};
  wire::ExitedBody exited{};
};

struct Listing {
  std::vector<FileEntry> entries;
  bool truncated = false;  // there were more than kListEntriesMax or kListBytesMax
};

struct ChannelOptions {
  milliseconds hello{10'000};
  milliseconds idle_transfer{
      60'000};  // an operation that makes no progress for so long is given up
  milliseconds reader_stall = kReaderStall;
  milliseconds first_reader_grace = kFirstReaderGrace;
  // This init has served somebody before: learn which processes it has, and clear away the execs
  // whose callers are gone.
  bool adopt = false;
  // Descriptors may go beside the stream. Not where another kernel lies between.
  bool passes_descriptors = true;
};

class GuestChannel {
 public:
  // Waits for init's Hello.
  [[nodiscard]] static awaitable<Result<std::shared_ptr<GuestChannel>>> open(
      boost::asio::any_io_executor executor, UniqueFd stream, Nonce nonce,
      ChannelOptions options = {});
  virtual ~GuestChannel() = default;

  // Called once, on the I/O thread, when the link died by itself.
  virtual void on_death(std::function<void(const Error&)> call) = 0;
  // Ends the link; every waiting call gets `reason`.
  virtual void close(Error reason) = 0;
  [[nodiscard]] virtual bool alive() const noexcept = 0;

  // Collected. request.stop is not used: cancel the coroutine instead.
  virtual awaitable<Result<ExecResult>> execute(ExecRequest request) = 0;

  // --- background processes. The channel picks the id and sets mode, ring and attachment; the
  // caller's flags are kStartPty, kStartStdin, kStartMergeError, kStartKillTree.
  virtual awaitable<Result<GuestProcess>> start(StartOptions options) = 0;
  virtual awaitable<Result<std::vector<GuestProcess>>> processes() = 0;
  virtual awaitable<Result<std::unique_ptr<GuestOutput>>> attach(std::uint32_t process,
                                                                 std::uint64_t out_offset,
                                                                 std::uint64_t err_offset) = 0;
  // Waits until init has taken all of it.
  virtual awaitable<Result<void>> input(std::uint32_t process, std::string bytes,
                                        bool then_close) = 0;
  virtual awaitable<Result<void>> signal(std::uint32_t process, int number,
                                         wire::SignalTarget target) = 0;
  virtual awaitable<Result<void>> resize(std::uint32_t process, std::uint16_t rows,
                                         std::uint16_t columns) = 0;
  virtual awaitable<Result<wire::ExitedBody>> wait(std::uint32_t process, milliseconds timeout) = 0;
  virtual awaitable<Result<void>> forget(std::uint32_t process) = 0;

  // --- files. Paths are absolute inside.
  virtual awaitable<Result<FileEntry>> stat(GuestUser user, std::string path, bool follow) = 0;
  // Where a path leads, as the entry's name: links and ".." are followed, and what is not there is
  // taken by its words.
  virtual awaitable<Result<FileEntry>> resolve(GuestUser user, std::string path) = 0;
  virtual awaitable<Result<Listing>> list(GuestUser user, std::string path, bool recursive) = 0;
  // TCP ports where somebody inside listens, in rising order.
  virtual awaitable<Result<std::vector<std::uint16_t>>> ports(GuestUser user) = 0;
  // Exactly `length` bytes, or Gone when the file turned out to be shorter; 0: to the end.
  virtual awaitable<Result<std::unique_ptr<GuestReader>>> read(GuestUser user, std::string path,
                                                               std::uint64_t offset,
                                                               std::uint64_t length,
                                                               bool no_links = false) = 0;
  virtual awaitable<Result<std::unique_ptr<GuestWriter>>> write(GuestUser user, std::string path,
                                                                WriteOptions options) = 0;
  virtual awaitable<Result<void>> make_folder(GuestUser user, std::string path, bool parents,
                                              std::uint32_t mode) = 0;
  virtual awaitable<Result<void>> move(GuestUser user, std::string from, std::string to,
                                       MoveOptions options) = 0;
  virtual awaitable<Result<std::uint64_t>> remove(GuestUser user, std::string path,
                                                  bool recursive) = 0;
  // Returns when nothing is missed any more.
  virtual awaitable<Result<std::unique_ptr<GuestWatch>>> watch(GuestUser user, std::string path,
                                                               bool recursive) = 0;
  virtual awaitable<Result<std::unique_ptr<GuestReader>>> tar_out(GuestUser user,
                                                                  std::string path) = 0;
  virtual awaitable<Result<std::unique_ptr<GuestWriter>>> tar_in(GuestUser user, std::string path,
                                                                 TarOptions options) = 0;
  // Everything below, with kOpOpenUp.
  virtual awaitable<Result<Listing>> scan(GuestUser user, std::string path) = 0;
  // These, relative to `path`, as a tar stream; those that are not there are left out.
  virtual awaitable<Result<std::unique_ptr<GuestReader>>> pack(GuestUser user, std::string path,
                                                               std::vector<std::string> names) = 0;
  virtual awaitable<Result<Listing>> find(GuestUser user, std::string path, std::string pattern,
                                          std::vector<std::string> prune) = 0;
  // `glob` may be empty. InvalidArgument with EINVAL: `pattern` is none.
  virtual awaitable<Result<Matches>> grep(GuestUser user, std::string path, std::string pattern,
                                          std::string glob, std::vector<std::string> prune,
                                          std::size_t matches_max) = 0;

  virtual awaitable<Result<microseconds>> ping() = 0;
};

}  // namespace caisson::engine
