#include "engine/launcher/rendezvous.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sys/file.h"
#include "sys/process.h"
#include "sys/raw.h"

namespace caisson::engine {
namespace {

constexpr int kQueuedMax = 64;
constexpr seconds kOlderWait{10};
constexpr int kLookAgainMs = 20;

// A socket's address has room for 107 bytes, a state directory may be deeper: then its folder is
// named by descriptor.
class Address {
 public:
  static Result<Address> of(const std::string& path) {
    Address made;
    std::string text = path;
    if (path.size() >= sizeof(made.address_.sun_path)) {
      const std::size_t slash = path.rfind('/');
      made.folder_ = TRY(sys::open_at(AT_FDCWD, path.substr(0, slash + 1), O_PATH | O_DIRECTORY));
      text = "/proc/self/fd/" + std::to_string(made.folder_.get()) + path.substr(slash);
    }
    if (text.size() >= sizeof(made.address_.sun_path))
      return bad_field("state_dir", "the socket's name is too long: " + path);
    made.address_.sun_family = AF_UNIX;
    std::memcpy(made.address_.sun_path, text.c_str(), text.size() + 1);
    return made;
  }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address_);
  }
  static constexpr socklen_t kSize = sizeof(sockaddr_un);

 private:
  sockaddr_un address_{};
  UniqueFd folder_;
};

Result<UniqueFd> packet_socket() {
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return sys_failure("make a socket", errno);
  return made;
}

// Without its keeper a worker ends within moments, and then the lock is free.
bool keeper_lives(int lock) {
  const auto text = sys::read_again(lock, 64);
  const int pid = text ? std::atoi(text->c_str()) : 0;
  if (pid <= 0) return false;
  const UniqueFd keeper(sys::raw::pidfd_open(pid));
  if (!keeper) return false;
  const auto ended = sys::wait_ready(keeper.get(), POLLIN, Clock::now());
  return ended && !*ended;
}

Result<UniqueFd> take_lock(const std::string& state_dir) {
  const std::string path = state_dir + "/launcher/lock";
  UniqueFd lock = TRY(sys::open_at(AT_FDCWD, path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  const TimePoint deadline = Clock::now() + kOlderWait;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return sys_failure("lock " + path, errno);
    if (Clock::now() >= deadline || keeper_lives(lock.get()))
      return failure(Errc::Busy, "another launcher serves " + state_dir);
    (void)::poll(nullptr, 0, kLookAgainMs);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), pid.data(), pid.size(), 0) < 0)
    return sys_failure("write " + path, errno);
  return sys::park(std::move(lock));
}

}  // namespace

std::string launcher_socket(const std::string& state_dir) {
  return state_dir + "/run/launcher.sock";
}

Result<void> make_run_folder(const std::string& state_dir) {
  for (std::size_t at = state_dir.find('/', 1);; at = state_dir.find('/', at + 1)) {
    TRY(sys::make_dir(AT_FDCWD, state_dir.substr(0, at), 0755, sys::Existing::Accept));
    if (at == std::string::npos) break;
  }
  const UniqueFd dir = TRY(sys::open_at(AT_FDCWD, state_dir, O_RDONLY | O_DIRECTORY));
  if (::fchmod(dir.get(), 0711) != 0) return sys_failure("chmod " + state_dir, errno);
  TRY(sys::make_dir(dir.get(), "launcher", 0700, sys::Existing::Accept));
  TRY(sys::make_dir(dir.get(), "run", 0711, sys::Existing::Accept));
  return {};
}

Result<Rendezvous> Rendezvous::open(const std::string& state_dir, uid_t server) {
  TRY_IN("state directory " + state_dir, make_run_folder(state_dir));
  Rendezvous made;
  made.lock = TRY(take_lock(state_dir));
  made.path = launcher_socket(state_dir);
  UniqueFd socket = TRY(packet_socket());
  const Address address = TRY(Address::of(made.path));
  // We hold the lock: whoever left a socket here is gone.
  if (::unlink(made.path.c_str()) != 0 && errno != ENOENT)
    return sys_failure("remove " + made.path, errno);
  {
    const sys::ModeMask mask(0177);
    if (::bind(socket.get(), address.get(), Address::kSize) != 0)
      return sys_failure("bind " + made.path, errno);
  }
  if (::fchownat(AT_FDCWD, made.path.c_str(), server, static_cast<gid_t>(-1),
                 AT_SYMLINK_NOFOLLOW) != 0)
    return sys_failure("chown " + made.path, errno);
  if (::listen(socket.get(), kQueuedMax) != 0) return sys_failure("listen on " + made.path, errno);
  made.listener = TRY(sys::park(std::move(socket)));
  return made;
}

Result<UniqueFd> connect_launcher(const std::string& path) {
  UniqueFd socket = TRY(packet_socket());
  const Address address = TRY(Address::of(path));
  if (::connect(socket.get(), address.get(), Address::kSize) != 0) {
    const int reason = errno;
    if (reason == ENOENT || reason == ECONNREFUSED || reason == EAGAIN)
      return failure(Errc::LauncherGone, "no launcher answers at " + path);
    return sys_failure("connect to " + path, reason);
  }
  return socket;
}

}  // namespace caisson::engine
