#include "egress/gate/resolv_conf.h"

#include <algorithm>

namespace caisson::egress {

namespace {

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  line.remove_prefix(begin);
  const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

}  // namespace

std::vector<NameServer> read_resolv_conf(std::string_view text) {
  std::vector<NameServer> servers;
  while (!text.empty() && servers.size() < kNameServersMax) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (next_word(line) != "nameserver") continue;
    const auto address = IpAddress::parse(next_word(line));
    if (address) servers.push_back({*address, kDnsPort});
  }
  return servers;
}

}  // namespace caisson::egress
