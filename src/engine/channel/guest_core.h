// engine/channel/guest_core.h — the inside of guest_channel.h: one link, the calls that wait on it,
// and the processes that somebody reads. Only the files of this folder include it.
//
//   guest_core.cc       the pump: reads, dispatches, writes; the death of the link
//   guest_exec.cc       execute()
//   guest_process.cc    background processes: start, list, signal, input, forget
//   guest_output.cc     many readers on the one attachment of a process
//   guest_transfer.cc   files and archives
//   guest_upload.cc     a large file into a sandbox, past init
//   guest_search.cc     what is asked with a list of strings: pack, find, grep
//
// A Call stands in calls_ from its request to its answer, also when its caller has left: its id may
// not be given out again before. Answers about a process carry the process's id and come in order,
// so they queue in Process::answers.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/channel/guest_channel.h"
#include "engine/channel/wakeup.h"
#include "engine/link/guest_link.h"

namespace caisson::engine {

struct Call {
  explicit Call(const boost::asio::any_io_executor& executor) : wakeup(executor) {}

  void finish(std::optional<Error> why = std::nullopt) {
    if (done) return;
    done = true;
    error = std::move(why);
    wakeup.wake();
  }

  std::uint32_t id = 0;
  Wakeup wakeup;
  bool done = false;
  std::optional<Error> error;
  wire::DoneBody result{};
  std::function<void(const Frame&)> on_frame;  // what is no answer; empty once the caller has left
};
using CallPtr = std::shared_ptr<Call>;

// A piece of output, shared by all who read it.
struct Chunk {
  bool error = false;
  std::uint64_t offset = 0;  // of the first byte behind `skip`
  std::uint64_t lost = 0;
  std::size_t skip = 0;
  std::shared_ptr<std::string> bytes;

  [[nodiscard]] std::size_t size() const noexcept { return bytes->size() - skip; }
};

enum class ReaderKind : unsigned char {
  Bytes,    // takes the output
  EndOnly,  // wants to hear of the end: the bytes are dropped as they come
};

struct OutputReader {
  explicit OutputReader(const boost::asio::any_io_executor& executor) : wakeup(executor) {}

  ReaderKind kind = ReaderKind::Bytes;
  Wakeup wakeup;
  bool active = false;  // its Attach is answered: what comes now is for it
  std::uint64_t next[2] = {0, 0};
  std::size_t backlog[2] = {0, 0};
  std::deque<Chunk> queue;
  std::optional<Error> error;
  TimePoint last_take = Clock::now();
};

struct Process {
  struct Answer {
    wire::Kind kind{};
    CallPtr call;
    std::uint32_t window = 0;                            // of an Attach
    std::vector<std::weak_ptr<OutputReader>> readers{};  // that begin with it
  };

  bool known = false;  // init has it
  bool drain = false;  // an exec of an earlier server: its output is dropped, its end forgets it
  std::uint32_t flags = 0;
  std::optional<wire::ExitedBody> exited;
  std::deque<Answer> answers;

  bool attached = false;
  int attaching = 0;                 // Attach frames without an answer
  std::uint64_t credit[2] = {0, 0};  // that init holds
  std::vector<std::shared_ptr<OutputReader>> readers;
  std::unique_ptr<boost::asio::steady_timer> stall;  // armed while a slow reader holds others up
  bool stall_armed = false;

  bool input_taken = false;                         // somebody is writing
  std::deque<std::shared_ptr<Wakeup>> input_turns;  // who waits to be next
  std::shared_ptr<Wakeup> input_open;               // who waits for the window
};

class EntrySink;
class GuestCore final : public GuestChannel, public std::enable_shared_from_this<GuestCore> {
 public:
  GuestCore(boost::asio::any_io_executor executor, UniqueFd stream, const Nonce& nonce,
            ChannelOptions options);
  ~GuestCore() override;
  GuestCore(const GuestCore&) = delete;
  GuestCore& operator=(const GuestCore&) = delete;

  awaitable<Result<void>> greet();

  void on_death(std::function<void(const Error&)> call) override { on_death_ = std::move(call); }
  void close(Error reason) override;
  [[nodiscard]] bool alive() const noexcept override { return !death_; }

