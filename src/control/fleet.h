// control/fleet.h — every sandbox of a server, for every door: create, find, use, limit, end.
//
// One thread, the I/O thread, runs all of it; what waits is a coroutine. A sandbox has its own
// stream to its init, so a busy one does not hold up another. Each call names its Caller: a sandbox
// of another tenant is NotFound, in the same words and the same time as one that never was. What is
// allowed, denied or failed is in the audit before the caller hears of it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "control/caller.h"
#include "control/code.h"
#include "control/file_state.h"
#include "control/network_rules.h"
#include "control/work_tree.h"
#include "egress/gate/gate.h"
#include "engine/launcher/answers.h"
#include "engine/link/guest_session.h"
#include "store/store.h"

namespace caisson::control {

using boost::asio::awaitable;

inline constexpr std::size_t kFilesMax = 256;                        // of one create
inline constexpr std::size_t kFileTextBytesMax = 4UL * 1024 * 1024;  // all of them together
inline constexpr std::size_t kEnvironmentMax = 256;
inline constexpr std::size_t kLabelsMax = 32;
inline constexpr std::size_t kArgumentsMax = 1024;
inline constexpr std::size_t kCommandBytesMax = 128UL * 1024;  // a kernel takes no longer argument
inline constexpr std::uint32_t kOutputBytesDefault = 1024 * 1024;
inline constexpr std::uint32_t kOutputBytesMin = 4096;
inline constexpr std::uint32_t kOutputBytesMax = 8 * 1024 * 1024;
inline constexpr std::string_view kWorkspace = "/workspace";
// Label of a sandbox whose previews everybody may look at; its value is then "true".
inline constexpr std::string_view kPublicLabel = "caisson.public";

// ------------------------------------------------------------------------------------ create

// What the caller said; what he left out is the profile's, then the server's.
struct LimitWish {
  std::optional<double> cpu;  // cores
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint32_t> processes;
  std::optional<std::uint64_t> disk_bytes;
  std::optional<std::uint64_t> disk_files;
  std::optional<std::uint32_t> open_files;
  std::optional<double> cpu_seconds;
  std::optional<double> timeout_seconds;  // life of the sandbox, from its creation
  std::optional<double> idle_seconds;     // ended when nothing was asked of it for so long
  std::optional<double> rest_seconds;     // at rest when nothing was for so long; 0: never

  friend bool operator==(const LimitWish&, const LimitWish&) = default;
};

// What calls of language models may cost. Without a limit they are counted all the same.
struct BudgetWish {
  std::optional<std::int64_t> max_tokens;
  std::optional<double> max_cost_usd;
  std::optional<bool> stop;  // at the limit the sandbox ends; else only the calls are refused

