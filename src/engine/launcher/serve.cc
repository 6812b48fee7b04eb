#include "engine/launcher/serve.h"

#include <poll.h>

#include "engine/launcher/wire.h"
#include "sys/process.h"

namespace caisson::engine {
namespace {

using launcher_wire::Reader;
using launcher_wire::Request;
using launcher_wire::Writer;

// Each writes the body of its reply into `writer`, and may hand out one descriptor.
Result<UniqueFd> on_launch(LauncherCore& core, Reader& reader, std::vector<UniqueFd> fds,
                           Writer& writer) {
  const LaunchRequest request = launcher_wire::read_launch_request(reader);
  TRY(reader.finish());
  LaunchReply reply = TRY(core.launch(request, std::move(fds)));
  writer.put_string(reply.id).put(reply.nonce).put(static_cast<std::int32_t>(reply.init_pid));
  launcher_wire::write(writer, reply.record);
  return std::move(reply.stream);
}

Result<UniqueFd> on_limits(LauncherCore& core, Reader& reader) {
  const std::string id = reader.get_string();
  const Limits limits = launcher_wire::read_limits(reader);
  TRY(reader.finish());
  TRY(core.set_limits(id, limits));
  return UniqueFd();
}

Result<UniqueFd> on_named(LauncherCore& core, Request kind, Reader& reader, Writer& writer) {
  const std::string id = reader.get_string();
  TRY(reader.finish());
  switch (kind) {
    case Request::Connect:
      return core.connect(id);
    case Request::Destroy:
      launcher_wire::write(writer, TRY(core.destroy(id)));
      break;
    case Request::Status:
      launcher_wire::write(writer, TRY(core.status(id)));
      break;
    case Request::Freeze:
      TRY(core.freeze(id));
      break;
    case Request::Thaw:
      TRY(core.thaw(id));
      break;
    default:
      return failure(Errc::Protocol, "launcher: unknown request");
  }
  return UniqueFd();
}

Result<UniqueFd> on_list(const LauncherCore& core, Reader& reader, Writer& writer) {
  TRY(reader.finish());
  const auto ids = core.list();
  // One message holds about two thousand ids; more are counted, not cut in silence.
  constexpr std::size_t kListedMax = 2000;
  writer.put(static_cast<std::uint32_t>(ids.size()));
  writer.put(static_cast<std::uint32_t>(std::min(ids.size(), kListedMax)));
  for (std::size_t i = 0; i < ids.size() && i < kListedMax; ++i) writer.put_string(ids[i]);
  return UniqueFd();
}

Result<UniqueFd> dispatch(LauncherCore& core, Request kind, Reader& reader,
                          std::vector<UniqueFd> fds, Writer& writer) {
  if (kind != Request::Launch && !fds.empty())
    return failure(Errc::Protocol, "launcher: descriptors nobody asked for");
  switch (kind) {
    case Request::Hello:
      TRY(reader.finish());
      return UniqueFd();
    case Request::Launch:
      return on_launch(core, reader, std::move(fds), writer);
    case Request::SetLimits:
      return on_limits(core, reader);
    case Request::List:
      return on_list(core, reader, writer);
    default:
      return on_named(core, kind, reader, writer);
  }
}

}  // namespace

Answer handle(LauncherCore& core, sys::Message request) {
  Reader reader(request.bytes);
  launcher_wire::Header header = reader.get<launcher_wire::Header>();
  Writer writer(header);
  Result<UniqueFd> outcome = UniqueFd();
  if (header.version != launcher_wire::kLauncherVersion) {
    outcome =
        failure(Errc::Protocol, "launcher: version " + std::to_string(header.version) + " asked, " +
                                    std::to_string(launcher_wire::kLauncherVersion) + " spoken");
  } else {
    outcome =
        dispatch(core, static_cast<Request>(header.kind), reader, std::move(request.fds), writer);
  }
  Answer answer;
  if (outcome) {
    answer.bytes = writer.take();
    if (*outcome) answer.fds.push_back(std::move(*outcome));
    return answer;
  }
  header.failed = 1;
  Writer failed(header);
  launcher_wire::write(failed, outcome.error());
  answer.bytes = failed.take();
  return answer;
}

Result<void> serve(LauncherCore& core, int socket) {
  bool more_to_make = true;
  for (;;) {
    // Nothing asked: make one thing ahead, then look again. Something asked: that goes first.
    const std::optional<TimePoint> deadline =
        more_to_make ? std::optional(Clock::now()) : core.next_check();
    const bool asked = TRY(sys::wait_ready(socket, POLLIN, deadline));
    core.tick();
    if (!asked) {
      if (more_to_make) more_to_make = core.refill();
      continue;
    }
    auto message = sys::receive_message(socket, launcher_wire::kMessageBytesMax);
    if (!message && message.error().code != Errc::Protocol) break;
    if (message && message->bytes.empty()) break;  // the peer is gone
    if (!message) continue;  // too long, and dropped whole: our own client never sends one
    const Answer answer = handle(core, std::move(*message));
    std::vector<int> numbers;
    numbers.reserve(answer.fds.size());
    for (const UniqueFd& fd : answer.fds) numbers.push_back(fd.get());
    if (!sys::send_message(socket, answer.bytes, numbers)) break;
    more_to_make = true;
  }
  for (const std::string& id : core.list()) (void)core.destroy(id);
  return {};
}

}  // namespace caisson::engine
