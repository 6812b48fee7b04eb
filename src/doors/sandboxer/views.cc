#include "doors/sandboxer/views.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

void add_common(json::object& out, const Call& call, const Row& row) {
  const bool living = row.living();
  out["id"] = row.id;
  out["name"] = row.name;
  out["label"] = row.label;
  out["parent_id"] = or_null(row.parent);
  out["status"] = status_of(call.services(), row);
  // It has no address that anybody else could reach: the proxy is the way in.
  out["ip_address"] = living ? json::value("") : json::value(nullptr);
  out["hostname"] = living ? json::value(row.hostname) : json::value(nullptr);
  out["deleted_at"] = living ? json::value(nullptr) : json::value(seconds_of(*row.deleted_at));
  out["delete_reason"] = living ? json::value(nullptr) : json::value(row.delete_reason);
  out["url"] = living ? json::value(url_of(call, row)) : json::value(nullptr);
}

}  // namespace

std::string status_of(const Services& services, const Row& row) {
  if (!row.living()) return "terminated";
  const auto view = services.fleet.get(own_caller(row.tenant), row.name);
  if (!view) return "running";  // its end is on the way, or the launcher is away for a moment
  switch (view->state) {
    case control::State::Creating:
      return "created";
    case control::State::Paused:
    case control::State::Hibernated:
      return "paused";
    case control::State::Stopped:
      return "stopped";
    case control::State::Running:
    case control::State::Ended:
      break;
  }
  return "running";
}

std::string url_of(const Call& call, const Row& row) {
  if (call.options().address) {
    if (auto address = call.options().address(row.name); address && !address->empty())
      return *std::move(address);
  }
  const http::Request& request = call.request();
  return fmt::format("{}://{}/sandboxes/{}/proxy/", doors::is_secure(request) ? "https" : "http",
                     request.field("Host"), row.name);
}

json::object list_view(const Call& call, const Row& row) {
  json::object out;
  add_common(out, call, row);
  json::array children;
  for (const RowPtr& child : call.services().rows.children(row.id))
    children.push_back(json::object{{"id", child->id}});
  out["child_ids"] = std::move(children);
  return out;
}

json::object detail_view(const Call& call, const Row& row) {
  json::object out;
  add_common(out, call, row);
  json::array children;
  for (const RowPtr& child : call.services().rows.children(row.id))
    children.emplace_back(child->id);
  out["child_ids"] = std::move(children);
  out["is_public"] = call.services().is_public(row);
  out["interactive"] = row.interactive;
  out["image"] = row.image;
  return out;
}

json::object new_view(const Call& call, const Row& row) {
  return {{"id", row.id},
          {"name", row.name},
          {"label", row.label},
          {"hostname", row.hostname},
          {"parent_id", or_null(row.parent)},
          {"image", row.image},
          {"interactive", row.interactive},
          {"url", url_of(call, row)}};
}

}  // namespace caisson::sandboxer
