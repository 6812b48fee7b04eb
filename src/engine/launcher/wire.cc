#include "engine/launcher/wire.h"

#include <algorithm>
#include <cstring>

namespace caisson::engine::launcher_wire {

Writer& Writer::put_string(std::string_view text) {
  const std::string_view kept = text.substr(0, kStringBytesMax);
  put(static_cast<std::uint32_t>(kept.size()));
  const auto bytes = std::as_bytes(std::span(kept));
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

Writer& Writer::put_bytes(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

void Reader::copy(std::span<std::byte> out) {
  if (wrong_ || left_.size() < out.size()) {
    wrong_ = true;
    return;
  }
  std::memcpy(out.data(), left_.data(), out.size());
  left_ = left_.subspan(out.size());
}

std::string Reader::get_string() {
  const auto size = get<std::uint32_t>();
  if (wrong_ || size > kStringBytesMax || size > left_.size()) {
    wrong_ = true;
    return {};
  }
  std::string text(size, '\0');
  copy(std::as_writable_bytes(std::span(text)));
  return text;
}

std::uint32_t Reader::get_count(std::uint32_t max) {
  const auto count = get<std::uint32_t>();
  if (wrong_ || count > max || count > left_.size()) {
    wrong_ = true;
    return 0;
  }
  return count;
}

Result<void> Reader::finish() const {
  if (wrong_) return failure(Errc::Protocol, "launcher message: a length does not fit");
  if (!left_.empty()) return failure(Errc::Protocol, "launcher message: bytes left over");
  return {};
}

namespace {

// An enum from the other side is one of ours, or the strictest of ours: check() then judges the
// whole.
template <class E>
E get_enum(Reader& reader, E last, E strictest) {
  const auto value = reader.get<std::uint8_t>();
  return value <= static_cast<std::uint8_t>(last) ? static_cast<E>(value) : strictest;
}

}  // namespace

void write(Writer& writer, const Limits& limits) {
  writer.put(limits.memory_bytes)
      .put(limits.processes)
      .put(limits.cpu_millis)
      .put(limits.cpu_time_us);
  writer.put(limits.life_us).put(limits.disk_bytes).put(limits.disk_files).put(limits.open_files);
}

Limits read_limits(Reader& reader) {
  Limits limits;
  limits.memory_bytes = reader.get<std::uint64_t>();
  limits.processes = reader.get<std::uint32_t>();
  limits.cpu_millis = reader.get<std::uint32_t>();
  limits.cpu_time_us = reader.get<std::uint64_t>();
  limits.life_us = reader.get<std::uint64_t>();
  limits.disk_bytes = reader.get<std::uint64_t>();
  limits.disk_files = reader.get<std::uint64_t>();
  limits.open_files = reader.get<std::uint32_t>();
  return limits;
}

void write_ports(Writer& writer, const std::vector<std::uint16_t>& ports) {
  writer.put(static_cast<std::uint32_t>(ports.size()));
  for (const std::uint16_t port : ports) writer.put(port);
}

std::vector<std::uint16_t> read_ports(Reader& reader) {
  std::vector<std::uint16_t> ports(reader.get_count(kGatePortsMax));
  for (std::uint16_t& port : ports) port = reader.get<std::uint16_t>();
  return ports;
}

void write(Writer& writer, const LayerStack& stack) {
  writer.put(static_cast<std::uint8_t>(stack.host ? 1 : 0));
  writer.put(static_cast<std::uint32_t>(stack.layers.size()));
  for (const std::string& layer : stack.layers) writer.put_string(layer);
}

LayerStack read_stack(Reader& reader) {
  LayerStack stack;
  stack.host = reader.get<std::uint8_t>() != 0;
  const std::uint32_t layers = reader.get_count(kLayersMax);
  for (std::uint32_t i = 0; i < layers; ++i) stack.layers.push_back(reader.get_string());
  return stack;
}

namespace {

void write(Writer& writer, const StoreMount& mount) {
  writer.put(mount.kind).put_string(mount.at).put_string(mount.name);
  launcher_wire::write(writer, mount.stack);
  writer.put(static_cast<std::uint8_t>(mount.read_only ? 1 : 0)).put(mount.bytes_max);
}

StoreMount read_store_mount(Reader& reader) {
  StoreMount mount;
  mount.kind = get_enum(reader, StoreMount::Kind::Target, StoreMount::Kind::View);
  mount.at = reader.get_string();
  mount.name = reader.get_string();
  mount.stack = read_stack(reader);
  mount.read_only = reader.get<std::uint8_t>() != 0;
  mount.bytes_max = reader.get<std::uint64_t>();
  return mount;
}

}  // namespace

void write(Writer& writer, const LaunchRequest& request) {
  writer.put_string(request.id).put_string(request.hostname);
  writer.put(request.root).put(request.scratch).put(request.workspace);
  writer.put(static_cast<std::uint32_t>(request.folders.size()));
  for (const Folder& folder : request.folders) writer.put_string(folder.at).put(folder.mode);
  writer.put(static_cast<std::uint32_t>(request.writable.size()));
  for (const std::string& path : request.writable) writer.put_string(path);
  writer.put(static_cast<std::uint32_t>(request.aliases.size()));
  for (const Alias& alias : request.aliases) writer.put_string(alias.at).put_string(alias.of);
  write(writer, request.limits);
  writer.put(request.uid).put(request.gid).put(request.profile);
  writer.put(static_cast<std::uint8_t>(request.scope_sockets ? 1 : 0));
  writer.put(static_cast<std::uint8_t>(request.root_capabilities ? 1 : 0));
  writer.put(static_cast<std::uint8_t>(request.gate ? 1 : 0));
  write_ports(writer, request.gate_ports);
  writer.put(request.gate_proxy);
  write(writer, request.stack);
  writer.put(request.tier).put(request.storage).put(request.program);
  writer.put(static_cast<std::uint8_t>(request.resume ? 1 : 0));
  writer.put(static_cast<std::uint8_t>(request.persistent ? 1 : 0));
  writer.put(static_cast<std::uint32_t>(request.store_mounts.size()));
  for (const StoreMount& mount : request.store_mounts) write(writer, mount);
  // Twice what one string holds.
  writer.put_string(std::string_view(request.trust).substr(0, kStringBytesMax));
  writer.put_string(
      std::string_view(request.trust).substr(std::min(request.trust.size(), kStringBytesMax)));
  writer.put_string(request.memory.name)
      .put_string(request.memory.digest)
      .put_string(request.memory.runtime)
      .put(static_cast<std::uint8_t>(request.memory.same ? 1 : 0));
}

namespace {

MemoryImage read_memory(Reader& reader) {
  MemoryImage memory;
  memory.name = reader.get_string();
  memory.digest = reader.get_string();
  memory.runtime = reader.get_string();
  memory.same = reader.get<std::uint8_t>() != 0;
  return memory;
}

}  // namespace

LaunchRequest read_launch_request(Reader& reader) {
  LaunchRequest request;
  request.id = reader.get_string();
  request.hostname = reader.get_string();
  request.root = get_enum(reader, RootMode::Writable, RootMode::ReadOnly);
  request.scratch = get_enum(reader, ScratchMode::ReadOnly, ScratchMode::ReadOnly);
  request.workspace = get_enum(reader, WorkspaceMode::ReadOnly, WorkspaceMode::ReadOnly);
  const std::uint32_t folders = reader.get_count(kFoldersMax);
  for (std::uint32_t i = 0; i < folders; ++i) {
    std::string at = reader.get_string();
    request.folders.push_back(
        {std::move(at), get_enum(reader, FolderMode::Writable, FolderMode::ReadOnly)});
  }
  const std::uint32_t paths = reader.get_count(kWritablePathsMax);
  for (std::uint32_t i = 0; i < paths; ++i) request.writable.push_back(reader.get_string());
  const std::uint32_t aliases = reader.get_count(kAliasesMax);
  for (std::uint32_t i = 0; i < aliases; ++i) {
    std::string at = reader.get_string();
    request.aliases.push_back({std::move(at), reader.get_string()});
  }
  request.limits = read_limits(reader);
  request.uid = reader.get<std::uint32_t>();
  request.gid = reader.get<std::uint32_t>();
  // Unknown bits of a profile would only widen it: they are dropped.
  const auto known = seccomp::Profile::Debug | seccomp::Profile::NoSpawn;
  request.profile = static_cast<seccomp::Profile>(reader.get<std::uint32_t>() &
                                                  static_cast<std::uint32_t>(known));
  request.scope_sockets = reader.get<std::uint8_t>() != 0;
  request.root_capabilities = reader.get<std::uint8_t>() != 0;
  request.gate = reader.get<std::uint8_t>() != 0;
  request.gate_ports = read_ports(reader);
  request.gate_proxy = reader.get<std::uint16_t>();
  request.stack = read_stack(reader);
  // One that is not known is not made weaker: it is none that a launcher has.
  request.tier = get_enum(reader, policy::SandboxTier::Microvm, policy::SandboxTier::Microvm);
  request.storage = get_enum(reader, Storage::Disk, Storage::Memory);
  request.program = get_enum(reader, Program::Layer, Program::Init);
  request.resume = reader.get<std::uint8_t>() != 0;
  request.persistent = reader.get<std::uint8_t>() != 0;
  const std::uint32_t mounts = reader.get_count(kStoreMountsMax);
  for (std::uint32_t i = 0; i < mounts; ++i)
    request.store_mounts.push_back(read_store_mount(reader));
  request.trust = reader.get_string();
  request.trust += reader.get_string();
  request.memory = read_memory(reader);
  return request;
}

void write(Writer& writer, const GateSockets& gate) {
  writer.put(static_cast<std::uint8_t>(gate.empty() ? 0 : 1))
      .put(static_cast<std::uint8_t>(gate.steering ? 1 : 0))
      .put(static_cast<std::uint32_t>(gate.listeners.size()));
}

GateShape read_gate(Reader& reader) {
  GateShape shape;
  shape.open = reader.get<std::uint8_t>() != 0;
  shape.steered = reader.get<std::uint8_t>() != 0;
  shape.listeners = reader.get<std::uint32_t>();
  if (shape.listeners > kGatePortsMax + kGateOwnPorts) shape = {};
  return shape;
}

void append(std::vector<UniqueFd>& out, GateSockets gate) {
  if (gate.empty()) return;
  out.push_back(std::move(gate.resolver));
  if (gate.steering) out.push_back(std::move(gate.steering));
  for (UniqueFd& one : gate.listeners) out.push_back(std::move(one));
}

GateSockets take_gate(const GateShape& shape, std::vector<UniqueFd>& fds) {
  GateSockets gate;
  CAISSON_ASSERT(fds.size() >= shape.descriptors());
  if (!shape.open) return gate;
  auto at = fds.end() - static_cast<std::ptrdiff_t>(shape.descriptors());
  const auto first = at;
  gate.resolver = std::move(*at++);
  if (shape.steered) gate.steering = std::move(*at++);
  for (; at != fds.end(); ++at) gate.listeners.push_back(std::move(*at));
  fds.erase(first, fds.end());
  return gate;
}

void write(Writer& writer, const Status& status) {
  writer.put(status.end)
      .put(static_cast<std::uint8_t>(status.frozen ? 1 : 0))
      .put(status.usage)
      .put_string(status.detail);
}

Status read_status(Reader& reader) {
  Status status;
  status.end = get_enum(reader, EndReason::OutOfMemory, EndReason::InitDied);
  status.frozen = reader.get<std::uint8_t>() != 0;
  status.usage = reader.get<Usage>();
  status.detail = reader.get_string();
  return status;
}

void write(Writer& writer, const Record& record) {
  writer.put_string(record.tier)
      .put_string(record.kernel)
      .put(static_cast<std::int32_t>(record.landlock_abi));
  writer.put_string(record.seccomp).put_string(record.groups).put_string(record.quota);
  writer.put_string(record.ids).put_string(record.network).put_string(record.snapshots);
}

Record read_record(Reader& reader) {
  Record record;
  record.tier = reader.get_string();
  record.kernel = reader.get_string();
  record.landlock_abi = reader.get<std::int32_t>();
  record.seccomp = reader.get_string();
  record.groups = reader.get_string();
  record.quota = reader.get_string();
  record.ids = reader.get_string();
  record.network = reader.get_string();
  record.snapshots = reader.get_string();
  return record;
}

void write(Writer& writer, const Error& error) {
  writer.put(error.code).put(static_cast<std::int32_t>(error.sys_errno));
  writer.put_string(error.message).put_string(error.field);
}

Error read_error(Reader& reader) {
  Error error;
  error.code = get_enum(reader, Errc::Internal, Errc::Internal);
  error.sys_errno = reader.get<std::int32_t>();
  error.message = reader.get_string();
  error.field = reader.get_string();
  return error;
}

void write(Writer& writer, const Greeting& greeting) {
  writer.put(greeting.pid).put_string(greeting.boot_id).put_string(greeting.kernel);
}

Greeting read_greeting(Reader& reader) {
  Greeting greeting;
  greeting.pid = reader.get<std::int32_t>();
  greeting.boot_id = reader.get_string();
  greeting.kernel = reader.get_string();
  return greeting;
}

void write(Writer& writer, const Living& living) {
  writer.put_string(living.id).put(static_cast<std::int32_t>(living.init_pid));
  write(writer, living.record);
  write(writer, living.limits);
  write(writer, living.stack);
  writer.put(living.storage);
  writer.put(static_cast<std::uint8_t>(living.frozen ? 1 : 0))
      .put(static_cast<std::uint8_t>(living.standing ? 1 : 0))
      .put(static_cast<std::uint8_t>(living.ended ? 1 : 0))
      .put(living.age_us)
      .put(living.life_left_us);
}

Living read_living(Reader& reader) {
  Living living;
  living.id = reader.get_string();
  living.init_pid = reader.get<std::int32_t>();
  living.record = read_record(reader);
  living.limits = read_limits(reader);
  living.stack = read_stack(reader);
  living.storage = get_enum(reader, Storage::Disk, Storage::Memory);
  living.frozen = reader.get<std::uint8_t>() != 0;
  living.standing = reader.get<std::uint8_t>() != 0;
  living.ended = reader.get<std::uint8_t>() != 0;
  living.age_us = reader.get<std::uint64_t>();
  living.life_left_us = reader.get<std::uint64_t>();
  return living;
}

void write_page(Writer& writer, const std::vector<Living>& sandboxes, bool more) {
  Writer part{Header{}};
  const std::size_t begin = part.size();
  std::uint32_t count = 0;
  for (const Living& one : sandboxes) {
    if (count == kLivingPerMessageMax || part.size() - begin > kLivingPageBytes) break;
    write(part, one);
    ++count;
  }
  const bool rest = more || count < sandboxes.size();
  writer.put(static_cast<std::uint8_t>(rest ? 1 : 0)).put(count);
  const Bytes bytes = part.take();
  writer.put_bytes(std::span(bytes).subspan(begin));
}

LivingPage read_page(Reader& reader) {
  LivingPage page;
  page.more = reader.get<std::uint8_t>() != 0;
  const std::uint32_t count = reader.get_count(kLivingPerMessageMax);
  for (std::uint32_t i = 0; i < count; ++i) page.sandboxes.push_back(read_living(reader));
  return page;
}

void write(Writer& writer, const Sealed& sealed) { writer.put(sealed.kind).put(sealed.bytes); }

Sealed read_sealed(Reader& reader) {
  Sealed sealed;
  sealed.kind = get_enum(reader, SnapshotKind::Copied, SnapshotKind::Copied);
  sealed.bytes = reader.get<std::uint64_t>();
  return sealed;
}

void write(Writer& writer, const PoolFacts& facts) {
  writer.put_string(facts.kind).put(static_cast<std::uint8_t>(facts.limits ? 1 : 0));
  writer.put(static_cast<std::uint8_t>(facts.live_snapshots ? 1 : 0));
  writer.put(facts.bytes).put(facts.free_bytes).put_string(facts.why);
}

PoolFacts read_pool(Reader& reader) {
  PoolFacts facts;
  facts.kind = reader.get_string();
  facts.limits = reader.get<std::uint8_t>() != 0;
  facts.live_snapshots = reader.get<std::uint8_t>() != 0;
  facts.bytes = reader.get<std::uint64_t>();
  facts.free_bytes = reader.get<std::uint64_t>();
  facts.why = reader.get_string();
  return facts;
}

void write(Writer& writer, const SavedMemory& saved) {
  writer.put(saved.bytes).put_string(saved.digest).put_string(saved.runtime);
  writer.put(static_cast<std::uint8_t>(saved.files ? 1 : 0));
}

SavedMemory read_saved(Reader& reader) {
  SavedMemory saved;
  saved.bytes = reader.get<std::uint64_t>();
  saved.digest = reader.get_string();
  saved.runtime = reader.get_string();
  saved.files = reader.get<std::uint8_t>() != 0;
  return saved;
}

void write_kind(Writer& writer, StoreEntry::Kind kind) { writer.put(kind); }

StoreEntry::Kind read_kind(Reader& reader) {
  return get_enum(reader, StoreEntry::Kind::Memory, StoreEntry::Kind::Layer);
}

void write(Writer& writer, const StoredPage& page) {
  writer.put(static_cast<std::uint8_t>(page.more ? 1 : 0));
  writer.put(static_cast<std::uint32_t>(page.entries.size()));
  for (const StoreEntry& entry : page.entries)
    writer.put(entry.kind).put_string(entry.name).put(entry.bytes);
}

StoredPage read_stored(Reader& reader) {
  StoredPage page;
  page.more = reader.get<std::uint8_t>() != 0;
  const std::uint32_t count = reader.get_count(kStoredPerMessageMax);
  for (std::uint32_t i = 0; i < count; ++i) {
    StoreEntry entry;
    entry.kind = read_kind(reader);
    entry.name = reader.get_string();
    entry.bytes = reader.get<std::uint64_t>();
    page.entries.push_back(std::move(entry));
  }
  return page;
}

void write(Writer& writer, const EndedNote& note) {
  writer.put_string(note.id);
  write(writer, note.status);
}

EndedNote read_ended(Reader& reader) {
  EndedNote note;
  note.id = reader.get_string();
  note.status = read_status(reader);
  return note;
}

}  // namespace caisson::engine::launcher_wire
