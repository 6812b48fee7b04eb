// A machine that has booted is copied: each copy answers soon, with its own name, disk and random
// bytes.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>

#include "engine/microvm/templates.h"
#include "microvm_kit.h"

namespace caisson::test {
namespace {

TimePoint in_a_minute() { return Clock::now() + std::chrono::seconds(60); }

double seconds_since(TimePoint began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

std::string frame(wire::Kind kind, std::string_view body) {
  const wire::FrameHeader header{static_cast<std::uint32_t>(body.size()),
                                 static_cast<std::uint16_t>(kind), 0, 0};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)).append(body);
}

std::string first_words() {
  const wire::ControlHeader header{wire::kVersion,
                                   static_cast<std::uint32_t>(wire::ControlKind::Config)};
  wire::InitConfig config{};
  config.flags = wire::kConfigGroups | wire::kConfigOom | wire::kConfigRaiseOomScore;
  config.open_files = 256;
  std::string body(reinterpret_cast<const char*>(&header), sizeof(header));
  body.append(reinterpret_cast<const char*>(&config), sizeof(config));
  return frame(wire::Kind::Configure, body) + frame(wire::Kind::Hold, "");
}

class MicrovmTemplate : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_machines(); !why.empty()) GTEST_SKIP() << why;
    MachineKit& kit = MachineKit::get();
    engine::LaunchRequest request;
    request.limits.memory_bytes = 256ULL << 20U;
    auto upper = must_have(microvm::make_disk(kit.store().disks(), request.limits.disk_bytes,
                                              request.limits.disk_files, kit.null()));
    const auto record = must_have(microvm::boot_record(request, {}));
    const auto initramfs = must_have(kit.store().initramfs_with(record));
    const UniqueFd kernel = must_have(kit.store().kernel());
    microvm::MachineParts parts;
    parts.plan =
        must_have(microvm::plan_machine(request.limits, microvm::Accelerator::Emulated, kit.khz()));
    parts.kernel = kernel.get();
    parts.initramfs = initramfs;
    parts.image = kit.image();
    parts.null = kit.null();
    parts.disk_bytes = request.limits.disk_bytes;
    const std::string words = first_words();
    must_have(shelf_.begin("kind", parts, std::move(upper), std::as_bytes(std::span(words))));
    EXPECT_TRUE(shelf_.knows("kind"));
    const auto finished = shelf_.finish(in_a_minute());
    ASSERT_TRUE(finished) << finished.error().message;
    ASSERT_NE(shelf_.find("kind"), nullptr) << shelf_.why();
  }

  // A copy, and how long it took to answer.
  std::unique_ptr<BareMachine> copy(double& took) {
    const microvm::Template* from = shelf_.find("kind");
    const auto began = Clock::now();
    const auto upper =
        must_have(microvm::copy_disk(MachineKit::get().store().disks(), from->upper.get()));
    const auto devices = must_have(sys::reopen(from->devices.get()));
    auto box = std::make_unique<BareMachine>(BareMachine::Options{.start = microvm::Start::Clone,
                                                                  .memory_of = from->memory.get(),
                                                                  .upper = upper.get(),
                                                                  .state = devices.get()});
    const std::string why = box->configure(in_a_minute());
    took = seconds_since(began);
    EXPECT_EQ(why, "");
    wire::IdentityBody identity{};
    must_have(sys::random_bytes(std::as_writable_bytes(std::span(identity.seed))));
    identity.hostname_size = 5;
    std::string body(reinterpret_cast<const char*>(&identity), sizeof(identity));
    EXPECT_TRUE(box->say(wire::Kind::Identity, body + "copy" + std::to_string(++copies_)));
    EXPECT_EQ(box->expect(wire::Kind::Done, in_a_minute()), "");
    return box;
  }

  static std::string run(engine::GuestSession& session, const std::string& script) {
    engine::ExecRequest command;
    command.argv = {"/bin/sh", "-c", script};
    command.env = {"PATH=/bin"};
    command.user = {1000, 1000};
    command.timeout = std::chrono::seconds(30);
    const auto done = session.execute(command);
    return done ? done->out + done->err : done.error().message;
  }

  microvm::TemplateShelf shelf_;
  int copies_ = 0;
};

TEST_F(MicrovmTemplate, CopiesAreNoTwins) {
  double first_took = 0;
  double second_took = 0;
  auto first = copy(first_took);
  auto second = copy(second_took);
  std::cout << "copies answered after " << first_took << " and " << second_took << " s\n";
  auto one = first->session(in_a_minute());
  auto two = second->session(in_a_minute());
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(run(*one, "hostname"), "copy1\n");
  EXPECT_EQ(run(*two, "hostname"), "copy2\n");
  const std::string random = "head -c 16 /dev/urandom | od -An -tx1";
  EXPECT_NE(run(*one, random), run(*two, random));
  EXPECT_EQ(run(*one, "echo mine >/workspace/f; cat /workspace/f"), "mine\n");
  EXPECT_EQ(run(*two, "ls /workspace"), "");
}

TEST_F(MicrovmTemplate, CanBeCopiedAgainAndAgain) {
  for (int i = 0; i < 5; ++i) {
    double took = 0;
    auto box = copy(took);
    std::cout << "answered after " << took << " s\n";
    auto session = box->session(in_a_minute());
    ASSERT_NE(session, nullptr);
    EXPECT_EQ(run(*session, "echo x >/tmp/f && cat /tmp/f"), "x\n");
  }
}

}  // namespace
}  // namespace caisson::test
