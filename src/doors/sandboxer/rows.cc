#include "doors/sandboxer/rows.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/id.h"
#include "store/digest.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr int kVersion = 1;

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* at = object.if_contains(name);
  return at != nullptr && at->is_string() ? std::string(at->get_string()) : std::string();
}

bool flag_of(const json::object& object, std::string_view name) {
  const json::value* at = object.if_contains(name);
  return at != nullptr && at->is_bool() && at->get_bool();
}

std::optional<std::int64_t> number_of(const json::object& object, std::string_view name) {
  const json::value* at = object.if_contains(name);
  if (at == nullptr || !at->is_int64()) return std::nullopt;
  return at->get_int64();
}

}  // namespace

bool is_id(std::string_view text) noexcept {
  return text.size() == kIdLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A client derives the host name from an id, and the host name is needed before there is a sandbox;
// so the id is drawn here and does not follow from the sandbox's own.
Result<std::string> fresh_id() {
  const auto one = TRY(SandboxId::random());
  const auto two = TRY(SandboxId::random());
  return store::to_hex(store::sha256(one.str() + two.str()));
}

control::Listing listing_of(const Row& row) {
  json::object out{{"version", kVersion},
                   {"name", row.name},
                   {"label", row.label},
                   {"image", row.image},
                   {"hostname", row.hostname},
                   {"parent", row.parent},
                   {"interactive", row.interactive},
                   {"public", row.is_public},
                   {"port", row.port},
                   {"last_active", row.last_active},
                   {"process", row.process}};
  json::array command;
  for (const std::string& word : row.command) command.emplace_back(word);
  out["command"] = std::move(command);
  if (row.deleted_at) {
    out["deleted_at"] = *row.deleted_at;
    out["delete_reason"] = row.delete_reason;
  }
  if (row.exit_code) out["exit_code"] = *row.exit_code;
  return {row.tenant, row.id, row.created, json::serialize(out)};
}

Result<Row> row_of(const control::Listing& listing) {
  json::error_code ec;
  const json::value read = json::parse(listing.spec, ec);
  if (ec || !read.is_object() || !is_id(listing.id))
    return failure(Errc::Protocol, "listing '" + listing.id.substr(0, kIdLength) + "' is damaged");
  const json::object& spec = read.get_object();
  Row row;
  row.id = listing.id;
  row.tenant = listing.tenant;
  row.created = listing.created;
  row.name = text_of(spec, "name");
  row.label = text_of(spec, "label");
  row.image = text_of(spec, "image");
  row.hostname = text_of(spec, "hostname");
  row.parent = text_of(spec, "parent");
  row.interactive = flag_of(spec, "interactive");
  row.is_public = flag_of(spec, "public");
  row.port = static_cast<std::uint16_t>(number_of(spec, "port").value_or(0));
  row.last_active = number_of(spec, "last_active").value_or(listing.created);
  row.process = static_cast<std::uint32_t>(number_of(spec, "process").value_or(0));
  row.deleted_at = number_of(spec, "deleted_at");
  row.delete_reason = text_of(spec, "delete_reason");
  if (const auto code = number_of(spec, "exit_code")) row.exit_code = static_cast<int>(*code);
  if (const json::value* command = spec.if_contains("command");
      command != nullptr && command->is_array()) {
    for (const json::value& word : command->get_array()) {
      if (word.is_string()) row.command.emplace_back(word.get_string());
    }
  }
  if (row.name.empty()) return failure(Errc::Protocol, "listing '" + listing.id + "' has no name");
  return row;
}

void Rows::add(RowPtr row) {
  by_id_[row->id] = row;
  by_name_[row->name] = row;
  by_tenant_[row->tenant][key_of(*row)] = row;
  if (!row->parent.empty()) by_parent_[row->parent][key_of(*row)] = row;
}

void Rows::remove(const RowPtr& row) {
  by_id_.erase(row->id);
  by_name_.erase(row->name);
  const auto drop = [&row](auto& index, const std::string& key) {
    const auto at = index.find(key);
    if (at == index.end()) return;
    at->second.erase(key_of(*row));
    if (at->second.empty()) index.erase(at);
  };
  drop(by_tenant_, row->tenant);
  drop(by_parent_, row->parent);
}

void Rows::set_parent(const RowPtr& row, std::string parent) {
  remove(row);
  row->parent = std::move(parent);
  add(row);
}

RowPtr Rows::by_id(std::string_view id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? nullptr : at->second;
}

RowPtr Rows::by_name(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : at->second;
}

std::vector<RowPtr> Rows::of_tenant(std::string_view tenant) const {
  std::vector<RowPtr> out;
  const auto at = by_tenant_.find(tenant);
  if (at == by_tenant_.end()) return out;
  out.reserve(at->second.size());
  for (const auto& [key, row] : at->second) out.push_back(row);
  return out;
}

std::vector<RowPtr> Rows::children(std::string_view id) const {
  std::vector<RowPtr> out;
  const RowPtr parent = by_id(id);
  const auto at = by_parent_.find(id);
  if (!parent || at == by_parent_.end()) return out;
  for (const auto& [key, row] : at->second) {
    if (row->tenant == parent->tenant) out.push_back(row);
  }
  return out;
}

std::vector<RowPtr> Rows::subtree(const RowPtr& top, bool living_only) const {
  std::vector<RowPtr> out;
  std::vector<RowPtr> front{top};
  while (!front.empty()) {
    const RowPtr row = std::move(front.back());
    front.pop_back();
    for (RowPtr& child : children(row->id)) {
      if (!living_only || child->living()) front.push_back(std::move(child));
    }
    out.push_back(row);
  }
  return out;
}

std::vector<RowPtr> Rows::all() const {
  std::vector<RowPtr> out;
  out.reserve(by_id_.size());
  for (const auto& [id, row] : by_id_) out.push_back(row);
  return out;
}

std::size_t Rows::count(std::string_view tenant) const {
  const auto at = by_tenant_.find(tenant);
  return at == by_tenant_.end() ? 0 : at->second.size();
}

RowPtr Rows::forgettable(std::string_view tenant) const {
  const auto at = by_tenant_.find(tenant);
  if (at == by_tenant_.end()) return nullptr;
  // What has something living below it is a place in somebody's tree.
  std::set<std::string_view> needed;
  for (const auto& [key, row] : at->second) {
    if (!row->living()) continue;
    for (RowPtr up = row; up && needed.insert(up->id).second; up = by_id(up->parent)) {
    }
  }
  for (const auto& [key, row] : at->second) {
    if (!needed.contains(row->id)) return row;
  }
  return nullptr;
}

}  // namespace caisson::sandboxer
