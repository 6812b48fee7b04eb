// Any text as a host, a proxy's target or a Host field is refused, or gives a canonical host that
// reads back as itself, and what was accepted in one place is the same host in every other.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "egress/wire/address_class.h"
#include "egress/wire/proxy_target.h"
#include "egress/wire/synthetic.h"

namespace {

using namespace caisson::egress;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_host(const HostName& host) {
  const auto again = HostName::parse(host.text());
  require(again && *again == host);
  require(!IpAddress::parse(host.text()));
  for (const char c : host.text()) {
    require((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.');
  }
}

void check_target(const TargetResult& target) {
  if (!target) {
    require(!to_string(target.error()).empty());
    return;
  }
  check_host(target->host);
  require(target->port != 0);
  require(target->path.find_first_of(std::string_view(" #\r\n\0", 5)) == std::string::npos);
  const std::array<std::string_view, 1> same = {target->host.text()};
  require(check_host_field(*target, same, HostFieldRule::Required, target->port).has_value());
  const std::array<std::string_view, 1> other = {"other.invalid"};
  require(target->host.text() == other[0] ||
          !check_host_field(*target, other, HostFieldRule::Optional, target->port));
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto host = HostName::parse(text);
  if (host) {
    check_host(*host);
    AddressBook book;
    const auto pair = book.assign(*host);
    require(pair && *book.find(pair->v4) == *host && *book.find(pair->v6) == *host);
    require(!classify(pair->v4).is_public() && !classify(pair->v6).is_public());
  }
  check_target(parse_connect_target(text));
  check_target(parse_connect_target(text, PortRule::Default443));
  check_target(parse_absolute_target(text));
  const HostName fixed = *HostName::parse("a.example");
  check_target(parse_origin_target(text, fixed, 80));
  (void)is_plain_path(text);
  if (const auto address = IpAddress::parse(text)) {
    require(IpAddress::parse(to_string(*address)) == address);
    require(!host);
  }
  if (const auto address = IpAddress::from_bytes(as_bytes(text))) {
    const Judged judged = classify(*address);
    require(!judged.is_public() || classify(judged.address).is_public());
    require(!judged.is_public() || classify(judged.inner).is_public());
    require(!describe(judged, *address).empty());
  }
  return 0;
}
