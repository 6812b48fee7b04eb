#include "store/audit_chain.h"

namespace caisson::store {
namespace {

// A later form of the row gets another word here, so that the two can never be confused.
constexpr std::string_view kDomain = "caisson.audit.1";

void append_number(std::string& out, std::uint64_t value) {
  for (unsigned shift = 64; shift > 0; shift -= 8)
    out.push_back(static_cast<char>((value >> (shift - 8U)) & 0xFFU));
}

void append_text(std::string& out, std::string_view text) {
  append_number(out, text.size());
  out += text;
}

}  // namespace

void append_canonical(std::string& out, std::int64_t sequence, WallTime time,
                      const AuditEvent& event) {
  append_text(out, kDomain);
  append_number(out, static_cast<std::uint64_t>(sequence));
  append_number(out, static_cast<std::uint64_t>(time));
  append_text(out, event.tenant);
  append_text(out, event.actor);
  append_text(out, event.action);
  append_text(out, event.sandbox);
  append_text(out, event.object);
  append_number(out, static_cast<std::uint64_t>(event.outcome));
  append_text(out, event.detail);
  append_text(out, event.request_id);
}

Digest ChainHasher::hash(const Digest& previous, std::int64_t sequence, WallTime time,
                         const AuditEvent& event) {
  buffer_.assign(as_bytes(previous));
  append_canonical(buffer_, sequence, time, event);
  return hasher_.sha256(buffer_);
}

}  // namespace caisson::store