  awaitable<Result<ExecResult>> execute(ExecRequest request) override;
  awaitable<Result<GuestProcess>> start(StartOptions options) override;
  awaitable<Result<std::vector<GuestProcess>>> processes() override;
  awaitable<Result<std::unique_ptr<GuestOutput>>> attach(std::uint32_t process,
                                                         std::uint64_t out_offset,
                                                         std::uint64_t err_offset) override;
  awaitable<Result<void>> input(std::uint32_t process, std::string bytes, bool then_close) override;
  awaitable<Result<void>> signal(std::uint32_t process, int number,
                                 wire::SignalTarget target) override;
  awaitable<Result<void>> resize(std::uint32_t process, std::uint16_t rows,
                                 std::uint16_t columns) override;
  awaitable<Result<wire::ExitedBody>> wait(std::uint32_t process, milliseconds timeout) override;
  awaitable<Result<void>> forget(std::uint32_t process) override;
  awaitable<Result<FileEntry>> stat(GuestUser user, std::string path, bool follow) override;
  awaitable<Result<FileEntry>> resolve(GuestUser user, std::string path) override;
  awaitable<Result<std::vector<std::uint16_t>>> ports(GuestUser user) override;
  awaitable<Result<Listing>> list(GuestUser user, std::string path, bool recursive) override;
  awaitable<Result<std::unique_ptr<GuestReader>>> read(GuestUser user, std::string path,
                                                       std::uint64_t offset, std::uint64_t length,
                                                       bool no_links) override;
  awaitable<Result<std::unique_ptr<GuestWriter>>> write(GuestUser user, std::string path,
                                                        WriteOptions options) override;
  awaitable<Result<void>> make_folder(GuestUser user, std::string path, bool parents,
                                      std::uint32_t mode) override;
  awaitable<Result<void>> move(GuestUser user, std::string from, std::string to,
                               MoveOptions options) override;
  awaitable<Result<std::uint64_t>> remove(GuestUser user, std::string path,
                                          bool recursive) override;
  awaitable<Result<std::unique_ptr<GuestWatch>>> watch(GuestUser user, std::string path,
                                                       bool recursive) override;
  awaitable<Result<std::unique_ptr<GuestReader>>> tar_out(GuestUser user,
                                                          std::string path) override;
  awaitable<Result<std::unique_ptr<GuestWriter>>> tar_in(GuestUser user, std::string path,
                                                         TarOptions options) override;
  awaitable<Result<Listing>> scan(GuestUser user, std::string path) override;
  awaitable<Result<std::unique_ptr<GuestReader>>> pack(GuestUser user, std::string path,
                                                       std::vector<std::string> names) override;
  awaitable<Result<Listing>> find(GuestUser user, std::string path, std::string pattern,
                                  std::vector<std::string> prune) override;
  awaitable<Result<Matches>> grep(GuestUser user, std::string path, std::string pattern,
                                  std::string glob, std::vector<std::string> prune,
                                  std::size_t matches_max) override;
  awaitable<Result<microseconds>> ping() override;

