// A sandbox of the microVM tier as a launcher makes it: a carrier, a monitor in its jail beside it,
// and our init in the machine. The root is a tiny one, in the place where the image of the host
// would be made.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>

#include "engine/host/features.h"
#include "engine/launcher/core.h"
#include "engine/microvm/images.h"
#include "engine/plan.h"
#include "microvm_kit.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;

// The image that a launch with the host's root will ask for.
void place_image(const MachineKit& kit) {
  std::string skeleton;
  for (const auto& one : fs::directory_iterator(kit.path() + "/layers")) {
    const std::string name = one.path().filename();
    if (!name.starts_with("seam")) skeleton = "layers/" + name + "/fs";
  }
  const std::string folder = kit.path() + "/vm/images";
  fs::create_directories(folder);
  fs::copy_file(kit.path() + "/image.erofs",
                folder + "/" + microvm::ImageShelf::name_of({}, skeleton, ""),
                fs::copy_options::overwrite_existing);
}

class MicrovmLaunch : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_machines(); !why.empty()) GTEST_SKIP() << why;
    engine::native::TierOptions options;
    options.host = engine::probe_host();
    options.state_dir = MachineKit::get().path();
    ASSERT_EQ(::chmod(options.state_dir.c_str(), 0755), 0);
    auto core = engine::LauncherCore::open(std::move(options));
    ASSERT_TRUE(core) << core.error().message;
    core_.emplace(std::move(*core));
  }

  engine::LaunchRequest request() {
    auto spec = engine::default_spec();
    spec.tier = policy::SandboxTier::Microvm;
    auto planned = must_have(engine::plan(spec, core_->host()));
    engine::LaunchRequest wish = planned.request;
    wish.id = must_have(SandboxId::random()).str();
    wish.folders.clear();
    wish.limits.memory_bytes = 256ULL << 20U;
    return wish;
  }

  struct Box {
    std::string id;
    std::unique_ptr<engine::GuestSession> session;
  };
  Result<Box> launch(const engine::LaunchRequest& wish) {
    // The skeleton is made by the first launch, and names the image.
    if (!fs::exists(MachineKit::get().path() + "/vm/images")) {
      engine::LaunchRequest native = wish;
      native.tier = policy::SandboxTier::Native;
      auto first = core_->launch(native, {});
      if (!first) return std::unexpected(first.error());
      if (auto gone = core_->destroy(first->id); !gone) return std::unexpected(gone.error());
    }
    place_image(MachineKit::get());
    auto made = core_->launch(wish, {});
    if (!made) return std::unexpected(made.error());
    auto session = engine::GuestSession::connect(std::move(made->stream), made->nonce,
                                                 std::chrono::seconds(60));
    if (!session) {
      auto status = core_->status(made->id);
      Error why = session.error();
      if (status) why.message += "; " + status->detail;
      return std::unexpected(why);
    }
    return Box{made->id, std::move(*session)};
  }

  static Result<engine::ExecResult> run(engine::GuestSession& session, std::string script) {
    engine::ExecRequest command;
    command.argv = {"/bin/sh", "-c", std::move(script)};
    command.env = {"PATH=/bin"};
    command.user = {1000, 1000};
    command.timeout = std::chrono::seconds(30);
    return session.execute(command);
  }

  std::optional<engine::LauncherCore> core_;
};

// Processes whose command line has `word` in it.
std::vector<int> processes_with(const std::string& word) {
  std::vector<int> found;
  for (const auto& one : fs::directory_iterator("/proc")) {
    const std::string name = one.path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::ifstream file(one.path() / "cmdline");
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    if (words.find(word) != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

TEST_F(MicrovmLaunch, RunsCommandsAndLeavesNothing) {
  const auto before = processes_with("/fdset/");
  const auto began = Clock::now();
  auto box = launch(request());
  ASSERT_TRUE(box) << box.error().message;
  std::cout << "ready after " << std::chrono::duration<double>(Clock::now() - began).count()
            << " s\n";
  auto done = run(*box->session, "id -u; echo f >/workspace/x; cat /workspace/x");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out, "1000\nf\n");
  done = run(*box->session, "kill -9 $$");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->signal, 9);
  done = run(*box->session, "mount -t tmpfs x /tmp; echo $?");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_NE(done->out, "0\n");
  EXPECT_EQ(processes_with("/fdset/").size(), before.size() + 1);
  const auto status = core_->status(box->id);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->end, engine::EndReason::Running);
  ASSERT_TRUE(core_->destroy(box->id));
  EXPECT_EQ(processes_with("/fdset/").size(), before.size());
  std::size_t disks = 0;
  for (const auto& one : fs::directory_iterator(MachineKit::get().path() + "/vm/disks"))
    if (!one.path().filename().string().starts_with("empty-")) ++disks;
  EXPECT_EQ(disks, 0U);
}

TEST_F(MicrovmLaunch, StandsStillAndGoesOn) {
  auto box = launch(request());
  ASSERT_TRUE(box) << box.error().message;
  ASSERT_TRUE(core_->freeze(box->id));
  ASSERT_TRUE(core_->thaw(box->id));
  const auto done = run(*box->session, "echo on");
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out, "on\n");
  EXPECT_TRUE(core_->destroy(box->id));
}

TEST_F(MicrovmLaunch, RefusesByNameWhatItCannotHold) {
  auto wish = request();
  wish.persistent = true;
  wish.storage = engine::Storage::Disk;
  auto refused = core_->launch(wish, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Unsupported) << refused.error().message;
  wish = request();
  wish.limits.memory_bytes = 16ULL << 20U;
  refused = core_->launch(wish, {});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("microVM"), std::string::npos) << refused.error().message;
}

// The record says what ran it.
TEST_F(MicrovmLaunch, IsOnRecord) {
  place_image(MachineKit::get());
  const auto made = core_->launch(request(), {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->record.tier, "microvm");
  EXPECT_NE(made->record.kernel.find("qemu"), std::string::npos) << made->record.kernel;
  EXPECT_NE(made->record.kernel.find("emulated"), std::string::npos) << made->record.kernel;
  EXPECT_TRUE(core_->destroy(made->id));
}

}  // namespace
}  // namespace caisson::test
