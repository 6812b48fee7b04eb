#include "control/egress_child.h"

#include <poll.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "control/server_program.h"
#include "policy/json_text.h"
#include "sys/process.h"
#include "sys/socket.h"
#include "sys/spawn.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr int kChildSocket = 3;
constexpr milliseconds kStartPatience{10'000};
constexpr milliseconds kReportPatience{2'000};
constexpr std::size_t kAnswerBytesMax = 64UL * 1024;
constexpr std::size_t kWishBytesMax = 128UL * 1024;  // what a packet of the kernel's default holds

Result<void> send_text(int socket, const std::string& text, std::span<const int> fds) {
  return sys::send_message(socket, std::as_bytes(std::span(text)), fds);
}

std::uint64_t number(const json::object& object, std::string_view name) {
  const json::value* at = object.if_contains(name);
  boost::system::error_code wrong;
  const auto value = at == nullptr ? 0 : at->to_number<std::uint64_t>(wrong);
  return wrong ? 0 : value;
}

}  // namespace

Result<EgressChild> EgressChild::spawn(const std::string& command) {
  const std::string program = TRY(find_server(command));
  sys::SocketPair pair = TRY(sys::packet_pair());
  const sys::HandedFd handed[] = {{.path = "/dev/null", .number = STDIN_FILENO},
                                  {.path = "/dev/null", .number = STDOUT_FILENO},
                                  {.path = "/dev/null", .number = STDERR_FILENO},
                                  {.fd = pair.theirs.get(), .number = kChildSocket}};
  sys::Child process = TRY(sys::spawn(program, {"egress"}, handed, sys::Session::Own));
  return EgressChild(std::move(process), std::move(pair.ours));
}

Result<std::string> EgressChild::answer(milliseconds patience) {
  if (!TRY(sys::wait_ready(socket_.get(), POLLIN, Clock::now() + patience)))
    return failure(Errc::TimedOut, "the egress process does not answer");
  const sys::Message message = TRY(sys::receive_message(socket_.get(), kAnswerBytesMax));
  if (message.bytes.empty()) return failure(Errc::Gone, "the egress process has ended");
  return std::string(reinterpret_cast<const char*>(message.bytes.data()), message.bytes.size());
}

Result<std::string> EgressChild::prepare(const EgressRules& rules,
                                         const std::vector<SecretFile>& secrets) {
  json::array domains;
  for (const std::string& one : intercepted_domains(rules)) domains.emplace_back(one);
  if (domains.empty()) return std::string();
  json::array names;
  std::vector<int> fds;
  for (const SecretFile& one : secrets) {
    names.emplace_back(one.name);
    fds.push_back(one.file.get());
  }
  const std::string wish = policy::json_text(
      json::object{{"domains", std::move(domains)}, {"secrets", std::move(names)}});
  if (wish.size() > kWishBytesMax)
    return failure(Errc::TooLarge, "network_egress_rules: together longer than 128 KiB");
  TRY_IN("ask the egress process", send_text(socket_.get(), wish, fds));
  std::string said = TRY(answer(kStartPatience));
  if (!said.starts_with("-----BEGIN")) return failure(Errc::Internal, said);
  return said;
}

Result<void> EgressChild::serve(const EgressRules& rules,
                                const std::vector<std::string>& name_servers,
                                engine::GateSockets sockets) {
  json::array servers;
  for (const std::string& one : name_servers) servers.emplace_back(one);
  const std::string wish = policy::json_text(json::object{{"rules", to_json(rules)},
                                                          {"name_servers", std::move(servers)},
                                                          {"steered", bool(sockets.steering)}});
  if (wish.size() > kWishBytesMax)
    return failure(Errc::TooLarge, "network_egress_rules: together longer than 128 KiB");
  std::vector<int> fds{sockets.resolver.get()};
  if (sockets.steering) fds.push_back(sockets.steering.get());
  for (const UniqueFd& one : sockets.listeners) fds.push_back(one.get());
  TRY_IN("hand the sockets to the egress process", send_text(socket_.get(), wish, fds));
  const std::string said = TRY(answer(kStartPatience));
  if (said != "ready") return failure(Errc::Internal, said);
  return {};
}

Result<EgressReport> EgressChild::finish() {
  TRY(send_text(socket_.get(), "report", {}));
  const std::string text = TRY(answer(kReportPatience));
  boost::system::error_code wrong;
  const json::value value = json::parse(text, wrong);
  if (wrong || !value.is_object())
    return failure(Errc::Protocol, "the egress process answers something else");
  const json::object& said = value.get_object();
  EgressReport report;
  report.allowed = number(said, "allowed");
  report.denied = number(said, "denied");
  report.bytes_up = number(said, "bytes_up");
  report.bytes_down = number(said, "bytes_down");
  if (const json::value* lines = said.if_contains("refused"); lines != nullptr && lines->is_array())
    for (const json::value& line : lines->get_array())
      if (line.is_string()) report.refused.emplace_back(line.get_string());
  return report;
}

}  // namespace caisson::control
