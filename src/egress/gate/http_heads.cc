#include "egress/gate/http_heads.h"

#include <fmt/format.h>

#include <algorithm>

#include "http/client_link.h"
#include "http/hop_fields.h"

namespace caisson::egress {

namespace {

using http::same_name;

void append(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

std::string host_field(const ProxyTarget& target, std::uint16_t usual_port) {
  if (target.port == usual_port) return target.host.text();
  return fmt::format("{}:{}", target.host.text(), target.port);
}

std::size_t count_of(const std::vector<http::Field>& fields, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(
      fields, [&](const http::Field& field) { return same_name(field.name, name); }));
}

std::unexpected<Error> bad(std::string_view what) {
  return failure(Errc::Protocol, fmt::format("the host's answer is not HTTP: {}", what));
}

void append_framing(std::string& out, http::BodyKind kind, std::uint64_t length) {
  if (kind == http::BodyKind::Length) append(out, "Content-Length", fmt::to_string(length));
  if (kind == http::BodyKind::Chunked) append(out, "Transfer-Encoding", "chunked");
}

std::string status_line(const AnswerHead& head) {
  return fmt::format("HTTP/1.1 {} {}\r\n", head.answer.status, head.reason);
}

}  // namespace

std::string forward_head(const http::Request& request, const http::Framing& framing,
                         const ProxyTarget& target, std::uint16_t usual_port,
                         const Injection& injection) {
  std::string out;
  // Enough that a secret is not left behind where the text grew out of its place.
  std::size_t size = 512;
  for (const http::Field& field : injection.fields())
    size += field.name.size() + field.value.size();
  for (const http::Field& field : request.fields)
    size += field.name.size() + field.value.size() + 4;
  out.reserve(size + target.path.size());
  out.append(request.method_text).append(" ").append(target.path).append(" HTTP/1.1\r\n");
  append(out, "Host", host_field(target, usual_port));
  const http::HopFields hop(request.fields);
  for (const http::Field& field : request.fields) {
    if (hop.drops(field.name) || same_name(field.name, "host") || same_name(field.name, "expect")) {
      continue;
    }
    if (injection.replaces(field.name)) continue;
    // What comes back is looked through for the secret, and must be legible.
    if (!injection.empty() && same_name(field.name, "accept-encoding")) continue;
    append(out, field.name, field.value);
  }
  for (const http::Field& field : injection.fields()) append(out, field.name, field.value);
  if (!injection.empty()) append(out, "Accept-Encoding", "identity");
  if (request.wants_websocket && !request.has_body) {
    out.append("Connection: Upgrade\r\nUpgrade: websocket\r\n");
  }
  if (framing.expect_continue) out.append("Expect: 100-continue\r\n");
  // A length of zero is passed on as well: a POST without a body says so.
  if (request.content_length) {
    append_framing(out, http::BodyKind::Length, *request.content_length);
  } else if (framing.chunked) {
    append_framing(out, http::BodyKind::Chunked, 0);
  }
  out.append("\r\n");
  return out;
}

Result<AnswerHead> read_answer_head(std::string_view head, std::string_view method) {
  AnswerHead out;
  out.answer = TRY(http::parse_answer_head(head));
  const std::string_view line = head.substr(0, head.find('\r'));
  if (line.size() > 13 && http::is_field_value(line)) out.reason = line.substr(13);
  if (out.reason.empty()) out.reason = http::reason_of(out.answer.status);
  const auto& fields = out.answer.fields;
  const unsigned status = out.answer.status;
  if (status < 100 || status > 599) return bad("its status");
  const std::size_t codings = count_of(fields, "transfer-encoding");
  const std::size_t lengths = count_of(fields, "content-length");
  if (codings + lengths > 1) return bad("two framings of its body");
  if (codings == 1 && !same_name(out.answer.field("Transfer-Encoding"), "chunked")) {
    return bad("Transfer-Encoding");
  }
  if (lengths == 1 && !out.answer.length) return bad("Content-Length");
  const bool http11 = line[7] != '0';
  bool says_close = false;
  bool says_keep = false;
  for (const http::Field& field : fields) {
    if (!same_name(field.name, "connection")) continue;
    says_close = says_close || http::has_token(field.value, "close");
    says_keep = says_keep || http::has_token(field.value, "keep-alive");
  }
  out.framing.keep = !says_close && (http11 || says_keep);
  if (status < 200 || status == 204 || status == 304 || method == "HEAD") {
    out.framing.kind = http::BodyKind::None;
  } else if (codings == 1) {
    out.framing.kind = http::BodyKind::Chunked;
    out.framing.keep = out.framing.keep && http11;
  } else if (out.answer.length) {
    out.framing.kind = http::BodyKind::Length;
    out.framing.length = *out.answer.length;
  } else {
    out.framing.keep = false;
  }
  return out;
}

std::string answer_head(const AnswerHead& head, http::BodyKind kind, bool keep) {
  std::string out = status_line(head);
  const http::HopFields hop(head.answer.fields);
  for (const http::Field& field : head.answer.fields) {
    // Without a body the length still says something: that of the body GET would have.
    const bool is_news = kind == http::BodyKind::None && head.answer.status != 204 &&
                         same_name(field.name, "content-length");
    if (!hop.drops(field.name) || is_news) append(out, field.name, field.value);
  }
  append_framing(out, kind, head.framing.length);
  append(out, "Connection", keep ? "keep-alive" : "close");
  out.append("\r\n");
  return out;
}

std::string interim_head(const AnswerHead& head) {
  std::string out = status_line(head);
  const http::HopFields hop(head.answer.fields);
  for (const http::Field& field : head.answer.fields) {
    if (!hop.drops(field.name)) append(out, field.name, field.value);
  }
  if (head.answer.status == 101) out.append("Connection: Upgrade\r\nUpgrade: websocket\r\n");
  out.append("\r\n");
  return out;
}

std::string own_answer(const OwnAnswer& answer, bool head_only, bool keep) {
  std::string out = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n"
      "Connection: {}\r\n",
      answer.status, http::reason_of(answer.status), answer.text.size(),
      keep ? "keep-alive" : "close");
  if (!answer.field.empty()) out.append(answer.field).append("\r\n");
  out.append("\r\n");
  if (!head_only) out.append(answer.text);
  return out;
}

OwnAnswer denial(const Verdict& verdict, std::string_view host, nanoseconds wait) {
  OwnAnswer out;
  out.text = fmt::format("{}\n", verdict.text);
  switch (verdict.reason) {
    case Reason::NotIdentified:
      out.status = 407;
      out.field = "Proxy-Authenticate: Basic realm=\"egress\"";
      break;
    case Reason::BadTarget:
    case Reason::BadPort:
      out.status = 400;
      break;
    case Reason::NoRules:
    case Reason::NoRuleForHost:
      out.text = fmt::format("Host not allowed: {}\n{}\n", host, verdict.text);
      break;
    case Reason::NoSuchName:
    case Reason::ResolverFailed:
    case Reason::NoAddress:
      out.status = 502;
      break;
    case Reason::ForbiddenAddress:
      // Which address a name has behind our wall is for the audit, not for the guest.
      out.text = fmt::format("{}: its address is not public\n", host);
      break;
    case Reason::RateLimited: {
      out.status = 429;
      const auto whole = duration_cast<seconds>(wait) + seconds(1);
      out.field = fmt::format("Retry-After: {}", std::min(whole, seconds(3600)).count());
      break;
    }
    case Reason::NotRecorded:
      out.status = 503;
      break;
    default:
      break;
  }
  return out;
}

}  // namespace caisson::egress