  friend bool operator==(const BudgetWish&, const BudgetWish&) = default;
};

struct CreateWish {
  std::optional<std::string> profile;
  std::optional<std::string> image;     // "host", or one that was pulled or imported
  std::optional<std::string> snapshot;  // instead of an image: on the files of this one
  std::optional<bool> memory;           // and with the processes that it has
  std::optional<engine::Storage> storage;
  std::optional<bool> persistent;  // its files outlive a stop, and the server
  std::optional<Checkpoints> checkpoint;
  std::vector<VolumeUse> volumes;
  std::optional<std::string> tier;  // "native"; others are Unsupported by name
  std::optional<std::vector<std::string>> tools;
  std::vector<std::pair<std::string, std::string>> files;  // path, content
  NetworkWish network;
  BudgetWish budget;
  LimitWish limits;
  std::optional<engine::RootMode> root;
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<std::string> workdir;  // inside; the workspace otherwise
  std::optional<std::uint32_t> uid;    // 65534 otherwise
  std::optional<std::uint32_t> gid;    // the uid's number otherwise
  // Of user 0: power over the other users inside. Otherwise the root of an image has it.
  std::optional<bool> root_capabilities;
  std::vector<std::string> folders;    // made, and the user's own, also where the root is not
  std::vector<engine::Alias> aliases;  // second places of these
  std::optional<std::string> hostname;
  std::string name;  // for people; unique among the tenant's living sandboxes when not empty
  std::map<std::string, std::string> labels;
  std::optional<InterpreterWishes> interpreters;  // with what they start, and which at once
};

// A hibernated one is shown so: within, it is a stopped one whose processes are kept.
enum class State : std::uint8_t { Creating, Running, Paused, Hibernated, Stopped, Ended };
[[nodiscard]] std::string_view to_string(State state) noexcept;

// A sandbox as it is shown.
struct SandboxView {
  std::string id;
  std::string name;
  std::string tenant;
  State state = State::Running;
  std::string profile;
  std::string image;
  std::vector<std::string> tools;
  engine::Limits limits;
  engine::RootMode root = engine::RootMode::ReadOnly;
  std::uint32_t uid = 65534;
  bool root_capabilities = false;
  std::string workdir;
  std::string hostname;
  BudgetWish budget;  // its limits; what of it is used is in the usage
  std::map<std::string, std::string> labels;
  store::WallTime created = 0;
  std::optional<store::WallTime> expires;
  std::optional<double> idle_seconds;
  std::optional<double> rest_seconds;
  bool resting = false;   // it runs, and stands still until somebody uses it
  engine::Record record;  // which walls hold
  EgressRules network;    // empty: nothing leaves
  std::string parent;     // the sandbox or snapshot whose files it started with
  engine::Storage storage = engine::Storage::Memory;
  bool persistent = false;
  Checkpoints checkpoint = Checkpoints::None;
  std::vector<VolumeUse> volumes;
  InterpreterWishes interpreters;
  std::string end_reason;
};
// Everybody may look at its ports: the one answer for every door.
[[nodiscard]] bool is_public(const SandboxView& view);

// ------------------------------------------------------------------------------------ commands

using OutputSink = std::function<awaitable<Result<void>>(bool error, std::string_view bytes)>;

struct ExecWish {
  std::vector<std::string> argv;       // or
  std::optional<std::string> command;  // a line for /bin/sh -c; exactly one of the two
  std::vector<std::pair<std::string, std::string>> environment;
  std::optional<std::string> workdir;  // relative to the sandbox's own, or absolute inside
  std::string input;                   // all of standard input (collected execs)
  std::optional<double> timeout_seconds;
  std::uint32_t output_bytes_max = kOutputBytesDefault;  // kept of each stream
  bool merge_error = false;
  engine::AdmitOutput admit{};   // counts what is collected, as it comes
  bool keep_background = false;  // what the command leaves behind goes on
  // The same, and the call waits for whoever of it has standard output or error still open.
  bool hold = false;
  // Instead of collecting: standard output and standard error (`error`) as they come. An error ends
  // the command. `output_bytes_max` says nothing then.
  OutputSink sink{};
};

using ExecOutcome = engine::ExecResult;

// A command that had a sandbox of its own.
struct OnceView {
  std::string sandbox;  // its id, for the audit: it is gone
  ExecOutcome outcome;
};

struct ProcessWish {
  ExecWish exec;
  bool terminal = false;
  bool input = true;  // keep standard input open for write_input()
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
};

struct ProcessView {
  std::uint32_t id = 0;
  std::int32_t pid = 0;  // inside
  bool running = true;
  bool terminal = false;
  std::string command;  // its name, cut
  double age_seconds = 0;
  std::uint64_t begin[2] = {0, 0};  // oldest offset still held, of stdout and stderr
  std::uint64_t end[2] = {0, 0};
  std::optional<int> exit_code;  // 128 + N when signal N ended it
  int signal = 0;
  bool timed_out = false;
  bool oom_killed = false;
};

struct OutputChunk {
  bool error = false;        // stderr
  std::uint64_t offset = 0;  // of its first byte
  std::uint64_t lost = 0;    // bytes before it that nobody can read any more
  std::string bytes;
};

// Output of a process as it comes, then its end. Dropping the stream detaches; the process goes on.
class OutputStream {
 public:
  using Item = std::variant<OutputChunk, ProcessView>;  // the view comes last, once
  virtual ~OutputStream() = default;
  virtual awaitable<Result<Item>> next() = 0;
};

// ------------------------------------------------------------------------------------ files

// Bytes out of a sandbox. Dropping it cancels.
class ByteReader {
 public:
  virtual ~ByteReader() = default;
  // Empty at the end. Valid until the next call.
  virtual awaitable<Result<std::span<const std::byte>>> next() = 0;
};

// Bytes into a sandbox. Nothing of it is seen inside before finish(); dropping it leaves no trace.
class ByteWriter {
 public:
  struct Written {
    std::uint64_t bytes = 0;
    std::uint64_t entries = 0;  // of an archive
  };
  virtual ~ByteWriter() = default;
  virtual awaitable<Result<void>> write(std::span<const std::byte> bytes) = 0;
  virtual awaitable<Result<Written>> finish() = 0;
};

struct FileView {
  engine::FileEntry entry;
  std::string path;  // absolute, inside
  std::string etag;  // of a regular file, quoted: inode, size and time of change
};

struct Download {
  FileView file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // of what follows
  std::unique_ptr<ByteReader> bytes;
};

struct Range {  // of a download; both ends included, as in HTTP
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> last;  // without `first`: that many bytes at the end
};

class WatchStream {
 public:
  virtual ~WatchStream() = default;
  virtual awaitable<Result<engine::WatchEvent>> next() = 0;
};

// ------------------------------------------------------------------------------------ events

struct Event {
  std::uint64_t sequence = 0;  // of this server's life
  store::WallTime time = 0;
  std::string type;  // "sandbox.created", "sandbox.ended", "sandbox.paused", "process.started", …
  std::string tenant;
  std::string sandbox;
  boost::json::object data;
};

class EventStream {
 public:
  virtual ~EventStream() = default;
  // Gone when the reader was too slow and events were lost, or when the server ends.
  virtual awaitable<Result<Event>> next() = 0;
};

struct UsageView {
  engine::Usage usage;
  double wall_seconds = 0;
  std::uint64_t execs = 0;
  egress::GateCounts network;
  std::int64_t tokens = 0;  // of language models, reported ones included
  double cost_usd = 0;
};

// What somebody else has counted.
struct UsageWish {
  std::int64_t tokens = 0;
  double cost_usd = 0;
};

struct FleetCounters {
  std::uint64_t created = 0;
  std::uint64_t ended = 0;
  std::uint64_t failed = 0;  // creates
  std::uint64_t execs = 0;
  std::size_t living = 0;
  std::size_t resting = 0;   // of these
  std::uint64_t rested = 0;  // how often one went to rest
  std::uint64_t denied = 0;
  std::uint64_t model_calls = 0;
  std::uint64_t model_tokens = 0;
  std::uint64_t egress_allowed = 0;
  std::uint64_t egress_denied = 0;
  std::uint64_t egress_bytes_up = 0;  // of connections that have ended
  std::uint64_t egress_bytes_down = 0;
};

// TCP ports of a sandbox, each list in rising order.
struct PortsView {
  std::vector<std::uint16_t> exposed;    // as its image says
  std::vector<std::uint16_t> listening;  // somebody inside listens there, on an address we reach
};
// Where a page of it is most likely: the first that it exposes, else one of those that web servers
// use, else the lowest. Nothing when there is none.
[[nodiscard]] std::optional<std::uint16_t> likely_port(const PortsView& ports);

struct PromoteWish {
  std::string tier;
  bool end_processes = false;  // otherwise Busy while something runs
};

// A TCP socket inside the sandbox's own network, connected to 127.0.0.1:port there. While `use` is
// held, the sandbox is in use: it is not idle and does not rest.
struct PortSocket {
  UniqueFd socket;
  std::shared_ptr<const void> use;
};

class Fleet {
 public:
  virtual ~Fleet() = default;

