#include "main/egress_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "control/network_rules.h"
#include "egress/credentials/authority.h"
#include "egress/credentials/secret_box.h"
#include "egress/gate/gate.h"
#include "egress/gate/resolv_conf.h"
#include "egress/gate/resolver.h"
#include "engine/native/own_process.h"
#include "policy/json_text.h"
#include "policy/settings/listen_address.h"
#include "sys/file.h"
#include "sys/socket.h"

namespace caisson::server {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;

constexpr int kControl = 3;
constexpr unsigned kNobody = 65534;
constexpr std::size_t kWishBytesMax = 128UL * 1024;
constexpr std::size_t kRefusedTold = 20;
constexpr std::size_t kNameServersFlagMax = 8;

// What a run's summary says in the end.
struct Tally {
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::vector<std::string> refused;

  void note(const egress::Passage& passage) {
    if (passage.verdict.outcome != egress::Outcome::Deny) {
      ++allowed;
      return;
    }
    denied += 1 + passage.repeats;
    std::string line = egress::to_string(passage.verdict);
    if (refused.size() < kRefusedTold && std::ranges::find(refused, line) == refused.end())
      refused.push_back(std::move(line));
  }
};

// What a run may do with TLS: an authority of its own, and the secrets that its caller named.
struct Means {
  std::shared_ptr<egress::Authority> authority;
  std::map<std::string, egress::Secret, std::less<>> secrets;
};

asio::awaitable<Result<void>> accepted() { co_return Result<void>(); }

struct Wish {
  egress::Rules rules;
  std::vector<egress::NameServer> name_servers;
  bool steered = false;
};

Result<egress::NameServer> read_server(const std::string& text) {
  const bool port = text.find(':') != std::string::npos && text.find(':') == text.rfind(':');
  const bool bracketed = text.starts_with('[');
  const auto address = TRY(policy::parse_listen_address(port || bracketed ? text : text + ":53"));
  const auto ip = egress::IpAddress::parse(address.host);
  if (!ip) return failure(Errc::InvalidArgument, "'" + text + "' is no address of a name server");
  return egress::NameServer{*ip, address.port};
}

Result<Wish> read_wish(std::string_view text) {
  boost::system::error_code wrong;
  const json::value value = json::parse(text, wrong);
  if (wrong || !value.is_object() || !value.get_object().contains("rules"))
    return failure(Errc::Protocol, "the egress process was asked something else");
  const json::object& said = value.get_object();
  Wish wish;
  control::EgressRules rules = TRY(control::read_rules(said.at("rules"), "network_egress_rules"));
  wish.rules = TRY(egress::Rules::compile(std::move(rules)));
  const json::value* steered = said.if_contains("steered");
  wish.steered = steered != nullptr && steered->is_bool() && steered->get_bool();
  const json::value* servers = said.if_contains("name_servers");
  if (servers != nullptr && servers->is_array()) {
    for (const json::value& one : servers->get_array()) {
      if (!one.is_string() || wish.name_servers.size() >= kNameServersFlagMax) break;
      wish.name_servers.push_back(TRY(read_server(std::string(one.get_string()))));
    }
  }
  if (!wish.name_servers.empty()) return wish;
  const auto conf = sys::read_small(AT_FDCWD, "/etc/resolv.conf", kWishBytesMax);
  if (conf) wish.name_servers = egress::read_resolv_conf(*conf);
  return wish;
}

Result<egress::InsideSockets> take_sockets(std::vector<UniqueFd> fds, bool steered) {
  const std::size_t before = steered ? 2 : 1;
  if (fds.size() <= before) return failure(Errc::Protocol, "the sockets inside did not come");
  egress::InsideSockets inside;
  inside.resolver = std::move(fds[0]);
  if (steered) inside.held.push_back(std::move(fds[1]));
  for (std::size_t i = before; i < fds.size(); ++i) inside.listeners.push_back(std::move(fds[i]));
  return inside;
}

void say(const std::string& text) {
  (void)sys::send_message(kControl, std::as_bytes(std::span(text)), {});
}

std::string report(const Tally& tally, const egress::GateCounts& counts) {
  json::array refused;
  for (const std::string& line : tally.refused) refused.emplace_back(line);
  return policy::json_text(json::object{{"allowed", tally.allowed},
                                        {"denied", tally.denied},
                                        {"bytes_up", counts.bytes_up},
                                        {"bytes_down", counts.bytes_down},
                                        {"refused", std::move(refused)}});
}

// One question after the other, until nobody is there to ask.
void answer_questions(asio::posix::stream_descriptor& control, const Tally& tally,
                      egress::Gate& gate) {
  control.async_wait(asio::posix::stream_descriptor::wait_read,
                     [&](const boost::system::error_code& failed) {
                       const auto asked = sys::receive_message(kControl, kWishBytesMax);
                       if (failed || !asked || asked->bytes.empty()) return gate.close();
                       say(report(tally, gate.counts()));
                       answer_questions(control, tally, gate);
                     });
}

std::string_view text_of(const sys::Message& message) {
  return {reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size()};
}

// All of a file, into locked memory and nowhere else; without the newline at its end.
Result<egress::Secret> read_secret(int fd, const std::string& name) {
  egress::Secret out = TRY(egress::Secret::of_size(egress::kStoredSecretBytesMax + 2));
  std::size_t used = 0;
  while (used < out.size()) {
    const ssize_t got = ::read(fd, out.fill().data() + used, out.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read the secret '" + name + "'", errno);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  out.cut(used);
  if (out.expose().ends_with('\n')) out.cut(out.size() - 1);
  if (out.expose().ends_with('\r')) out.cut(out.size() - 1);
  if (out.size() == 0 || out.size() > egress::kStoredSecretBytesMax) {
    return failure(Errc::InvalidArgument,
                   fmt::format("the secret '{}' has {} bytes; want 1 to {}", name, out.size(),
                               egress::kStoredSecretBytesMax));
  }
  return out;
}

// Nothing when it is another message.
Result<bool> take_means(const sys::Message& message, Means& means) {
  boost::system::error_code wrong;
  const json::value value = json::parse(text_of(message), wrong);
  if (wrong || !value.is_object()) return false;
  const json::value* domains = value.get_object().if_contains("domains");
  const json::value* names = value.get_object().if_contains("secrets");
  if (domains == nullptr || !domains->is_array() || names == nullptr || !names->is_array())
    return false;
  std::vector<std::string> all;
  for (const json::value& one : domains->get_array()) all.emplace_back(one.as_string());
  if (names->get_array().size() != message.fds.size())
    return failure(Errc::Protocol, "the files of the secrets did not come");
  for (std::size_t i = 0; i < message.fds.size(); ++i) {
    const std::string name(names->get_array()[i].as_string());
    means.secrets.emplace(name, TRY(read_secret(message.fds[i].get(), name)));
  }
  auto made = TRY(egress::Authority::make("run", std::move(all), std::chrono::system_clock::now()));
  means.authority = std::make_shared<egress::Authority>(std::move(made));
  return true;
}

Result<void> serve_one() {
  sys::Message first = TRY(sys::receive_message(kControl, kWishBytesMax));
  Means means;
  if (!first.bytes.empty() && TRY(take_means(first, means))) {
    say(means.authority->certificate_pem());
    first = TRY(sys::receive_message(kControl, kWishBytesMax));
  }
  if (first.bytes.empty()) return {};  // the run came to nothing
  Wish wish = TRY(read_wish(text_of(first)));
  asio::io_context context(1);
  Tally tally;
  egress::GateOptions options;
  options.sandbox = "run";
  options.rules = std::move(wish.rules);
  egress::ResolverOptions resolver;
  resolver.servers = std::move(wish.name_servers);
  options.resolver = egress::Resolver::make(context.get_executor(), std::move(resolver));
  options.witness.decided = [&tally](const egress::Passage& passage) {
    tally.note(passage);
    return accepted();
  };
  options.witness.noted = [&tally](const egress::Passage& passage) {
    tally.note(passage);
    return true;
  };
  options.witness.ended = [](const egress::Farewell&) {};
  options.authority = means.authority;
  options.secrets = [&means](std::string_view name) -> const egress::Secret* {
    const auto at = means.secrets.find(name);
    return at == means.secrets.end() ? nullptr : &at->second;
  };
  egress::InsideSockets inside = TRY(take_sockets(std::move(first.fds), wish.steered));
  const auto gate =
      TRY(egress::Gate::open(context.get_executor(), std::move(inside), std::move(options)));
  asio::posix::stream_descriptor control(context, kControl);
  say("ready");
  answer_questions(control, tally, *gate);
  context.run();
  return {};
}

}  // namespace

int egress_process() {
  if (::geteuid() == 0) {
    const auto dropped = engine::native::become_unprivileged(kNobody, kNobody);
    if (!dropped) {
      say("drop privileges: " + dropped.error().message);
      return 1;
    }
  }
  const auto served = serve_one();
  if (served) return 0;
  say(served.error().message);
  return 1;
}

}  // namespace caisson::server
