#include "image/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>

#include "image/json.h"
#include "policy/host_name.h"
#include "policy/lexical_path.h"

namespace caisson::image {

namespace json = boost::json;

namespace {

constexpr std::size_t kWordBytesMax = 64;

bool has_control(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Result<void> check_env(const std::vector<std::string>& env) {
  std::set<std::string_view> names;
  for (const std::string& entry : env) {
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == entry.npos) {
      return bad_document("the image's config: Env",
                          fmt::format("has '{}', which is not NAME=value", entry.substr(0, 64)));
    }
    const std::string_view name = std::string_view(entry).substr(0, equals);
    if (has_control(name)) {
      return bad_document("the image's config: Env", "has a name with control characters");
    }
    if (!names.insert(name).second) {
      return bad_document("the image's config: Env", fmt::format("has '{}' twice", name));
    }
  }
  return {};
}

// "80", "80/tcp", "8000-8010/udp".
Result<ExposedPort> parse_exposed(std::string_view text) {
  const auto bad = [&] {
    return bad_document(
        "the image's config: ExposedPorts",
        fmt::format("has '{}', which is not a port", text.substr(0, kWordBytesMax)));
  };
  ExposedPort out;
  std::string_view numbers = text;
  if (const std::size_t slash = text.find('/'); slash != text.npos) {
    numbers = text.substr(0, slash);
    out.protocol = text.substr(slash + 1);
    if (out.protocol != "tcp" && out.protocol != "udp" && out.protocol != "sctp") return bad();
  }
  const std::size_t dash = numbers.find('-');
  const auto first = policy::parse_port(numbers.substr(0, dash));
  if (!first) return bad();
  out.first = out.last = *first;
  if (dash != numbers.npos) {
    const auto last = policy::parse_port(numbers.substr(dash + 1));
    if (!last || *last < out.first) return bad();
    out.last = *last;
  }
  return out;
}

Result<std::string> plain_path(std::string_view place, std::string_view text) {
  if (text.empty()) return std::string();
  if (has_control(text)) return bad_document(place, "has control characters");
  auto path = policy::absolute_path(text, "/");
  if (!path) return bad_document(place, "is not a path: " + path.error().message);
  return path;
}

Result<void> read_labels(const JsonReader& reader, ImageConfig& out) {
  const json::object* labels = TRY(reader.object("Labels"));
  if (labels == nullptr) return {};
  if (labels->size() > kLabelsMax) {
    return failure(Errc::TooLarge,
                   fmt::format("the image's config has more than {} labels", kLabelsMax));
  }
  std::size_t bytes = 0;
  for (const auto& entry : *labels) {
    const std::string_view name(entry.key().data(), entry.key().size());
    if (!entry.value().is_string()) {
      return bad_document(reader.place("Labels"), "has a value that is not a text");
    }
    const auto& value = entry.value().get_string();
    bytes += name.size() + value.size();
    if (bytes > kLabelBytesMax) {
      return failure(Errc::TooLarge, fmt::format("the labels of the image's config have more than "
                                                 "{} bytes",
                                                 kLabelBytesMax));
    }
    out.labels.emplace(name, std::string_view(value.data(), value.size()));
  }
  return {};
}

Result<void> read_sets(const JsonReader& reader, ImageConfig& out) {
  if (const json::object* ports = TRY(reader.object("ExposedPorts")); ports != nullptr) {
    if (ports->size() > kPortsMax) {
      return failure(Errc::TooLarge,
                     fmt::format("the image's config exposes more than {} ports", kPortsMax));
    }
    for (const auto& entry : *ports) {
      const std::string_view key(entry.key().data(), entry.key().size());
      out.ports.push_back(TRY(parse_exposed(key)));
    }
  }
  if (const json::object* volumes = TRY(reader.object("Volumes")); volumes != nullptr) {
    if (volumes->size() > kVolumesMax) {
      return failure(Errc::TooLarge,
                     fmt::format("the image's config has more than {} volumes", kVolumesMax));
    }
    for (const auto& entry : *volumes) {
      const std::string_view key(entry.key().data(), entry.key().size());
      std::string path = TRY(plain_path(reader.place("Volumes"), key));
      if (path.empty()) return bad_document(reader.place("Volumes"), "has an empty path");
      out.volumes.push_back(std::move(path));
    }
  }
  return {};
}

Result<void> read_run(const JsonReader& reader, ImageConfig& out) {
  const std::string user = TRY(reader.text("User", 2 * kUserNameBytesMax + 1));
  out.user = TRY_IN(reader.place("User"), parse_user(user));
  const std::string workdir = TRY(reader.text("WorkingDir", kWorkdirBytesMax));
  out.workdir = TRY(plain_path(reader.place("WorkingDir"), workdir));
  out.env = TRY(reader.texts("Env", kEnvEntriesMax, kEnvBytesMax));
  TRY(check_env(out.env));
  out.entrypoint = TRY(reader.texts("Entrypoint", kArgumentsMax, kArgumentBytesMax));
  out.cmd = TRY(reader.texts("Cmd", kArgumentsMax, kArgumentBytesMax));
  out.stop_signal = TRY(reader.text("StopSignal", kWordBytesMax));
  const auto plain = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
  };
  if (!std::ranges::all_of(out.stop_signal, plain)) {
    return bad_document(reader.place("StopSignal"), "is not the name or number of a signal");
  }
  TRY(read_labels(reader, out));
  return read_sets(reader, out);
}

json::array texts(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& one : list) out.emplace_back(one);
  return out;
}

