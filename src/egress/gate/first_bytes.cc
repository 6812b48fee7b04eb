#include "egress/gate/first_bytes.h"

#include <algorithm>
#include <array>

#include "http/field.h"

namespace caisson::egress {

namespace {

constexpr std::array<std::string_view, 12> kMethods = {"GET",   "HEAD",     "POST",    "PUT",
                                                       "PATCH", "DELETE",   "OPTIONS", "CONNECT",
                                                       "TRACE", "PROPFIND", "REPORT",  "PRI"};

// Whatever some server splits a request line at: one splits with the spaces of Unicode.
constexpr std::string_view kSpaces = " \t\v\f\x1c\x1d\x1e\x1f\x85\xa0";
constexpr std::string_view kBlanks = " \t\v\f\x1c\x1d\x1e\x1f\x85\xa0\r\n";
// So many blanks before a first word are held; no client sends them.
constexpr std::size_t kBlanksMax = 1024;

bool names_http(std::string_view line) {
  constexpr std::string_view kMark = "http/";
  const auto same = [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  };
  return std::search(line.begin(), line.end(), kMark.begin(), kMark.end(), same) != line.end();
}

Spoken look_for_http(std::string_view bytes, bool ended) {
  const std::size_t blanks = std::min(bytes.find_first_not_of(kBlanks), bytes.size());
  if (blanks > kBlanksMax) return Spoken::Http;  // to be refused
  bytes.remove_prefix(blanks);
  const std::size_t end = bytes.find('\n');
  const std::string_view whole = bytes.substr(0, end);
  const std::string_view line = whole.substr(0, kFirstLineBytesMax);
  // A method that everybody knows, and something behind it: with or without a version.
  const std::size_t token_end = line.find_first_of(kSpaces);
  std::string_view token = line.substr(0, token_end);
  if (token_end != std::string_view::npos) {
    const auto same = [&](std::string_view method) { return http::same_name(method, token); };
    if (std::ranges::any_of(kMethods, same)) return Spoken::Http;
  }
  if (names_http(line)) return Spoken::Http;
  // A request begins with a method, only token characters make one, and no server takes a NUL.
  if (token.ends_with('\r')) token.remove_suffix(1);
  if (!token.empty() && !http::is_field_name(token)) return Spoken::Other;
  if (line.find('\0') != std::string_view::npos) return Spoken::Other;
  // Some server has room for a longer one, and what names HTTP may stand behind the part that we
  // looked at. The parser that reads it next has no room, and refuses it.
  if (whole.size() >= kFirstLineBytesMax) return Spoken::Http;
  return end != std::string_view::npos || ended ? Spoken::Other : Spoken::Undecided;
}

// The hello of SSL 2, which some libraries still take for the first message of TLS: a length with
// its highest bit set, a kind, a version. It cannot name a host.
constexpr std::size_t kOldHelloBytes = 5;
bool may_be_old_hello(std::string_view bytes) {
  if ((static_cast<unsigned char>(bytes[0]) & 0x80U) == 0) return false;
  if (bytes.size() > 2 && bytes[2] != 1) return false;
  return bytes.size() <= 3 || bytes[3] == 3 || bytes[3] == 0;
}

}  // namespace

Spoken FirstBytesReader::look(std::string_view bytes) {
  if (bytes.empty()) return Spoken::Undecided;
  const HelloState state = tls_.feed(as_bytes(bytes.substr(fed_)));
  fed_ = bytes.size();
  switch (state) {
    case HelloState::NeedMore:
      return Spoken::Undecided;
    case HelloState::Done:
      return Spoken::Tls;
    case HelloState::Refused:
      fault_ = tls_.fault();
      return Spoken::TlsRefused;
    case HelloState::NotTls:
      break;
  }
  if (may_be_old_hello(bytes)) {
    fault_ = HelloFault::NotClientHello;
    return bytes.size() < kOldHelloBytes ? Spoken::Undecided : Spoken::TlsRefused;
  }
  return look_for_http(bytes, false);
}

Spoken FirstBytesReader::finish(std::string_view bytes) {
  const Spoken spoken = look(bytes);
  if (spoken != Spoken::Undecided || bytes.empty()) return spoken;
  if (tls_.state() == HelloState::NeedMore) {
    fault_ = HelloFault::Malformed;
    return Spoken::TlsRefused;
  }
  return look_for_http(bytes, true);
}

}  // namespace caisson::egress
