// engine/native/head_start.h — a second thread for a single run: it makes what every run needs
// while the first one still reads options, looks at the host and plans.
//
// A network and an empty mount namespace come first, because they take longest and need to know
// nothing; then the template of /dev. Then it takes one errand, for what is known by then and lies
// beside the way of the first, and makes what is needed last. A head start that fails is no failure
// of the run: everything is made again in the ordinary way, and the reason appears there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/native/child.h"
#include "sys/namespace.h"

namespace caisson::engine::native {

// What every sandbox of the host image shares, but for its files.
struct HostParts {
  UniqueFd init;
  UniqueFd null;
  std::vector<ChildMask> masks;  // those parts of /proc that this kernel has
};
// The host's own that go into them: to be opened before one leaves its mounts.
struct HostFiles {
  UniqueFd null;
  UniqueFd proc;
};
[[nodiscard]] Result<HostFiles> open_host_files();
[[nodiscard]] Result<HostParts> make_host_parts(HostFiles files);

// The state directory and its folders, made where they are missing.
[[nodiscard]] Result<UniqueFd> open_state_dir(const std::string& path, bool privileged);

class HeadStart {
 public:
  using Errand = std::function<Result<void>()>;

  // Only for root. None where no thread can be had.
  [[nodiscard]] static std::unique_ptr<HeadStart> begin();
  HeadStart(const HeadStart&) = delete;
  HeadStart& operator=(const HeadStart&) = delete;
  ~HeadStart();

  // Each once; they wait.
  [[nodiscard]] Result<sys::Surroundings> surroundings();
  [[nodiscard]] Result<UniqueFd> devices();
  [[nodiscard]] Result<HostParts> parts();
  // Once. What the errand touches is the second thread's until done() has said how it went.
  void send(Errand errand);
  [[nodiscard]] Result<void> done();

 private:
  struct Work;
  HeadStart();
  std::unique_ptr<Work> work_;
};

}  // namespace caisson::engine::native
