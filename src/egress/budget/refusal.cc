#include "egress/budget/refusal.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "egress/budget/prices.h"
#include "policy/wording.h"

namespace caisson::egress {

namespace {

namespace json = boost::json;

constexpr std::string_view kType = "budget_exceeded";

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::string shown(BudgetKind kind, std::int64_t amount) {
  return kind == BudgetKind::Money ? dollars(amount) : fmt::format("{} tokens", amount);
}

std::string numbers(const BudgetRefusal& refusal) {
  std::string out = fmt::format("limit {}, used {}", shown(refusal.kind, refusal.limit),
                                shown(refusal.kind, refusal.used));
  if (refusal.reserved != 0)
    out += fmt::format(", reserved by calls under way {}", shown(refusal.kind, refusal.reserved));
  if (refusal.needed != 0) out += ", this call may need " + shown(refusal.kind, refusal.needed);
  return out;
}

}  // namespace

std::string to_string(const BudgetRefusal& refusal) {
  return fmt::format("the {} budget of {} {} is spent: {}",
                     refusal.kind == BudgetKind::Money ? "money" : "token",
                     refusal.level == BudgetLevel::Tenant ? "tenant" : "sandbox",
                     policy::in_quotes(refusal.name), numbers(refusal));
}

std::string guest_message(const BudgetRefusal& refusal) {
  const std::string_view kind = refusal.kind == BudgetKind::Money ? "money" : "token";
  if (refusal.level == BudgetLevel::Tenant)
    return fmt::format("the {} budget that this sandbox shares with others is spent", kind);
  return fmt::format("the {} budget of this sandbox is spent: {}", kind, numbers(refusal));
}

unsigned status_of(const BudgetRefusal& refusal) noexcept {
  return refusal.kind == BudgetKind::Money ? 402 : 429;
}

std::string error_body(Provider provider, std::string_view type, std::string_view message) {
  json::object error;
  error["type"] = view(type);
  error["message"] = view(message);
  json::object out;
  if (provider == Provider::Anthropic) {
    out["type"] = "error";
  } else {
    error["param"] = nullptr;
    error["code"] = view(type);
  }
  out["error"] = std::move(error);
  return json::serialize(out);
}

std::string error_body(Provider provider, const BudgetRefusal& refusal) {
  return error_body(provider, kType, guest_message(refusal));
}

std::string error_event(Provider provider, const BudgetRefusal& refusal) {
  const std::string_view name = provider == Provider::Anthropic ? "event: error\n" : "";
  return fmt::format("{}data: {}\n\n", name, error_body(provider, refusal));
}

}  // namespace caisson::egress
