// What a server that was taken over may send to the launcher, and a launcher to its server: an
// error of the protocol, or a value within its bounds that check() judges. The first byte says
// which message the rest claims to be.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/launcher/wire.h"

namespace {

namespace wire = caisson::engine::launcher_wire;
namespace engine = caisson::engine;

void require(bool holds) {
  if (!holds) std::abort();
}

// A value that was read whole is the same after another trip: nothing hides in its bytes.
template <class Value, class Read>
Value again(const Value& value, Read read) {
  wire::Writer writer(wire::Header{});
  write(writer, value);
  const wire::Bytes bytes = writer.take();
  wire::Reader reader(std::span(bytes).subspan(sizeof(wire::Header)));
  const Value back = read(reader);
  require(reader.finish().has_value());
  return back;
}

void judge(const engine::LaunchRequest& request) {
  require(again(request, wire::read_launch_request) == request);
  require(request.root <= engine::RootMode::Writable);
  require(request.scratch <= engine::ScratchMode::ReadOnly);
  require(request.workspace <= engine::WorkspaceMode::ReadOnly);
  for (const engine::Folder& folder : request.folders)
    require(folder.mode <= engine::FolderMode::Writable);
  if (!check(request)) return;
  require(request.id.empty() || caisson::SandboxId::parse(request.id).has_value());
  require(request.uid < engine::kInitId && request.gid < engine::kInitId);
  const auto place = [](const std::string& path) {
    require(path.starts_with('/') && path.size() > 1 && path.find("/../") == std::string::npos &&
            !path.ends_with("/..") && path.find('\0') == std::string::npos &&
            !engine::is_below(path, "/proc") && !engine::is_below(path, "/sys"));
  };
  for (const engine::Folder& folder : request.folders) place(folder.at);
  for (const std::string& path : request.writable) place(path);
}

void read_request(wire::Reader& reader) {
  const engine::LaunchRequest request = wire::read_launch_request(reader);
  require(request.folders.size() <= engine::kFoldersMax);
  require(request.writable.size() <= engine::kWritablePathsMax);
  if (reader.finish()) judge(request);
}

void read_reply(std::uint8_t kind, wire::Reader& reader) {
  if (kind == 1) {
    const engine::Limits limits = wire::read_limits(reader);
    if (reader.finish()) require(again(limits, wire::read_limits) == limits);
  } else if (kind == 2) {
    const engine::Status status = wire::read_status(reader);
    require(status.end <= engine::EndReason::OutOfMemory);
    require(status.detail.size() <= wire::kStringBytesMax);
    if (reader.finish()) require(again(status, wire::read_status).usage == status.usage);
  } else if (kind == 3) {
    const engine::Record record = wire::read_record(reader);
    if (reader.finish()) require(again(record, wire::read_record) == record);
  } else if (kind == 4) {
    const caisson::Error error = wire::read_error(reader);
    require(error.code <= caisson::Errc::Internal);
    if (reader.finish()) require(again(error, wire::read_error) == error);
  } else if (kind == 5) {
    const wire::Greeting greeting = wire::read_greeting(reader);
    if (reader.finish()) require(again(greeting, wire::read_greeting) == greeting);
  } else if (kind == 6) {
    const wire::LivingPage page = wire::read_page(reader);
    require(page.sandboxes.size() <= wire::kLivingPerMessageMax);
    if (!reader.finish()) return;
    for (const engine::Living& one : page.sandboxes) require(again(one, wire::read_living) == one);
  } else {
    const wire::EndedNote note = wire::read_ended(reader);
    require(note.status.end <= engine::EndReason::OutOfMemory);
    if (reader.finish()) require(again(note, wire::read_ended).id == note.id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > wire::kMessageBytesMax) return 0;
  const std::uint8_t kind = data[0] % 8;
  wire::Reader reader(std::as_bytes(std::span(data + 1, size - 1)));
  if (kind == 0) {
    read_request(reader);
  } else {
    read_reply(kind, reader);
  }
  return 0;
}
