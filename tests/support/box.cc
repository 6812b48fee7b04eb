#include "tests/support/box.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "sys/file.h"

namespace caisson::test {
namespace {

std::string variable(const char* name, const std::string& otherwise) {
  const char* value =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): set before the tests begin
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string beside(const char* up) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / up)
      .lexically_normal()
      .string();
}

// Removed when the test program ends, after its manager.
struct StateDir {
  std::string path;
  bool ours = false;
  StateDir() {
    path = variable("CAISSON_STATE_DIR", "");
    if (!path.empty()) return;
    char name[] = "/var/tmp/caisson-test-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("no folder for the state directory");
    path = name;
    ours = true;
  }
  StateDir(const StateDir&) = delete;
  StateDir& operator=(const StateDir&) = delete;
  ~StateDir() {
    std::error_code ignored;
    if (ours) std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

const std::string& state_dir() {
  static const StateDir dir;
  return dir.path;
}

std::string caisson_program() { return variable("CAISSON_BIN", beside("../bin")) + "/caisson"; }
std::string payload(const std::string& name) {
  return variable("CAISSON_PAYLOAD", beside("payload")) + "/" + name;
}

control::SandboxManager& manager() {
  (void)state_dir();  // made before, so removed after
  static const std::unique_ptr<control::SandboxManager> only = [] {
    control::SandboxManager::Options options;
    options.program = caisson_program();
    options.state_dir = state_dir();
    auto made = control::SandboxManager::open(std::move(options));
    if (!made) throw std::runtime_error("the library does not start: " + made.error().message);
    return std::move(*made);
  }();
  return *only;
}

void show_payloads(control::LocalSpec& local) {
  const std::string folder = std::filesystem::path(payload("x")).parent_path().string();
  auto fd = sys::open_at(AT_FDCWD, folder, O_PATH | O_DIRECTORY);
  if (!fd) throw std::runtime_error(fd.error().message);
  local.spec.request.folders.push_back({folder, engine::FolderMode::ReadOnly});
  local.folders.push_back(std::move(*fd));
}

Box::Box(const std::function<void(control::LocalSpec&)>& change) {
  control::LocalSpec local;
  local.spec = engine::default_spec();
  local.workdir = "/workspace";
  if (change) change(local);
  auto made = manager().create_sandbox(std::move(local));
  if (!made) {
    ADD_FAILURE() << "no sandbox: " << made.error().message;
    throw std::runtime_error(made.error().message);
  }
  id_ = std::move(*made);
  session_ = manager().session(id_).value();
}

Box::~Box() {
  session_.reset();
  if (!id_.empty()) (void)manager().destroy(id_);
}

void Box::destroy() {
  session_.reset();
  const auto gone = manager().destroy(std::exchange(id_, {}));
  EXPECT_TRUE(gone) << (gone ? "" : gone.error().message);
}

control::ExecutionResult Box::run(const std::vector<std::string>& argv,
                                  const control::ExecuteOptions& options) {
  auto result = manager().execute(id_, argv, options);
  if (result) return std::move(*result);
  ADD_FAILURE() << argv.front() << ": " << result.error().message;
  return {};
}

control::ExecutionResult Box::sh(const std::string& script,
                                 const control::ExecuteOptions& options) {
  return run({"/bin/sh", "-c", script}, options);
}

control::ExecutionResult Box::python(const std::string& script,
                                     const control::ExecuteOptions& options) {
  return run({"/usr/bin/python3", "-I", "-c", script}, options);
}

engine::GuestSession& Box::session() { return *session_; }
engine::Status Box::status() { return manager().status(id_).value(); }

}  // namespace caisson::test
