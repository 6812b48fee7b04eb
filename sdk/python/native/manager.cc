#include "native/manager.h"

#include <unistd.h>

#include <new>
#include <utility>

#include "native/errors.h"
#include "native/interruptible.h"
#include "native/values.h"

namespace caisson::python {
namespace {

namespace py = pybind11;

// A command's output need not be text: what is no UTF-8 shows as U+FFFD.
py::str text_of(const std::string& bytes) {
  PyObject* text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

py::dict arguments_of(const control::ExecutionResult& result) {
  const control::ResourceUsage& usage = result.resource_usage;
  return py::dict(
      py::arg("exit_code") = result.exit_code, py::arg("stdout") = text_of(result.out),
      py::arg("stderr") = text_of(result.err), py::arg("duration_ms") = result.duration_ms,
      py::arg("resource_usage") =
          py::dict(py::arg("cpu_seconds") = usage.cpu_seconds,
                   py::arg("peak_memory_mb") = usage.peak_memory_mb,
                   py::arg("tokens_used") = usage.tokens_used, py::arg("cost_usd") = usage.cost_usd,
                   py::arg("elapsed_seconds") = result.duration_ms / 1000),
      py::arg("stdout_lost") = result.out_lost, py::arg("stderr_lost") = result.err_lost,
      py::arg("timed_out") = result.timed_out, py::arg("oom_killed") = result.oom_killed,
      py::arg("breach") = result.breach);
}

// Letting go waits until the launcher is gone, and the one who does it last may hold the GIL.
void let_go(control::SandboxManager* manager) {
  if (PyGILState_Check() == 0) {
    delete manager;
    return;
  }
  const py::gil_scoped_release others_run;
  delete manager;
}

// Calls the library without the GIL, and raises what it says.
template <class Call>
auto unlocked(const Call& call) {
  auto result = [&] {
    const py::gil_scoped_release others_run;
    return call();
  }();
  return value_of(std::move(result));
}

}  // namespace

Manager::Manager(std::string program, std::string state_dir,
                 std::optional<std::string> current_folder)
    : owner_(::getpid()) {
  control::SandboxManager::Options options;
  options.program = std::move(program);
  options.state_dir = std::move(state_dir);
  options.current_folder = std::move(current_folder);
  auto opened = unlocked([&] { return control::SandboxManager::open(std::move(options)); });
  manager_ = Shared(opened.release(), let_go);
}

Manager::~Manager() { (void)take(); }

// In a forked child the launcher is the parent's: to let go of our copy properly would end it.
Manager::Shared Manager::take() noexcept {
  if (::getpid() != owner_) {
    (void)new (std::nothrow) Shared(std::move(manager_));
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  return std::exchange(manager_, nullptr);
}

Manager::Shared Manager::open() {
  if (::getpid() != owner_) {
    raise_sandbox_error({Errc::Gone, "this SandboxManager belongs to process " +
                                         std::to_string(owner_) +
                                         "; a forked process makes one of its own"});
  }
  const std::scoped_lock lock(mutex_);
  if (!manager_) raise_sandbox_error({Errc::Gone, "this SandboxManager is closed; make a new one"});
  return manager_;
}

void Manager::close() {
  const Shared mine = take();
  if (!mine) return;
  const py::gil_scoped_release others_run;
  // Those who still wait for a command hold the manager; without its sandbox they come back.
  for (const std::string& id : mine->list().value_or(std::vector<std::string>())) {
    (void)mine->destroy(id);
  }
}

std::string Manager::create_sandbox(const py::handle& capability) {
  const Shared manager = open();
  const policy::CapabilityDeclaration declared = read_capability(capability);
  return unlocked([&] { return manager->create_sandbox(declared); });
}

py::dict Manager::execute(const std::string& id, const std::vector<std::string>& argv,
                          std::int64_t timeout_ms, std::vector<std::string> env, std::string input,
                          std::optional<std::string> workdir, std::uint32_t output_bytes_max) {
  const Shared manager = open();
  control::ExecuteOptions options;
  options.timeout = milliseconds(timeout_ms);
  options.env = std::move(env);
  options.input = std::move(input);
  options.workdir = std::move(workdir);
  options.output_bytes_max = output_bytes_max;
  auto result = interruptible([&](const std::stop_token& stop) {
    options.stop = stop;
    return manager->execute(id, argv, options);
  });
  return arguments_of(value_of(std::move(result)));
}

void Manager::destroy(const std::string& id) {
  const Shared manager = open();
  unlocked([&] { return manager->destroy(id); });
}

std::string Manager::status(const std::string& id) {
  const Shared manager = open();
  return engine::to_string(unlocked([&] { return manager->status(id); }).end);
}

std::vector<std::string> Manager::list() {
  const Shared manager = open();
  return unlocked([&] { return manager->list(); });
}

std::shared_ptr<policy::ResourceMonitor> Manager::monitor(const std::string& id) {
  return value_of(open()->monitor(id));
}

pid_t Manager::launcher_pid() { return open()->launcher_pid(); }

}  // namespace caisson::python