  // Every call takes the caller by value or by a reference that outlives the coroutine.
  virtual awaitable<Result<SandboxView>> create(const Caller& caller, CreateWish wish) = 0;
  virtual Result<SandboxView> get(const Caller& caller, std::string_view id) = 0;
  virtual std::vector<SandboxView> list(const Caller& caller) = 0;
  virtual awaitable<Result<void>> destroy(const Caller& caller, std::string id) = 0;

  // `tool` and its arguments as a client wrote them; the answer is the tool's own object. `admit`
  // counts what shell_exec collects, as it comes.
  virtual awaitable<Result<boost::json::object>> execute_tool(const Caller& caller, std::string id,
                                                              std::string tool,
                                                              boost::json::object arguments,
                                                              engine::AdmitOutput admit) = 0;
  // Name, description and argument schema of each.
  [[nodiscard]] virtual boost::json::array tools() const = 0;

  // --- commands. All of them count as the tool shell_exec for a sandbox's tool list and for the
  // blocklist.
  virtual awaitable<Result<ExecOutcome>> exec(const Caller& caller, std::string id,
                                              ExecWish wish) = 0;
  // One command in a sandbox that is made for it, and gone with it, however it ends.
  virtual awaitable<Result<OnceView>> run_once(const Caller& caller, CreateWish wish,
                                               ExecWish exec) = 0;
  virtual awaitable<Result<ProcessView>> start(const Caller& caller, std::string id,
                                               ProcessWish wish) = 0;
  virtual awaitable<Result<std::vector<ProcessView>>> processes(const Caller& caller,
                                                                std::string id) = 0;
  virtual awaitable<Result<ProcessView>> process(const Caller& caller, std::string id,
                                                 std::uint32_t process) = 0;
  // From these offsets on; 0 is the beginning, or the oldest that is still held.
  virtual awaitable<Result<std::unique_ptr<OutputStream>>> attach(const Caller& caller,
                                                                  std::string id,
                                                                  std::uint32_t process,
                                                                  std::uint64_t out_offset,
                                                                  std::uint64_t err_offset) = 0;
  // Waits until all of it is taken.
  virtual awaitable<Result<void>> write_input(const Caller& caller, std::string id,
                                              std::uint32_t process, std::string bytes,
                                              bool then_close) = 0;
  virtual awaitable<Result<void>> signal(const Caller& caller, std::string id,
                                         std::uint32_t process, int number, bool whole_tree) = 0;
  virtual awaitable<Result<void>> resize(const Caller& caller, std::string id,
                                         std::uint32_t process, std::uint16_t rows,
                                         std::uint16_t columns) = 0;
  // Until it has ended or the time is over (TimedOut); forget: its output is dropped then.
  virtual awaitable<Result<ProcessView>> wait(const Caller& caller, std::string id,
                                              std::uint32_t process, milliseconds timeout) = 0;
  virtual awaitable<Result<void>> forget(const Caller& caller, std::string id,
                                         std::uint32_t process) = 0;

