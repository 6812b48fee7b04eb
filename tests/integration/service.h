// A launcher as a service, on a state directory of its own: started as an administrator would start
// it, found by its socket, ended with the test.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/launcher/client.h"
#include "engine/launcher/rendezvous.h"
#include "engine/link/guest_session.h"
#include "engine/plan.h"
#include "tests/integration/program.h"
#include "tests/security/host_view.h"

namespace caisson::test {

inline TimePoint soon() { return Clock::now() + seconds(30); }

// Below /var/tmp, passable for other users.
class StateFolder {
 public:
  StateFolder() {
    char name[] = "/var/tmp/caisson-service-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("no folder");
    path_ = name;
    ::chmod(name, 0711);
  }
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;
  ~StateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string socket() const { return engine::launcher_socket(path_); }
  void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + "/" + name).parent_path());
    std::ofstream(path_ + "/" + name) << text;
    ::chmod((path_ + "/" + name).c_str(), mode);
  }
  // What of this launcher's sandboxes is on record: ids in the slot table.
  [[nodiscard]] std::set<std::string> recorded() const {
    const std::string table = text_of(path_ + "/launcher/slots");
    std::set<std::string> ids;
    for (std::size_t at = 0; at + 32 <= table.size(); at += 32) {
      if (table[at] != '\0') ids.insert(std::string(table.c_str() + at));
    }
    return ids;
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_))
      found.insert(entry.path().string());
    return found;
  }

 private:
  std::string path_;
};

inline bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0 && !is_zombie(std::to_string(pid)); }

inline std::optional<pid_t> parent_of(pid_t pid) {
  const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  return static_cast<pid_t>(std::stoi(stat.substr(end + 4)));
}

class LauncherService {
 public:
  explicit LauncherService(const StateFolder& state, std::vector<std::string> more = {})
      : state_(state) {
    std::vector<std::string> words{"launcher", "--service", "--state-dir", state.path()};
    words.insert(words.end(), more.begin(), more.end());
    keeper_.emplace(words);
    // The socket appears before the first worker; whoever connects then waits for it.
    if (!eventually([&] { return std::filesystem::exists(state.socket()); }, seconds(30)))
      throw std::runtime_error("the launcher does not start");
  }
  [[nodiscard]] std::unique_ptr<engine::LauncherClient> attach() const {
    // Where an older one was killed its socket may still be there.
    Result<std::unique_ptr<engine::LauncherClient>> client;
    (void)eventually([&] {
      client = engine::LauncherClient::attach(state_.socket(), soon());
      return client.has_value();
    });
    if (!client) throw std::runtime_error(client.error().message);
    return std::move(*client);
  }
  [[nodiscard]] Program& keeper() { return *keeper_; }
  [[nodiscard]] const StateFolder& state() const noexcept { return state_; }

 private:
  const StateFolder& state_;
  std::optional<Program> keeper_;
};

inline engine::LaunchRequest plain_request() { return engine::default_spec().request; }

// A sandbox whose owner is the test: launched, greeted.
struct Guest {
  std::string id;
  pid_t init = 0;
  std::unique_ptr<engine::GuestSession> session;
};

inline Guest greet(std::string id, pid_t init, UniqueFd stream, const engine::Nonce& nonce) {
  auto session = engine::GuestSession::connect(std::move(stream), nonce);
  if (!session) throw std::runtime_error(session.error().message);
  return {std::move(id), init, std::move(*session)};
}

inline Guest launch(engine::LauncherClient& client,
                    const engine::LaunchRequest& request = plain_request()) {
  auto reply = client.launch(request, {});
  if (!reply) throw std::runtime_error(reply.error().message);
  return greet(reply->id, reply->init_pid, std::move(reply->stream), reply->nonce);
}

inline engine::ExecRequest shell(const std::string& script) {
  engine::ExecRequest request;
  request.argv = {"/bin/sh", "-c", script};
  request.env = {"PATH=/usr/bin:/bin"};
  request.user = {1000, 1000};
  return request;
}

inline std::string say(Guest& guest, const std::string& script) {
  const auto done = guest.session->execute(shell(script));
  return done ? done->out : "failed: " + done.error().message;
}

}  // namespace caisson::test
