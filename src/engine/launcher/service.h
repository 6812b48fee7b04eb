// engine/launcher/service.h — the worker: one launcher for every server of a state directory, one
// after the other.
//
// Sandboxes outlive the connection that made them. One thread, one epoll: the listening socket, a
// few peers, the end of each init (so that the cost of waiting does not grow with the living), the
// keeper's lifeline, and signals. When nothing is asked, things are made ahead.
//
// When the keeper is gone, or Stop was said, or SIGTERM came, every sandbox ends and run() returns.
// When no server has been connected for the orphan grace, the sandboxes without a time to live end.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launcher/core.h"
#include "engine/launcher/serve.h"
#include "sys/process.h"

namespace caisson::engine {

inline constexpr std::size_t kPeersMax = 16;
inline constexpr std::size_t kErrandsMax = 64;
// A peer that does not read what it asked for is dropped: it may come back and ask what lives.
inline constexpr std::size_t kAnswersQueuedMax = 2 * kSandboxesMax;

struct ServiceOptions {
  std::string state_dir;
  uid_t server_uid = 0;
  seconds orphan_grace{600};
};

class Service {
 public:
  // `listener` and `lifeline` outlive the service.
  [[nodiscard]] static Result<Service> open(LauncherCore& core, ServiceOptions options,
                                            int listener, int lifeline);

  // Until it is told to end. Every sandbox is gone then.
  [[nodiscard]] Result<void> run();

 private:
  struct Peer {
    UniqueFd socket;
    bool watches = false;
    std::deque<Answer> waiting;
  };

  Service(LauncherCore& core, ServiceOptions options)
      : core_(&core), options_(std::move(options)), alone_since_(Clock::now()) {}
  [[nodiscard]] Result<void> watch(int fd, std::uint64_t tag, std::uint32_t events, int operation);

  // Requests that wait, for the disk or a memory, each with the child process that works.
  struct Errand {
    sys::Child child;
    std::uint64_t peer = 0;
    sys::Message message;
    bool holds = false;  // before the request itself is looked at
  };

  [[nodiscard]] int patience() const;
  void on_event(const epoll_event& event);
  void on_connection();
  void on_peer(std::uint64_t number, std::uint32_t events);
  void on_request(std::uint64_t number, sys::Message message);
  void on_end(std::uint64_t number);

  [[nodiscard]] std::optional<Answer> own_request(std::uint64_t number,
                                                  const launcher_wire::Header& header,
                                                  const sys::Message& message);
  [[nodiscard]] Answer core_request(const launcher_wire::Header& header, sys::Message message);
  void send(std::uint64_t number, Answer answer);
  void drop(std::uint64_t number);

  void carry_out(std::uint64_t number, sys::Message message);
  [[nodiscard]] bool hold_first(std::uint64_t number, sys::Message& message);
  void on_held(Errand errand);
  void send_on_errand(std::uint64_t number, sys::Message message);
  void on_errand(std::uint64_t errand);
  void end_save(const std::string& id);
  void look_after(const std::string& id);
  void forget(const std::string& id);
  void settle(const std::string& id);
  void check_orphans();
  void sweep_again();
  [[nodiscard]] std::optional<TimePoint> next_sweep() const;
  [[nodiscard]] bool orphaned() const;
  void destroy_all();

  LauncherCore* core_;
  ServiceOptions options_;
  int listener_ = -1;
  UniqueFd epoll_;
  UniqueFd signals_;
  std::map<std::uint64_t, Peer> peers_;
  std::uint64_t next_number_ = 1;  // of peers and sandboxes; never used twice
  // Whose end is waited for, both ways round.
  std::unordered_map<std::uint64_t, std::string> awaited_;
  std::unordered_map<std::string, std::uint64_t> number_of_;
  std::unordered_map<std::uint64_t, Errand> errands_;
  TimePoint alone_since_;
  TimePoint started_ = Clock::now();
  std::size_t sweeps_ = 0;
  bool orphans_ended_ = false;
  bool more_to_make_ = true;
  bool stopping_ = false;
  std::optional<std::pair<std::uint64_t, launcher_wire::Header>> farewell_;
};

}  // namespace caisson::engine
