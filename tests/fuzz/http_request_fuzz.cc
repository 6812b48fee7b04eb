// Any bytes from a client are refused with a status of the right kind, or become a request whose
// parts hold what the rest of the server relies on. The first byte says in which pieces they come;
// what follows an accepted head is then read as its chunked body, in the same pieces.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "http/chunk_decoder.h"
#include "http/request_head.h"

namespace {

using namespace caisson::http;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_refusal(const Refusal& refusal) {
  require(refusal.status >= 400 && refusal.status < 600);
  require(!refusal.error.message.empty());
}

void check_request(const Request& request, const Framing& framing) {
  require(request.count("Host") <= 1);
  require(!framing.http11 || request.count("Host") == 1);
  require(request.count("Content-Length") + request.count("Transfer-Encoding") <= 1);
  require(!framing.chunked || (request.has_body && !request.content_length));
  require(request.path == "*" || request.path.starts_with('/'));
  require(request.path.find_first_of("?# \t\r\n") == std::string::npos);
  for (const char c : request.target) require(c > ' ' && c < '\x7f');
  for (const Field& field : request.fields) {
    require(is_field_name(field.name));
    require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
  const auto query = parse_query(request.query);
  require(!query || query->size() <= 64);
  const auto path = percent_decode(request.path);
  require(!path || path->find('\0') == std::string::npos);
}

void check_chunks(std::string_view bytes, std::size_t step) {
  ChunkDecoder decoder;
  std::array<std::byte, 64> out{};
  while (!bytes.empty() && !decoder.done()) {
    const auto got = decoder.decode(bytes.substr(0, step), out);
    if (!got) return;
    require(got->consumed <= bytes.size() && got->produced <= out.size());
    require(got->consumed + got->produced > 0 || got->done);
    bytes.remove_prefix(got->consumed);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer looks for this very name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t step = std::size_t{1} + data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Limits limits;
  limits.header_bytes_max = 2048;
  limits.target_bytes_max = 512;
  limits.headers_max = 16;
  HeadScanner scanner;
  for (std::size_t shown = std::min(step, text.size());;
       shown = std::min(shown + step, text.size())) {
    const auto scanned = scanner.scan(text.substr(0, shown), limits);
    if (!scanned) {
      check_refusal(scanned.error());
      return 0;
    }
    if (scanned->has_value()) {
      const std::size_t start = scanner.skipped();
      require(**scanned <= shown && **scanned - start <= limits.header_bytes_max);
      Request request;
      Framing framing;
      const auto read = read_head(text.substr(start, **scanned - start), limits, request, framing);
      if (!read) {
        check_refusal(read.error());
      } else {
        check_request(request, framing);
      }
      check_chunks(text.substr(**scanned), step);
      return 0;
    }
    require(shown < limits.header_bytes_max + 2);
    if (shown == text.size()) return 0;
  }
}
