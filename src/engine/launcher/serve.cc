#include "engine/launcher/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "engine/launcher/wire.h"
#include "sys/file.h"
#include "sys/process.h"

namespace caisson::engine {
namespace {

using launcher_wire::Reader;
using launcher_wire::Request;
using launcher_wire::Writer;

// One request on its way to a reply: what it may ask for, what is left to read of it, where the
// reply goes.
struct Job {
  LauncherCore& core;
  const Ceiling& ceiling;
  Request kind;
  Reader& reader;
  Writer& writer;
  std::string id;
};

using Handed = std::vector<UniqueFd>;

Handed hand(UniqueFd one) {
  Handed all;
  if (one) all.push_back(std::move(one));
  return all;
}

// Each writes the body of its reply, and may hand out descriptors.
Result<Handed> on_launch(Job& job, std::vector<UniqueFd> fds) {
  const LaunchRequest request = launcher_wire::read_launch_request(job.reader);
  TRY(job.reader.finish());
  TRY(permit(job.ceiling, request, job.core.count()));
  LaunchReply reply = TRY(job.core.launch(request, std::move(fds)));
  job.writer.put_string(reply.id).put(reply.nonce).put(static_cast<std::int32_t>(reply.init_pid));
  launcher_wire::write(job.writer, reply.record);
  launcher_wire::write(job.writer, reply.gate);
  job.id = reply.id;
  Handed all = hand(std::move(reply.stream));
  launcher_wire::append(all, std::move(reply.gate));
  return all;
}

Result<Handed> on_limits(Job& job) {
  job.id = job.reader.get_string();
  const Limits limits = launcher_wire::read_limits(job.reader);
  TRY(job.reader.finish());
  TRY(permit(job.ceiling, limits));
  TRY(job.core.set_limits(job.id, limits));
  return Handed{};
}

Result<Handed> on_socket(Job& job) {
  job.id = job.reader.get_string();
  const auto family = job.reader.get<std::int32_t>();
  TRY(job.reader.finish());
  return hand(TRY(job.core.socket_inside(job.id, family)));
}

Result<Handed> on_gate(Job& job) {
  job.id = job.reader.get_string();
  const auto ports = launcher_wire::read_ports(job.reader);
  const auto proxy = job.reader.get<std::uint16_t>();
  TRY(job.reader.finish());
  GateSockets gate = TRY(job.core.open_gate(job.id, ports, proxy));
  launcher_wire::write(job.writer, gate);
  Handed all;
  launcher_wire::append(all, std::move(gate));
  return all;
}

Result<Handed> on_connect(Job& job) {
  job.writer.put(TRY(job.core.nonce(job.id)));
  return hand(TRY(job.core.connect(job.id)));
}

Result<Handed> on_named(Job& job) {
  job.id = job.reader.get_string();
  TRY(job.reader.finish());
  switch (job.kind) {
    case Request::Connect:
      return on_connect(job);
    case Request::Destroy:
      launcher_wire::write(job.writer, TRY(job.core.destroy(job.id)));
      break;
    case Request::StopOne:
      launcher_wire::write(job.writer, TRY(job.core.stop(job.id)));
      break;
    case Request::Status:
    case Request::Reclaim:  // who answers has waited for it: what is held now
      launcher_wire::write(job.writer, TRY(job.core.status(job.id)));
      break;
    case Request::Freeze:
      TRY(job.core.freeze(job.id));
      break;
    case Request::Thaw:
      TRY(job.core.thaw(job.id));
      break;
    case Request::GoOn:
      TRY(job.core.go_on(job.id));
      break;
    default:
      return failure(Errc::Protocol, "launcher: unknown request");
  }
  return Handed{};
}

Result<Handed> on_seal(Job& job) {
  job.id = job.reader.get_string();
  const std::string layer = job.reader.get_string();
  TRY(job.reader.finish());
  launcher_wire::write(job.writer, TRY(job.core.seal(job.id, layer)));
  return Handed{};
}

Result<Handed> on_restack(Job& job) {
  job.id = job.reader.get_string();
  const LayerStack stack = launcher_wire::read_stack(job.reader);
  const bool end_processes = job.reader.get<std::uint8_t>() != 0;
  TRY(job.reader.finish());
  TRY(job.core.restack(job.id, stack, end_processes));
  return Handed{};
}

Result<Handed> on_commit(Job& job) {
  job.id = job.reader.get_string();
  const std::string layer = job.reader.get_string();
  TRY(job.reader.finish());
  job.writer.put(TRY(job.core.commit_layer(job.id, layer)));
  return Handed{};
}

Result<Handed> on_drop(Job& job) {
  const StoreEntry::Kind kind = launcher_wire::read_kind(job.reader);
  const std::string name = job.reader.get_string();
  TRY(job.reader.finish());
  TRY(job.core.drop(kind, name));
  return Handed{};
}

Result<Handed> on_stored(Job& job) {
  const auto first = job.reader.get<std::uint32_t>();
  TRY(job.reader.finish());
  const auto all = TRY(job.core.stored());
  launcher_wire::StoredPage page;
  for (std::size_t i = first;
       i < all.size() && page.entries.size() < launcher_wire::kStoredPerMessageMax; ++i)
    page.entries.push_back(all[i]);
  page.more = first + page.entries.size() < all.size();
  launcher_wire::write(job.writer, page);
  return Handed{};
}

Result<Handed> on_volume(Job& job) {
  const std::string name = job.reader.get_string();
  const auto bytes_max = job.reader.get<std::uint64_t>();
  TRY(job.reader.finish());
  TRY(job.core.set_volume(name, bytes_max));
  return Handed{};
}

Result<Handed> on_pool(Job& job) {
  TRY(job.reader.finish());
  launcher_wire::write(job.writer, TRY(job.core.pool()));
  return Handed{};
}

Result<Handed> on_store(Job& job) {
  switch (job.kind) {
    case Request::Pool:
      return on_pool(job);
    case Request::Seal:
      return on_seal(job);
    case Request::Restack:
      return on_restack(job);
    case Request::CommitLayer:
      return on_commit(job);
    case Request::Drop:
      return on_drop(job);
    case Request::Stored:
      return on_stored(job);
    case Request::SetVolume:
      return on_volume(job);
    default:  // SyncStore: who answers has waited for the disk already
      TRY(job.reader.finish());
      return Handed{};
  }
}

Result<Handed> on_hello(Job& job) {
  TRY(job.reader.finish());
  std::string boot = TRY(sys::read_small(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 128));
  boot.resize(std::min(boot.find('\n'), boot.size()));
  launcher_wire::write(job.writer,
                       launcher_wire::Greeting{::getpid(), boot, job.core.host().kernel_release});
  return Handed{};
}

Result<Handed> on_list(Job& job) {
  TRY(job.reader.finish());
  const auto ids = job.core.list();
  // One message holds about two thousand ids; more are counted, not cut in silence.
  constexpr std::size_t kListedMax = 2000;
  job.writer.put(static_cast<std::uint32_t>(ids.size()));
  job.writer.put(static_cast<std::uint32_t>(std::min(ids.size(), kListedMax)));
  for (std::size_t i = 0; i < ids.size() && i < kListedMax; ++i) job.writer.put_string(ids[i]);
  return Handed{};
}

Result<Handed> on_living(Job& job) {
  const std::string after = job.reader.get_string();
  TRY(job.reader.finish());
  const auto page = job.core.living(after, launcher_wire::kLivingPerMessageMax);
  launcher_wire::write_page(job.writer, page, page.size() == launcher_wire::kLivingPerMessageMax);
  return Handed{};
}

Result<Handed> dispatch(Job& job, std::vector<UniqueFd> fds) {
  if (job.kind != Request::Launch && !fds.empty())
    return failure(Errc::Protocol, "launcher: descriptors nobody asked for");
  switch (job.kind) {
    case Request::Hello:
      return on_hello(job);
    case Request::Launch:
      return on_launch(job, std::move(fds));
    case Request::SetLimits:
      return on_limits(job);
    case Request::List:
      return on_list(job);
    case Request::Living:
      return on_living(job);
    case Request::SocketInside:
      return on_socket(job);
    case Request::OpenGate:
      return on_gate(job);
    case Request::Pool:
    case Request::Seal:
    case Request::Restack:
    case Request::CommitLayer:
    case Request::Drop:
    case Request::Stored:
    case Request::SetVolume:
    case Request::SyncStore:
      return on_store(job);
    default:
      return on_named(job);
  }
}

}  // namespace

bool needs_errand(std::span<const std::byte> message) {
  const auto kind = static_cast<Request>(Reader(message).get<launcher_wire::Header>().kind);
  return kind == Request::CommitLayer || kind == Request::SyncStore || kind == Request::Reclaim ||
         is_memory_errand(message);
}

Result<sys::Child> start_errand(LauncherCore& core, std::span<const std::byte> message) {
  Reader reader(message);
  const auto kind = static_cast<Request>(reader.get<launcher_wire::Header>().kind);
  if (kind == Request::CommitLayer || kind == Request::SyncStore) return core.start_sync();
  const std::string id = reader.get_string();
  if (kind == Request::SaveMemory) {
    const std::string memory = reader.get_string();
    const bool ends = reader.get<std::uint8_t>() != 0;
    TRY(reader.finish());
    return core.start_save(id, memory, ends ? MemorySave::After::End : MemorySave::After::GoOn);
  }
  TRY(reader.finish());
  return kind == Request::Measure ? core.start_measure(id) : core.start_reclaim(id);
}

bool is_memory_errand(std::span<const std::byte> message) {
  const auto kind = static_cast<Request>(Reader(message).get<launcher_wire::Header>().kind);
  return kind == Request::SaveMemory || kind == Request::Measure;
}

std::string silenced_by(std::span<const std::byte> message) {
  Reader reader(message);
  const auto kind = static_cast<Request>(reader.get<launcher_wire::Header>().kind);
  return kind == Request::SaveMemory || kind == Request::Seal ? reader.get_string() : std::string();
}

std::string saved_by(std::span<const std::byte> message) {
  Reader reader(message);
  const auto kind = static_cast<Request>(reader.get<launcher_wire::Header>().kind);
  return kind == Request::SaveMemory ? reader.get_string() : std::string();
}

Answer end_memory_errand(LauncherCore& core, std::span<const std::byte> message, bool whole) {
  Reader reader(message);
  const auto header = reader.get<launcher_wire::Header>();
  const std::string id = reader.get_string();  // of a sandbox, or of a memory
  const auto saved = static_cast<Request>(header.kind) == Request::SaveMemory
                         ? core.end_save(id, reader.get_string(), whole)
                         : core.end_measure(id);
  if (!saved) return refuse(header, saved.error());
  Writer writer(header);
  launcher_wire::write(writer, *saved);
  return Answer{writer.take(), {}, {}};
}

Answer refuse(launcher_wire::Header header, const Error& error) {
  header.failed = 1;
  Writer failed(header);
  launcher_wire::write(failed, error);
  return Answer{failed.take(), {}, {}};
}

Answer handle(LauncherCore& core, sys::Message request, const Ceiling& ceiling) {
  Reader reader(request.bytes);
  const auto header = reader.get<launcher_wire::Header>();
  if (header.version != launcher_wire::kLauncherVersion) {
    return refuse(
        header,
        failure(Errc::Protocol, "launcher: version " + std::to_string(header.version) + " asked, " +
                                    std::to_string(launcher_wire::kLauncherVersion) + " spoken")
            .error());
  }
  Writer writer(header);
  Job job{core, ceiling, static_cast<Request>(header.kind), reader, writer, {}};
  Result<Handed> outcome = dispatch(job, std::move(request.fds));
  if (!outcome) return refuse(header, outcome.error());
  return Answer{writer.take(), std::move(*outcome), std::move(job.id)};
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
    if (needs_errand(message->bytes)) {
      if (auto errand = start_errand(core, message->bytes)) (void)errand->wait();
    }
    const Answer answer = handle(core, std::move(*message));
    std::vector<int> numbers;
    numbers.reserve(answer.fds.size());
    for (const UniqueFd& fd : answer.fds) numbers.push_back(fd.get());
    if (!sys::send_message(socket, answer.bytes, numbers)) break;
    more_to_make = true;
  }
  for (const std::string& id : core.list()) (void)core.retire(id);
  return {};
}

}  // namespace caisson::engine
