// caisson-layer: confined first, then one job, then the end.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <vector>

#include "guest/layer/confine.h"
#include "guest/layer/host.h"
#include "guest/layer/layer.h"

namespace caisson::layer {
namespace {

[[noreturn]] void give_up(StartFailure failure) {
  const wire::ControlFailed message{
      {wire::kVersion, static_cast<std::uint32_t>(wire::ControlKind::Failed)},
      failure.sys_errno,
      static_cast<std::uint32_t>(failure.step)};
  (void)::send(wire::kFdControl, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::_exit(1);
}

void take_walls() {
  std::vector<std::uint8_t> message(wire::kControlMax);
  const ssize_t got = ::recv(wire::kFdControl, message.data(), message.size(), MSG_TRUNC);
  if (got <= 0) give_up({got < 0 ? errno : EINVAL, wire::Step::Request});
  if (static_cast<std::size_t>(got) > message.size()) give_up({E2BIG, wire::Step::Limit});
  message.resize(static_cast<std::size_t>(got));
  const StartFailure confined = confine(message);
  if (!confined.ok()) give_up(confined);
}

std::size_t descriptors_of(wire::JobKind kind) {
  switch (kind) {
    case wire::JobKind::Sanitise:
      return 2;
    case wire::JobKind::Unpack:
    case wire::JobKind::Pack:
      return 1;
    default:
      return 0;
  }
}

Result<wire::LayerDone> work(HostTeller& teller) {
  const ReceivedJob received = TRY(receive_job(wire::kFdStream));
  const std::vector<UniqueFd>& descriptors = received.descriptors;
  if (descriptors.size() < descriptors_of(received.job.kind)) {
    return failure(Errc::InvalidArgument, "the job came without its descriptors");
  }
  UniqueFd root;
  // One that only reads a file and writes another has no layers, and nobody laid them out.
  if (received.job.kind != wire::JobKind::Sanitise) {
    root = UniqueFd(::open(wire::kLayerRoot, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root) return sys_failure("open the layers", errno);
  }
  const int descriptor = descriptors.empty() ? -1 : descriptors[0].get();
  const int output = descriptors.size() < 2 ? -1 : descriptors[1].get();
  return run(Work{root.get(), received.job, received.prefix, descriptor, output}, teller);
}

int serve() {
  HostTeller teller(wire::kFdStream);
  const Result<wire::LayerDone> result = work(teller);
  const Result<void> told = result ? teller.done(*result) : teller.failed(result.error());
  return result && told ? 0 : 1;
}

}  // namespace
}  // namespace caisson::layer

int main() {
  // Exec made us readable to whoever has our id: undone before anything else.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::prctl(PR_SET_NAME, "caisson-layer", 0, 0, 0);
  ::umask(0);
  try {
    caisson::layer::take_walls();
    return caisson::layer::serve();
  } catch (const std::exception&) {
    return 2;  // no memory: the host sees that we are gone
  }
}