std::string port_text(const ExposedPort& port) {
  if (port.first == port.last) return fmt::format("{}/{}", port.first, port.protocol);
  return fmt::format("{}-{}/{}", port.first, port.last, port.protocol);
}

json::object run_object(const ImageConfig& config) {
  json::object run;
  if (!config.user.empty()) run["User"] = config.user.str();
  if (!config.ports.empty()) {
    json::object ports;
    for (const ExposedPort& port : config.ports) ports[port_text(port)] = json::object();
    run["ExposedPorts"] = std::move(ports);
  }
  if (!config.env.empty()) run["Env"] = texts(config.env);
  if (!config.entrypoint.empty()) run["Entrypoint"] = texts(config.entrypoint);
  if (!config.cmd.empty()) run["Cmd"] = texts(config.cmd);
  if (!config.volumes.empty()) {
    json::object volumes;
    for (const std::string& path : config.volumes) volumes[path] = json::object();
    run["Volumes"] = std::move(volumes);
  }
  if (!config.workdir.empty()) run["WorkingDir"] = config.workdir;
  if (!config.labels.empty()) {
    json::object labels;
    for (const auto& [name, value] : config.labels) labels[name] = value;
    run["Labels"] = std::move(labels);
  }
  if (!config.stop_signal.empty()) run["StopSignal"] = config.stop_signal;
  return run;
}

}  // namespace

Result<ImageConfig> parse_config(std::string_view text) {
  const json::object object = TRY(parse_json_object(text, kConfigBytesMax, "the image's config"));
  const JsonReader reader(object, "the image's config:");
  ImageConfig out;
  out.platform.os = TRY(reader.text("os", kWordBytesMax));
  out.platform.architecture = TRY(reader.text("architecture", kWordBytesMax));
  out.platform.variant = TRY(reader.text("variant", kWordBytesMax));
  out.created = TRY(reader.text("created", kWordBytesMax));
  const json::object* rootfs = TRY(reader.object("rootfs"));
  if (rootfs == nullptr) return bad_document(reader.place("rootfs"), "is missing");
  const JsonReader root(*rootfs, reader.place("rootfs"));
  const std::string type = TRY(root.text("type", kWordBytesMax));
  if (type != "layers") return bad_document(root.place("type"), "is not 'layers'");
  const std::vector<std::string> ids =
      TRY(root.texts("diff_ids", kLayersMax, kLayersMax * kArgumentsMax));
  for (const std::string& id : ids) {
    auto digest = Digest::parse(id);
    if (!digest) return bad_document(root.place("diff_ids"), "is bad: " + digest.error().message);
    out.diff_ids.push_back(std::move(*digest));
  }
  const json::object* run = TRY(reader.object("config"));
  if (run != nullptr) TRY(read_run(JsonReader(*run, "the image's config:"), out));
  return out;
}

std::string to_json(const ImageConfig& config) {
  json::object out;
  if (!config.created.empty()) out["created"] = config.created;
  out["architecture"] = config.platform.architecture;
  if (!config.platform.variant.empty()) out["variant"] = config.platform.variant;
  out["os"] = config.platform.os;
  out["config"] = run_object(config);
  json::array ids;
  for (const Digest& id : config.diff_ids) ids.emplace_back(id.str());
  out["rootfs"] = json::object{{"type", "layers"}, {"diff_ids", std::move(ids)}};
  return json::serialize(out);
}

}  // namespace caisson::image