  // --- code, in an interpreter that is there already. It counts as shell_exec, too.
  virtual awaitable<Result<CodeOutcome>> run_code(const Caller& caller, std::string id,
                                                  CodeWish wish) = 0;
  virtual awaitable<Result<ContextView>> create_context(const Caller& caller, std::string id,
                                                        ContextWish wish) = 0;
  virtual awaitable<Result<Contexts>> contexts(const Caller& caller, std::string id) = 0;
  // What runs in it is stopped as by Ctrl-C; its state stays.
  virtual awaitable<Result<void>> interrupt_context(const Caller& caller, std::string id,
                                                    std::string context) = 0;
  virtual awaitable<Result<void>> remove_context(const Caller& caller, std::string id,
                                                 std::string context) = 0;

  // --- files, as the sandbox's own user, inside. Paths are relative to the workspace or absolute.
  virtual awaitable<Result<FileView>> stat(const Caller& caller, std::string id, std::string path,
                                           bool follow) = 0;
  virtual awaitable<Result<std::vector<FileView>>> list_files(const Caller& caller, std::string id,
                                                              std::string path, bool recursive) = 0;
  virtual awaitable<Result<Download>> read_file(const Caller& caller, std::string id,
                                                std::string path, std::optional<Range> range) = 0;
  // Where a path leads inside, links and ".." followed; what is not there is taken by its words. A
  // relative one is relative to the workspace.
  virtual awaitable<Result<std::string>> resolve_path(const Caller& caller, std::string id,
                                                      std::string path) = 0;
  // A regular file at a path that is resolved already: a link on the way is sys_errno ELOOP.
  virtual awaitable<Result<std::unique_ptr<ByteReader>>> read_resolved(const Caller& caller,
                                                                       std::string id,
                                                                       std::string path) = 0;
  struct WriteWish {
    std::uint32_t mode = 0;
    bool parents = true;
    bool exclusive = false;
    bool bulk = false;                    // much will come
    std::optional<std::string> if_match;  // an etag, or "*"
    bool append = false;  // to the file itself: what is written stays, whatever becomes of the rest
    bool resolved = false;  // the path has no links: one on the way is sys_errno ELOOP
  };
  virtual awaitable<Result<std::unique_ptr<ByteWriter>>> write_file(const Caller& caller,
                                                                    std::string id,
                                                                    std::string path,
                                                                    WriteWish wish) = 0;
  virtual awaitable<Result<void>> make_folder(const Caller& caller, std::string id,
                                              std::string path, bool parents) = 0;
  virtual awaitable<Result<void>> move(const Caller& caller, std::string id, std::string from,
                                       std::string to, bool replace) = 0;
  virtual awaitable<Result<std::uint64_t>> remove(const Caller& caller, std::string id,
                                                  std::string path, bool recursive) = 0;
  virtual awaitable<Result<std::unique_ptr<WatchStream>>> watch(const Caller& caller,
                                                                std::string id, std::string path,
                                                                bool recursive) = 0;
  virtual awaitable<Result<std::unique_ptr<ByteReader>>> tar_out(const Caller& caller,
                                                                 std::string id,
                                                                 std::string path) = 0;
  virtual awaitable<Result<std::unique_ptr<ByteWriter>>> tar_in(const Caller& caller,
                                                                std::string id,
                                                                std::string path) = 0;

