// egress/gate/http_heads.h — heads as they are sent on. Each is written anew from what was parsed
// and judged: the host, the framing and what concerns a connection are ours, the rest is passed on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "egress/gate/injection.h"
#include "egress/wire/decision.h"
#include "egress/wire/proxy_target.h"
#include "http/client.h"
#include "http/http.h"
#include "http/request_head.h"
#include "http/response_head.h"

namespace caisson::egress {

// To the host: `usual_port` is left out of Host, and what `injection` says is said instead of what
// the client does.
[[nodiscard]] std::string forward_head(const http::Request& request, const http::Framing& framing,
                                       const ProxyTarget& target,
                                       std::uint16_t usual_port = kHttpPort,
                                       const Injection& injection = {});

// How the body of an answer ends, and whether the host keeps the connection.
struct AnswerFraming {
  http::BodyKind kind = http::BodyKind::ToClose;
  std::uint64_t length = 0;
  bool keep = false;
};
struct AnswerHead {
  http::ClientAnswer answer;
  std::string reason;
  AnswerFraming framing;
};
// One whole head, and the method of its request. Refused: two lengths, a length and chunks,
// codings other than chunked.
[[nodiscard]] Result<AnswerHead> read_answer_head(std::string_view head, std::string_view method);

// To the client: `kind` is what its body will have.
[[nodiscard]] std::string answer_head(const AnswerHead& head, http::BodyKind kind, bool keep);
// An interim answer, or a switch of protocols.
[[nodiscard]] std::string interim_head(const AnswerHead& head);

// An answer of our own: a short text.
struct OwnAnswer {
  unsigned status = 403;
  std::string text;
  std::string field{};  // one more, whole: "Retry-After: 3"
};
[[nodiscard]] std::string own_answer(const OwnAnswer& answer, bool head_only, bool keep);

// What a client is told about a refusal. `wait` counts for a rate.
[[nodiscard]] OwnAnswer denial(const Verdict& verdict, std::string_view host, nanoseconds wait);

}  // namespace caisson::egress
