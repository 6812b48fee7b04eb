#include "guest/init/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/init/child.h"
#include "guest/init/sys.h"

namespace caisson::init {
namespace {

using wire::Step;

// init is not dumpable, so its files in /proc belong to a root it does not know. Before the first
// tenant exists nobody can use the moment in which it is dumpable.
int open_oom_score() {
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  const int failed = fd < 0 ? errno : 0;
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  return fd < 0 ? -failed : fd;
}

// The filter outlives the message: it moves into a mapping that children do inherit.
bool keep_filter(Config& config, wire::Bytes filter) {
  static sock_filter program[4096];
  static_assert(sizeof(sock_filter) == 8);
  if (filter.size > sizeof(program)) return false;
  memcpy(program, filter.data, filter.size);
  config.filter.len = static_cast<unsigned short>(filter.size / sizeof(sock_filter));
  config.filter.filter = program;
  return true;
}

// What is behind the root is nobody's to see: closed before there is a tenant, by the ruleset that
// takes its number.
StartFailure enter_base(const Config& config) {
  const bool sockets = config.has(wire::kConfigScopeSockets);
  if (config.has(wire::kConfigBase)) return enter_scopes(sockets, wire::kFdBase);
  const int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return {errno, Step::Landlock};
  const StartFailure scoped = enter_scopes(sockets, root);
  close(root);
  return scoped;
}

StartFailure apply(Config& config, const wire::ConfigView& view) {
  config.wire = view.config;
  config.own_uid = getuid();
  if (!keep_filter(config, view.filter)) return {E2BIG, Step::Limit};
  // Tenants are nested in this domain, so all of them share one scope and none reaches out of it.
  if (config.has(wire::kConfigLandlock)) {
    const StartFailure scoped = enter_base(config);
    if (!scoped.ok()) return scoped;
    const StartFailure built = build_ruleset(view.rules, view.config.rule_count);
    if (!built.ok()) return built;
    config.landlock = true;
  } else if (config.has(wire::kConfigScopeSockets) || config.has(wire::kConfigBase)) {
    return {EINVAL, Step::Landlock};
  }
  const long limited = limit_self(config);
  if (limited < 0) return {static_cast<int>(-limited), Step::Rlimit};
  if (config.has(wire::kConfigRaiseOomScore)) {
    config.oom_score = open_oom_score();
    if (config.oom_score < 0) return {-config.oom_score, Step::Rlimit};
  }
  return {};
}

}  // namespace

StartFailure configure(Config& config, wire::Bytes message, wire::ControlKind wanted) {
  wire::ConfigView view;
  const wire::Check check = wire::parse_config(message, view);
  if (check == wire::Check::TooMuch) return {E2BIG, Step::Limit};
  if (check != wire::Check::Ok || view.kind != wanted) return {EINVAL, Step::Request};
  if (wanted == wire::ControlKind::Config) return apply(config, view);
  if (!config.landlock) return {EINVAL, Step::Landlock};
  return build_ruleset(view.rules, view.config.rule_count);
}

StartFailure reconfigure(Config& config, wire::Bytes message) {
  wire::ConfigView view;
  const wire::Check check = wire::parse_config(message, view);
  if (check == wire::Check::TooMuch) return {E2BIG, Step::Limit};
  if (check != wire::Check::Ok) return {EINVAL, Step::Request};
  const bool anew = view.kind == wire::ControlKind::Config;
  if (anew && !keep_filter(config, view.filter)) return {E2BIG, Step::Limit};
  // What is entered for good has been entered.
  if (anew) config.wire = view.config;
  if (!config.landlock) return {};
  return build_ruleset(view.rules, view.config.rule_count);
}

namespace {

// Reads one message that holds a configuration, and does with it what its kind says.
StartFailure take_message(Config& config, wire::ControlKind wanted) {
  uint8_t* message = map_unshared(wire::kControlMax);
  if (message == nullptr) return {ENOMEM, Step::Request};
  const ssize_t got = recv(wire::kFdControl, message, wire::kControlMax, MSG_TRUNC);
  StartFailure result{EINVAL, Step::Request};
  if (got < 0) {
    result.sys_errno = errno;
  } else if (static_cast<size_t>(got) <= wire::kControlMax) {
    result = configure(config, wire::Bytes{message, static_cast<size_t>(got)}, wanted);
  }
  unmap(message, wire::kControlMax);
  return result;
}

}  // namespace

StartFailure read_config(Config& config) { return take_message(config, wire::ControlKind::Config); }

StartFailure read_rules(Config& config) { return take_message(config, wire::ControlKind::Rules); }

}  // namespace caisson::init
