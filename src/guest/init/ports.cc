#include "guest/init/ports.h"

namespace caisson::init {
namespace {

constexpr uint32_t kListens = 0x0A;
constexpr uint32_t kAddressWordsMax = 4;

struct Address {
  uint32_t words[kAddressWordsMax];
  uint32_t count;
};

class Scan {
 public:
  explicit Scan(Line line) : at_(line.text), end_(line.text + line.size) {}

  void skip_blanks() {
    while (at_ < end_ && *at_ == ' ') ++at_;
  }
  bool skip(char wanted) {
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  bool skip_digits() {
    const char* begin = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ > begin;
  }
  // Exactly so many hexadecimal digits.
  bool hex(int digits, uint32_t& out) {
    out = 0;
    for (int i = 0; i < digits; ++i) {
      if (at_ == end_) return false;
      const int value = digit(*at_++);
      if (value < 0) return false;
      out = out * 16 + static_cast<uint32_t>(value);
    }
    return true;
  }
  // Words up to the colon.
  bool address(Address& out) {
    for (out.count = 0; out.count < kAddressWordsMax && at_ < end_ && *at_ != ':'; ++out.count) {
      if (!hex(8, out.words[out.count])) return false;
    }
    return skip(':') && (out.count == 1 || out.count == kAddressWordsMax);
  }

 private:
  static int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  }

  const char* at_;
  const char* end_;
};

// A word as the network has it.
uint32_t in_order(uint32_t word) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  return __builtin_bswap32(word);
#else
  return word;
#endif
}

bool is_local_v4(uint32_t word) { return word == 0 || in_order(word) >> 24U == 127; }

bool is_reachable(const Address& address) {
  if (address.count == 1) return is_local_v4(address.words[0]);
  const uint32_t* words = address.words;
  if (words[0] != 0 || words[1] != 0) return false;
  if (in_order(words[2]) == 0xFFFF) return is_local_v4(words[3]);  // ::ffff:127.0.0.1
  return words[2] == 0 && (words[3] == 0 || in_order(words[3]) == 1);
}

}  // namespace

void PortSet::take(Line line) {
  Scan scan(line);
  Address address{};
  Address peer{};
  uint32_t port = 0;
  uint32_t ignored = 0;
  uint32_t state = 0;
  scan.skip_blanks();
  if (!scan.skip_digits() || !scan.skip(':') || !scan.skip(' ')) return;
  if (!scan.address(address) || !scan.hex(4, port) || !scan.skip(' ')) return;
  if (!scan.address(peer) || !scan.hex(4, ignored) || !scan.skip(' ')) return;
  if (!scan.hex(2, state) || state != kListens || port == 0 || !is_reachable(address)) return;
  seen_[port / 8] = static_cast<uint8_t>(seen_[port / 8] | (1U << (port % 8)));
}

uint32_t PortSet::write(uint8_t* out) const {
  uint32_t count = 0;
  for (uint32_t port = 1; port < 65536 && count < wire::kPortsMax; ++port) {
    if ((seen_[port / 8] & (1U << (port % 8))) == 0) continue;
    out[2 * count] = static_cast<uint8_t>(port);
    out[2 * count + 1] = static_cast<uint8_t>(port >> 8U);
    ++count;
  }
  return count;
}

}  // namespace caisson::init
