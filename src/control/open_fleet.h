// control/open_fleet.h — how a server gets its Fleet, and what only the server asks of it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/fleet.h"
#include "control/image_options.h"
#include "control/minimum_tier.h"
#include "control/row_budget.h"
#include "control/vault.h"
#include "egress/gate/gateway.h"
#include "egress/gate/resolv_conf.h"
#include "engine/channel/launcher_channel.h"
#include "engine/host/features.h"

namespace caisson::control {

inline constexpr double kLifeSecondsMax = 10.0 * 365 * 24 * 3600;
inline constexpr double kExecSecondsMax = 3600;

// All that a sandbox can be given (tools.h).
[[nodiscard]] std::vector<std::string> all_tools();
// Recursive delete of the root, shutdown and its kin, the classic fork bomb, mkfs, writing over a
// device. Defence in depth against accidents: whoever wants to can spell a command in another way,
// and the sandbox's walls are what holds.
[[nodiscard]] std::vector<std::string> default_blocklist();
// cpu 1 core, 512 MiB, 256 processes, 600 s of life.
[[nodiscard]] LimitWish default_limits();

struct FleetOptions {
  std::size_t max_concurrent = 64;
  std::size_t max_per_tenant = 0;       // 0: no limit beside max_concurrent
  LimitWish limits = default_limits();  // a timeout_seconds of 0 is no end
  std::string image = "host";           // of a sandbox whose wish and profile name none
  std::vector<std::string> tools = all_tools();
  std::map<std::string, CreateWish> profiles;
  std::vector<std::string> command_blocklist = default_blocklist();  // in RE2's language
  double exec_timeout_seconds = 60;
  // The most that a caller or a profile may ask for; what is not set has no bound here.
  LimitWish limits_max;
  MinimumTiers minimum;  // the least that a sandbox is kept apart
  // Of one tenant; 0: no limit.
  std::uint64_t audit_bytes_per_minute = kAuditBytesPerMinute;
  std::uint64_t audit_refusals_per_minute = kAuditRefusalsPerMinute;
  // Who is asked where an allowed name is; none: the servers of this host's resolv.conf.
  std::vector<egress::NameServer> name_servers;
  std::string trust_store;  // of http_request's TLS; empty: the system's
  // Language models that sandboxes may call, what they cost, and what tenants may spend.
  std::vector<egress::GatewayProvider> models;
  egress::PriceTable prices;
  std::map<std::string, egress::BudgetLimits> budgets;
  // Secrets and keys; none: rules that need them are refused.
  std::shared_ptr<Vault> vault;
  ImageOptions images;
  std::string state_key;  // file of the key that authenticates the records of file state; made when
                          // it is missing; empty: a key of this process alone
  std::string boot_id;    // of this start of the host; empty: what the kernel says
  // What the launcher's host can do; probed at the start when it is not given.
  std::optional<engine::HostFeatures> host;
};

class RunningFleet : public Fleet {
 public:
  // Takes over what may change while it runs: everything but `host` and
  // where images are kept. Living sandboxes keep theirs.
  [[nodiscard]] virtual Result<void> reload(FleetOptions options) = 0;
  // The last words: no call is taken any more, every sandbox ends with `reason`, the launcher
  // stops.
  virtual awaitable<void> stop(std::string reason) = 0;
  // For a server that goes and leaves its sandboxes for the next one: waiting calls get Gone.
  virtual void leave() = 0;
  // A proxy on the host, for whoever holds the token of a living sandbox. The port that it has.
  [[nodiscard]] virtual Result<std::uint16_t> serve_host_port(const std::string& host,
                                                              std::uint16_t port) = 0;
  // Some launch and record is under way, or some call runs.
  [[nodiscard]] virtual std::size_t busy_calls() const = 0;
};

using LauncherOpener = std::function<Result<std::unique_ptr<engine::LauncherChannel>>(
    engine::LauncherChannel::Watcher)>;

// Connects with the launcher and adopts what lives there and in the store. `executor` is of the one
// I/O thread; it and `store` outlive the fleet. Before the fleet goes, stop() or leave() answers
// who waits: let the executor run until those calls have returned, or not at all any more.
awaitable<Result<std::unique_ptr<RunningFleet>>> open_fleet(boost::asio::any_io_executor executor,
                                                            FleetOptions options,
                                                            LauncherOpener opener,
                                                            store::Store& store);
// The same by the launcher's socket.
awaitable<Result<std::unique_ptr<RunningFleet>>> open_fleet(boost::asio::any_io_executor executor,
                                                            FleetOptions options,
                                                            std::string launcher_socket,
                                                            store::Store& store);

}  // namespace caisson::control
