#include "doors/sandboxer/import_json.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <cmath>

namespace caisson::sandboxer {
namespace {

namespace json = boost::json;

constexpr double kTimeMax = 1e11;  // seconds since 1970; what is later was no time

// One object of the document; its first fault is kept, and told by finish().
class Item {
 public:
  Item(const json::object& object, std::string place) : object_(object), place_(std::move(place)) {}

  std::string text(std::string_view name, bool required = true) {
    const json::value* value = find(name, required);
    if (value == nullptr) return {};
    if (!value->is_string()) return wrong(name, "want a text"), std::string();
    if (value->get_string().size() > kImportTextBytesMax) wrong(name, "is too long");
    return std::string(value->get_string());
  }
  std::optional<double> number(std::string_view name, double min, double max) {
    const json::value* value = find(name, false);
    if (value == nullptr) return std::nullopt;
    boost::system::error_code failed;
    const auto number = value->is_number() ? value->to_number<double>(failed) : NAN;
    if (failed || !(number >= min && number <= max)) {
      wrong(name, fmt::format("want a number from {} to {}", min, max));
      return std::nullopt;
    }
    return number;
  }
  bool truth(std::string_view name) {
    const json::value* value = find(name, false);
    if (value == nullptr) return false;
    if (!value->is_bool()) wrong(name, "want true or false");
    return value->is_bool() && value->get_bool();
  }
  // Of objects; empty when there is none.
  template <class Take>
  void each(std::string_view name, Take take) {
    const json::value* value = find(name, false);
    if (value == nullptr) return;
    if (!value->is_array()) return wrong(name, "want a list");
    const json::array& items = value->get_array();
    if (items.size() > kImportItemsMax)
      return wrong(name, fmt::format("has {} items: at most {}", items.size(), kImportItemsMax));
    for (std::size_t i = 0; i < items.size() && !error_; ++i) {
      const std::string place = fmt::format("{}{}[{}]", prefix(), name, i);
      if (!items[i].is_object()) {
        error_ = Error{Errc::InvalidArgument, place + ": want an object", 0, place};
        return;
      }
      Item item(items[i].get_object(), place);
      take(item);
      if (item.error_) error_ = item.error_;
    }
  }
  [[nodiscard]] Result<void> finish() const {
    if (error_) return std::unexpected(*error_);
    return {};
  }

 private:
  [[nodiscard]] std::string prefix() const { return place_.empty() ? "" : place_ + "."; }
  const json::value* find(std::string_view name, bool required) {
    const json::value* value = object_.if_contains(name);
    if (value != nullptr && !value->is_null()) return value;
    if (required) wrong(name, "is missing");
    return nullptr;
  }
  void wrong(std::string_view name, std::string_view what) {
    if (error_) return;
    const std::string place = prefix() + std::string(name);
    error_ = Error{Errc::InvalidArgument, fmt::format("{}: {}", place, what), 0, place};
  }

  const json::object& object_;
  std::string place_;
  std::optional<Error> error_;
};

ImportWish::Sandbox sandbox_of(Item& item) {
  ImportWish::Sandbox out;
  out.id = item.text("id");
  out.name = item.text("name");
  out.label = item.text("label", false);
  out.image = item.text("image", false);
  if (auto parent = item.text("parent_id", false); !parent.empty()) out.parent_id = parent;
  out.last_active_at = item.number("last_active_at", 0, kTimeMax).value_or(0);
  out.deleted_at = item.number("deleted_at", 0, kTimeMax);
  out.delete_reason = item.text("delete_reason", false);
  out.is_public = item.truth("is_public");
  return out;
}

ImportWish::Execution execution_of(Item& item) {
  ImportWish::Execution out;
  out.id = item.text("id");
  out.sandbox_id = item.text("sandbox_id");
  out.command = item.text("command", false);
  if (const auto code = item.number("exit_code", -2147483648.0, 2147483647.0))
    out.exit_code = static_cast<std::int64_t>(*code);
  out.executed_at = item.number("executed_at", 0, kTimeMax).value_or(0);
  item.each("logs", [&out](Item& log) {
    ImportWish::Log line;
    line.fd = static_cast<std::int64_t>(log.number("fd", 1, 2).value_or(1));
    line.content = log.text("content", false);
    line.created_at = log.number("created_at", 0, kTimeMax).value_or(0);
    out.logs.push_back(std::move(line));
  });
  return out;
}

}  // namespace

Result<ImportWish> import_wish(const json::object& body) {
  Item item(body, "");
  ImportWish wish;
  wish.tenant = item.text("tenant");
  item.each("sandboxes", [&](Item& one) { wish.sandboxes.push_back(sandbox_of(one)); });
  item.each("executions", [&](Item& one) { wish.executions.push_back(execution_of(one)); });
  TRY(item.finish());
  return wish;
}

json::object to_json(const ImportCount& count) {
  return json::object{
      {"sandboxes", count.sandboxes}, {"executions", count.executions}, {"skipped", count.skipped}};
}

}  // namespace caisson::sandboxer