  // --- a tree to work on (work_tree.h).
  virtual Result<std::shared_ptr<Spool>> spool(const Caller& caller) = 0;
  virtual awaitable<Result<ArchiveView>> put_archive(const Caller& caller, std::string id,
                                                     ArchiveWish wish) = 0;
  // What makes the folder's files out of the archive's, for `git apply`, in UTF-8; empty: nothing.
  // Files that were there before the archive count only when they have changed since.
  virtual awaitable<Result<std::string>> patch_since(const Caller& caller, std::string id,
                                                     std::shared_ptr<const Baseline> baseline) = 0;
  virtual awaitable<Result<std::vector<FileView>>> find_files(const Caller& caller, std::string id,
                                                              FindWish wish) = 0;
  // sys_errno of the error is EINVAL when the pattern is none.
  virtual awaitable<Result<GrepView>> grep_files(const Caller& caller, std::string id,
                                                 GrepWish wish) = 0;
  // Busy when it is not free within `wait`. The sandbox need not run.
  virtual awaitable<Result<std::unique_ptr<SessionTurn>>> session_turn(const Caller& caller,
                                                                       std::string id,
                                                                       milliseconds wait) = 0;
  // Sets these and leaves the others; an empty value removes one.
  virtual awaitable<Result<SandboxView>> set_labels(const Caller& caller, std::string id,
                                                    std::map<std::string, std::string> labels) = 0;

  // --- file state: images, snapshots, forks, volumes (file_state.h)
  virtual awaitable<Result<std::unique_ptr<PullStream>>> pull_image(const Caller& caller,
                                                                    PullWish wish) = 0;
  virtual awaitable<Result<std::unique_ptr<ImageUpload>>> import_image(const Caller& caller,
                                                                       ImportWish wish) = 0;
  virtual awaitable<Result<ImageView>> build_image(const Caller& caller, BuildWish wish) = 0;
  virtual std::vector<ImageView> images(const Caller& caller) = 0;
  virtual Result<ImageView> image(const Caller& caller, std::string_view reference) = 0;
  virtual awaitable<Result<void>> remove_image(const Caller& caller, std::string reference) = 0;
  // An OCI layout as tar.
  virtual awaitable<Result<std::unique_ptr<ByteReader>>> export_image(const Caller& caller,
                                                                      std::string reference) = 0;
  virtual awaitable<Result<GarbageView>> collect_garbage(const Caller& caller) = 0;

  virtual awaitable<Result<SnapshotView>> snapshot(const Caller& caller, std::string id,
                                                   SnapshotWish wish) = 0;
  virtual std::vector<SnapshotView> snapshots(const Caller& caller,
                                              std::optional<std::string> sandbox) = 0;
  // By id, or by name.
  virtual Result<SnapshotView> get_snapshot(const Caller& caller, std::string_view snapshot) = 0;
  virtual awaitable<Result<void>> remove_snapshot(const Caller& caller, std::string snapshot) = 0;
  virtual awaitable<Result<SandboxView>> fork(const Caller& caller, std::string id,
                                              ForkWish wish) = 0;
  virtual awaitable<Result<UndoView>> undo(const Caller& caller, std::string id, UndoWish wish) = 0;
  virtual awaitable<Result<DiffView>> diff(const Caller& caller, DiffWish wish) = 0;
  // What git apply takes.
  virtual awaitable<Result<std::unique_ptr<ByteReader>>> patch(const Caller& caller,
                                                               DiffWish wish) = 0;
  virtual awaitable<Result<MergeView>> merge(const Caller& caller, std::string id,
                                             MergeWish wish) = 0;

