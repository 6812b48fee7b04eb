// engine/link/guest_session.h — a blocking client of one sandbox's init, for many threads at once.
//
// There is no thread of its own. Whoever waits pumps the link for everybody: one waiter is the
// leader and sits in poll(), the others sleep until their call is done or the leader leaves. When
// init dies, every waiter is answered at once with Errc::Gone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/link/guest_link.h"

namespace caisson::engine {

struct GuestUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Whether so many more bytes of a command's output may be kept.
using AdmitOutput = std::function<bool(std::size_t bytes)>;

struct ExecRequest {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value
  std::string cwd = "/";
  GuestUser user;
  std::vector<std::uint32_t> groups;
  std::string input;             // for stdin; without it stdin is the null device
  bool merge_error = false;      // stderr into stdout, in true order
  bool keep_background = false;  // else what the command leaves behind is killed with it
  bool hold = false;             // until nobody has its output open; what closed it goes on
  milliseconds timeout{0};       // 0: none
  milliseconds grace{0};         // between SIGTERM and the kill
  std::uint32_t output_bytes_max = 1024 * 1024;  // kept of each stream: its head and its tail
  std::stop_token stop;                          // when requested, the whole tree is killed
  // Asked by a GuestChannel for each piece as it comes. From the first that is refused on, nothing
  // of the stream is kept, and all of it counts as lost. Without it everything is kept.
  AdmitOutput admit{};
};

struct ExecResult {
  int exit_code = 0;  // 128 + N when signal N ended it
  int signal = 0;
  std::string out;
  std::string err;
  std::uint64_t out_lost = 0;  // bytes between head and tail that were not kept
  std::uint64_t err_lost = 0;
  bool timed_out = false;
  bool oom_killed = false;
  bool tree_killed = false;
  microseconds wall{0};
  microseconds cpu{
      0};  // of the tree where the tier knows it, else of the process and what it waited for
  std::uint64_t peak_rss_kib = 0;
};

struct FileEntry {
  std::string name;    // relative to the listed folder; empty from stat()
  std::string target;  // of a link
  wire::EntryType type{};
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t ctime_ns = 0;
  std::uint64_t inode = 0;
  std::uint32_t links = 0;
  std::uint32_t depth = 0;
};

struct WriteOptions {
  std::uint32_t mode = 0;  // 0: the old file's, or 0644
  bool parents = false;
  bool exclusive = false;
  bool bulk = false;  // much will come: a channel gives it a way of its own where it can
  bool append = false;
  bool no_links = false;  // ELOOP when one is anywhere on the way
};

struct MoveOptions {
  bool parents = false;
  bool replace = false;
};

struct WatchEvent {
  std::uint32_t mask = 0;  // wire::EventMask; 0 is the first: from here on nothing is missed
  std::uint32_t cookie = 0;
  std::string name;
};

struct ProcessEntry {
  std::uint32_t id = 0;
  std::int32_t pid = 0;
  wire::ProcessState state{};
  std::uint32_t flags = 0;
  microseconds age{0};
  std::string name;
  wire::ExitedBody exited{};
};

struct TarOptions {
  bool parents = false;
  bool tell = false;     // TarResult::made, from a channel
  bool open_up = false;  // what the user closed to himself is opened
};

struct TarResult {
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  std::vector<FileEntry> made{};  // of TarOptions::tell
  bool made_truncated = false;    // there was more than a listing holds
};

struct MatchedLine {
  std::string name;  // relative to the searched folder; empty: the file itself
  std::uint64_t line = 0;
  std::string text;
};

struct Matches {
  std::vector<MatchedLine> lines;
  bool truncated = false;
  std::uint64_t unreadable = 0;  // files
};

using ByteSink = std::function<Result<void>(std::span<const std::byte>)>;
using ByteSource = std::function<Result<std::size_t>(std::span<std::byte>)>;  // 0 at the end

class GuestSession {
 public:
  static constexpr std::size_t kReadFileBytesMax = 256UL * 1024 * 1024;
  static constexpr std::size_t kListEntriesMax = 1000000;
  static constexpr std::uint32_t kWindowBytes = 256 * 1024;
  static constexpr milliseconds kFileTimeout{60000};  // for an operation that makes no progress
  static constexpr milliseconds kExecMargin{5000};    // beyond a command's own deadline