  // --- for the files of this folder.
  [[nodiscard]] Result<CallPtr> enlist();  // with a fresh id
  void dismiss(const Call& call) { calls_.erase(call.id); }
  void flush();
  void die(const Error& error);
  [[nodiscard]] GuestLink& link() noexcept { return link_; }
  [[nodiscard]] const ChannelOptions& options() const noexcept { return options_; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const noexcept { return executor_; }
  [[nodiscard]] const std::optional<Error>& death() const noexcept { return death_; }

  // An operation that was sent; its Call answers.
  [[nodiscard]] Result<CallPtr> begin(const OpOptions& options);
  // A Write with a socket of its own; nothing where that is not possible now.
  [[nodiscard]] Result<std::unique_ptr<GuestWriter>> begin_upload(const OpOptions& options,
                                                                  const std::string& what);
  // The entries of an operation, after its input, up to the limits of a listing.
  awaitable<Result<Listing>> gather(OpOptions options, std::string input, std::string what);
  awaitable<Result<FileEntry>> one_entry(OpOptions options, std::string what);
  awaitable<Result<Listing>> gather_into(EntrySink sink, OpOptions options, std::string input,
                                         std::string what);
  // A stream of an operation whose answer is bytes.
  [[nodiscard]] std::unique_ptr<GuestReader> reader_of(const CallPtr& call, std::string what);
  // All of an operation's input, and its end. Stops when the operation has answered.
  awaitable<Result<void>> send_input(CallPtr call, std::string input, std::string what);
  // Until the call is done; an operation without progress for too long is cancelled.
  awaitable<Result<wire::DoneBody>> finish(CallPtr call, std::string what);
  awaitable<Result<wire::DoneBody>> simple(OpOptions options, std::string what);

  [[nodiscard]] Process* find(std::uint32_t id);
  [[nodiscard]] CallPtr expect(Process& process, wire::Kind kind);
  void tidy(std::uint32_t id);  // drops the entry of a process that nobody uses and init lacks
  [[nodiscard]] Result<std::shared_ptr<OutputReader>> add_reader(std::uint32_t id, ReaderKind kind,
                                                                 std::uint64_t out_offset,
                                                                 std::uint64_t err_offset,
                                                                 CallPtr& answer);
  void drop_reader(std::uint32_t id, const std::shared_ptr<OutputReader>& reader);
  void grant(std::uint32_t id, Process& process);
  void detach(std::uint32_t id, Process& process);

 private:
  void arm_read();
  void arm_write();
  void on_readable();
  void dispatch();
  void deliver(const Frame& frame);
  void deliver_call(const CallPtr& call, const Frame& frame);
  void deliver_process(std::uint32_t id, Process& process, const Frame& frame);
  void answer(std::uint32_t id, Process& process, const Frame& frame);
  void on_data(std::uint32_t id, Process& process, const Frame& frame);
  void on_exited(std::uint32_t id, Process& process, const Frame& frame);
  void hand_out(Process& process, bool error, std::uint64_t offset,
                const std::shared_ptr<std::string>& bytes);
  void attached(Process& process, const Process::Answer& answer);
  void watch_stalls(std::uint32_t id, Process& process);
  void cut_stalled(std::uint32_t id);
  void fail_waiting(const Error& error);
  void await_first_reader(std::uint32_t id);
  awaitable<Result<void>> adopt();
  awaitable<Result<void>> ask(std::uint32_t id, wire::Kind kind, std::string what,
                              Result<void> sent);
  awaitable<Result<void>> feed(std::uint32_t id, std::string bytes, bool then_close);

  boost::asio::any_io_executor executor_;
  ChannelOptions options_;
  GuestLink link_;
  boost::asio::posix::stream_descriptor descriptor_;  // a view of the link's own
  std::optional<Error> death_;
  std::function<void(const Error&)> on_death_;
  bool writing_ = false;  // waits for room in the socket
  Wakeup greeted_;
  std::uint32_t next_call_;         // in the upper half, where no process of ours has its id
  std::uint32_t next_process_ = 1;  // small numbers, for people
  std::unordered_map<std::uint32_t, CallPtr> calls_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Process>> processes_;
};

// Ends what was asked for when the caller leaves before the answer.
class CallGuard {
 public:
  enum class Kind : unsigned char { Operation, Exec, Question };
  CallGuard(std::shared_ptr<GuestCore> core, CallPtr call, Kind kind)
      : core_(std::move(core)), call_(std::move(call)), kind_(kind) {}
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;
  ~CallGuard();

  [[nodiscard]] Call& call() noexcept { return *call_; }

 private:
  std::shared_ptr<GuestCore> core_;
  CallPtr call_;
  Kind kind_;
};

// Entries on their way into a listing, which keeps within its limits.
class EntrySink {
 public:
  // Callers are shown whole paths, so each name counts with its folder's.
  explicit EntrySink(std::size_t folder_size, std::size_t entries_max = kListEntriesMax,
                     std::size_t bytes_max = kListBytesMax)
      : folder_size_(folder_size), entries_max_(entries_max), bytes_max_(bytes_max) {}

  // True: it was an entry.
  bool take(const Frame& frame);
  [[nodiscard]] Listing& listing() noexcept { return listing_; }

 private:
  std::size_t folder_size_;
  std::size_t entries_max_;
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  Listing listing_;
};

// The same as guest_session.h has for its own calls.
[[nodiscard]] OpOptions make_op(wire::OpKind kind, const GuestUser& user, std::string path,
                                std::uint32_t flags = 0);
[[nodiscard]] Error gone(const Error& why);
// The error with the name of what failed before it; not of a sandbox that is gone.
[[nodiscard]] Error named(const Error& error, std::string_view what);
// What a stream waits for, or why it waits no longer.
[[nodiscard]] awaitable<Result<void>> progress(GuestCore& core, Call& call,
                                               const std::string& what);

}  // namespace caisson::engine
