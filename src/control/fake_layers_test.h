// The launcher's store and the layer tool, played by a test: layers are names with a few words in
// them, and what a job does is said by the test.
#pragma once

#include <sys/socket.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "engine/channel/wakeup.h"
#include "engine/launch_request.h"
#include "engine/layers.h"
#include "guest/protocol/layer_job.h"

namespace caisson::control::test {

// One job as the tool sees it.
struct FakeJob {
  wire::Job job{};
  std::string prefix;
  UniqueFd file;
  UniqueFd out;
  engine::LaunchRequest request;
};

// What the tool says; bytes as they are.
class FakeAnswer {
 public:
  FakeAnswer& raw(wire::AnswerKind kind, std::string_view body) {
    const wire::JobHeader header{wire::kLayerVersion, static_cast<std::uint32_t>(kind),
                                 static_cast<std::uint32_t>(body.size())};
    bytes.append(reinterpret_cast<const char*>(&header), sizeof(header)).append(body);
    return *this;
  }
  template <class Body>
  FakeAnswer& word(wire::AnswerKind kind, const Body& body, std::string_view more = {}) {
    std::string text(reinterpret_cast<const char*>(&body), sizeof(body));
    return raw(kind, text.append(more));
  }
  FakeAnswer& entry(wire::EntryKind kind, std::string_view path, std::uint64_t size = 0,
                    std::uint64_t offset = 0) {
    wire::LayerEntry body{};
    body.kind = kind;
    body.mode = 0100644;
    body.size = size;
    body.offset = offset;
    body.path_size = path.size();
    return word(wire::AnswerKind::Entry, body, path);
  }
  FakeAnswer& done(wire::LayerDone body = {}) { return word(wire::AnswerKind::Done, body); }
  FakeAnswer& failed(wire::LayerError error, std::string_view text) {
    return word(wire::AnswerKind::Failed, wire::LayerFailed{error, 0}, text);
  }
  static wire::LayerDone with_digest(std::string_view hex) {
    wire::LayerDone out{};
    for (std::size_t i = 0; i < sizeof(out.digest) && 2 * i + 1 < hex.size(); ++i)
      out.digest[i] =
          static_cast<std::uint8_t>(std::stoi(std::string(hex.substr(2 * i, 2)), nullptr, 16));
    return out;
  }
  std::string bytes;
  bool silent = false;  // says nothing more, and stays
};

// What the launcher keeps beside sandboxes.
struct FakeStoreWorld {
  std::set<std::string> layers;
  std::set<std::string> uppers;
  std::map<std::string, std::uint64_t> volumes;
  std::set<std::string> memories;
  bool files_in_memories = false;      // as machines have them
  std::map<std::string, bool> making;  // Program::Layer sandboxes with a target
  std::set<std::string> processes;     // sandboxes in which something runs
  bool live_snapshots = true;          // btrfs
  int synced = 0;
  std::vector<std::string> dropped;
  std::vector<FakeJob> jobs;
  std::function<FakeAnswer(FakeJob&)> on_job;
  int jobs_at_once = 0;
  int jobs_at_once_most = 0;
  std::map<std::string, Error> fails;  // by the name of the call
  std::optional<Error> sealed_but;     // it was sealed, and this is what comes back
  std::shared_ptr<engine::Wakeup> seal_waits;
  std::shared_ptr<engine::Wakeup> save_waits;
  int saving = 0;  // so often it is Busy to go on
  std::shared_ptr<engine::Wakeup> launch_waits;
  int fails_in = -1;  // the so-manyth call from now, whichever it is
};

// Plays caisson-layer on a socket: takes one job, answers, stays until the other side closes.
inline boost::asio::awaitable<void> play_layer_tool(FakeStoreWorld& world,
                                                    engine::LaunchRequest request, UniqueFd end) {
  namespace asio = boost::asio;
  const auto executor = co_await asio::this_coro::executor;
  asio::local::stream_protocol::socket socket(executor, asio::local::stream_protocol(),
                                              end.release());
  boost::system::error_code failed;
  auto into = asio::redirect_error(asio::use_awaitable, failed);
  co_await socket.async_wait(asio::socket_base::wait_read, into);
  if (failed) co_return;
  char buffer[sizeof(wire::JobHeader) + sizeof(wire::Job) + wire::kJobStringsMax];
  iovec part{buffer, sizeof(buffer)};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = ::recvmsg(socket.native_handle(), &message, MSG_CMSG_CLOEXEC);
  if (size < static_cast<ssize_t>(sizeof(wire::JobHeader) + sizeof(wire::Job))) co_return;
  FakeJob job;
  job.request = std::move(request);
  std::memcpy(&job.job, buffer + sizeof(wire::JobHeader), sizeof(job.job));
  job.prefix.assign(buffer + sizeof(wire::JobHeader) + sizeof(wire::Job), job.job.prefix_size);
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr) {
    int fds[2] = {-1, -1};
    const std::size_t bytes = std::min(rights->cmsg_len - CMSG_LEN(0), sizeof(fds));
    std::memcpy(fds, CMSG_DATA(rights), bytes);
    job.file = UniqueFd(fds[0]);
    job.out = UniqueFd(fds[1]);
  }
  world.jobs_at_once_most = std::max(world.jobs_at_once_most, ++world.jobs_at_once);
  FakeAnswer answer = world.on_job ? world.on_job(job) : FakeAnswer().done();
  world.jobs.push_back(std::move(job));
  co_await asio::async_write(socket, asio::buffer(answer.bytes), into);
  --world.jobs_at_once;
  if (!answer.silent && answer.bytes.empty()) co_return;  // it dies without a word
  char last = 0;
  co_await socket.async_read_some(asio::buffer(&last, 1), into);
}

}  // namespace caisson::control::test