  // Waits for init's Hello.
  [[nodiscard]] static Result<std::unique_ptr<GuestSession>> connect(
      UniqueFd stream, const Nonce& nonce, milliseconds timeout = milliseconds{10000});
  ~GuestSession();
  GuestSession(const GuestSession&) = delete;
  GuestSession& operator=(const GuestSession&) = delete;

  [[nodiscard]] Result<ExecResult> execute(const ExecRequest& request);

  [[nodiscard]] Result<FileEntry> stat(const GuestUser& user, std::string path, bool follow = true);
  [[nodiscard]] Result<std::vector<FileEntry>> list(const GuestUser& user, std::string path,
                                                    bool recursive = false);
  // At most `bytes_max` bytes from `offset`; more in the file is Errc::Exhausted unless `length`
  // said how many.
  [[nodiscard]] Result<std::string> read_file(const GuestUser& user, std::string path,
                                              std::uint64_t offset = 0, std::uint64_t length = 0,
                                              std::size_t bytes_max = kReadFileBytesMax);
  [[nodiscard]] Result<void> write_file(const GuestUser& user, std::string path,
                                        std::string_view content, const WriteOptions& options = {});
  [[nodiscard]] Result<void> make_folder(const GuestUser& user, std::string path,
                                         bool parents = false, std::uint32_t mode = 0);
  [[nodiscard]] Result<void> move(const GuestUser& user, std::string from, std::string to,
                                  const MoveOptions& options = {});
  [[nodiscard]] Result<std::uint64_t> remove(const GuestUser& user, std::string path,
                                             bool recursive = false);
  [[nodiscard]] Result<TarResult> tar_out(const GuestUser& user, std::string path,
                                          const ByteSink& sink);
  [[nodiscard]] Result<TarResult> tar_in(const GuestUser& user, std::string path,
                                         const ByteSource& source, bool parents = false);
  // Until `on_event` says false or `stop` is requested.
  [[nodiscard]] Result<void> watch(const GuestUser& user, std::string path, bool recursive,
                                   const std::function<bool(const WatchEvent&)>& on_event,
                                   const std::stop_token& stop = {});

  [[nodiscard]] Result<microseconds> ping();
  [[nodiscard]] Result<std::vector<ProcessEntry>> list_processes();
  [[nodiscard]] bool alive();

 private:
  // One waiting caller. Its frames are handed to `on_frame` by whichever thread leads, under the
  // lock.
  struct Call {
    std::uint32_t id = 0;
    std::function<void(Call&, const Frame&)> on_frame;
    std::condition_variable wake;
    std::uint64_t progress = 0;  // frames so far: whoever waits for one looks at this
    bool done = false;
    std::optional<Error> error;
    wire::DoneBody result{};
    std::string received;  // bytes that the caller has not taken yet
    bool stop_requested = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  GuestSession(UniqueFd stream, const Nonce& nonce, UniqueFd waker);

  void enlist(Call& call);
  void dismiss(Call& call);
  [[nodiscard]] std::uint32_t fresh_id();
  // Waits until `ready` or the call failed; false at the deadline.
  bool wait(Lock& lock, Call& call, const std::function<bool()>& ready,
            std::optional<TimePoint> deadline);
  void lead(Lock& lock, std::optional<TimePoint> deadline);
  void flush();
  void dispatch();
  void fail_all(const Error& error);
  void poke();
  void request_stop(Call& call);

  [[nodiscard]] Result<void> begin(Call& call, const OpOptions& options);
  [[nodiscard]] Result<wire::DoneBody> finish(Lock& lock, Call& call, std::string_view what);
  [[nodiscard]] Result<wire::DoneBody> simple(const OpOptions& options, std::string_view what);
  [[nodiscard]] Result<wire::DoneBody> receive(const OpOptions& options, std::string_view what,
                                               const ByteSink& sink);
  [[nodiscard]] Result<wire::DoneBody> transmit(const OpOptions& options, std::string_view what,
                                                const ByteSource& source);
  [[nodiscard]] std::unexpected<Error> abandon(Lock& lock, Call& call, Error error);

  std::mutex mutex_;
  GuestLink link_;
  UniqueFd waker_;  // an eventfd: interrupts the leader's poll
  bool has_leader_ = false;
  std::uint32_t next_id_ = 1;
  std::unordered_map<std::uint32_t, Call*> calls_;
  std::list<Call*> waiting_;  // asleep, in order
};

}  // namespace caisson::engine