  virtual awaitable<Result<VolumeView>> set_volume(const Caller& caller, std::string name,
                                                   std::uint64_t bytes_max) = 0;
  virtual awaitable<Result<std::vector<VolumeView>>> volumes(const Caller& caller) = 0;
  virtual awaitable<Result<void>> remove_volume(const Caller& caller, std::string name) = 0;
  // Only a persistent sandbox.
  virtual awaitable<Result<SandboxView>> stop_sandbox(const Caller& caller, std::string id) = 0;
  virtual awaitable<Result<SandboxView>> start_sandbox(const Caller& caller, std::string id) = 0;
  virtual awaitable<Result<engine::PoolFacts>> storage(const Caller& caller) = 0;

  // Its files, its name, its limits and its rules in a stronger tier; its processes end.
  virtual awaitable<Result<SandboxView>> promote(const Caller& caller, std::string id,
                                                 PromoteWish wish) = 0;
  // The weakest tier that a sandbox of this tenant may have, whatever its image and profile.
  [[nodiscard]] virtual policy::SandboxTier minimum_tier(std::string_view tenant) const = 0;

  // --- the sandbox as a whole.
  virtual awaitable<Result<SandboxView>> pause(const Caller& caller, std::string id) = 0;
  virtual awaitable<Result<SandboxView>> resume(const Caller& caller, std::string id) = 0;
  // Its processes to the disk, and nothing of it left in memory. Whatever uses it wakes it.
  virtual awaitable<Result<SandboxView>> hibernate(const Caller& caller, std::string id) = 0;
  virtual awaitable<Result<SandboxView>> set_limits(const Caller& caller, std::string id,
                                                    LimitWish wish) = 0;
  // Replaces all rules; connections that the new ones do not allow are closed.
  virtual awaitable<Result<SandboxView>> set_network(const Caller& caller, std::string id,
                                                     NetworkWish wish) = 0;
  virtual awaitable<Result<UsageView>> usage(const Caller& caller, std::string id) = 0;
  // Counted into the sandbox's budget and its tenant's, also beyond their limits.
  virtual awaitable<Result<UsageView>> record_usage(const Caller& caller, std::string id,
                                                    UsageWish wish) = 0;
  virtual awaitable<Result<PortSocket>> connect_port(const Caller& caller, std::string id,
                                                     std::uint16_t port) = 0;
  // The same, for a visit that is in the audit already: most have hundreds of requests.
  virtual awaitable<Result<PortSocket>> connect_again(const Caller& caller, std::string id,
                                                      std::uint16_t port) = 0;
  virtual awaitable<Result<PortsView>> ports(const Caller& caller, std::string id) = 0;
  // Until somebody listens there: TimedOut when nobody does in that time.
  virtual awaitable<Result<void>> wait_for_port(const Caller& caller, std::string id,
                                                std::uint16_t port, milliseconds timeout) = 0;
  // Whosever it is: for a door that must know that before it knows who asks.
  virtual Result<SandboxView> look_up(std::string_view id) = 0;
  [[nodiscard]] virtual std::size_t living_of(std::string_view tenant) const = 0;

  // --- secrets that rules name. A value goes in and never comes out again.
  virtual awaitable<Result<void>> put_secret(const Caller& caller, std::string name,
                                             std::string value) = 0;
  virtual Result<std::vector<std::string>> secret_names(const Caller& caller) = 0;
  virtual awaitable<Result<void>> remove_secret(const Caller& caller, std::string name) = 0;

  // Of the caller's tenant (an admin may ask for all), from `after` on as far as they are kept.
  virtual Result<std::unique_ptr<EventStream>> events(const Caller& caller,
                                                      std::optional<std::string> sandbox,
                                                      std::uint64_t after) = 0;

  [[nodiscard]] virtual FleetCounters counters() const = 0;
  // Could a sandbox be created now? The reason when not.
  [[nodiscard]] virtual Result<void> ready() const = 0;
};

}  // namespace caisson::control
