// A machine in which programs run is kept: it goes on, and so do copies of it, each from where it
// stood and none of them as another's twin.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "engine/microvm/saved.h"
#include "microvm_kit.h"

namespace caisson::test {
namespace {

namespace fs = std::filesystem;

constexpr int kPings = 400;  // some tenth of a second of the guest's time

TimePoint in_a_minute() { return Clock::now() + std::chrono::seconds(60); }

std::string run(engine::GuestSession& session, const std::string& script, bool background = false) {
  engine::ExecRequest command;
  command.argv = {"/bin/sh", "-c", script};
  command.env = {"PATH=/bin"};
  command.user = {1000, 1000};
  command.timeout = std::chrono::seconds(30);
  command.keep_background = background;
  const auto done = session.execute(command);
  return done ? done->out + done->err : done.error().message;
}

int number_in(const std::string& text) { return std::atoi(text.c_str()); }

class MicrovmSaved : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_machines(); !why.empty()) GTEST_SKIP() << why;
    engine::LaunchRequest request;
    request.hostname = "first";
    box_.emplace(BareMachine::Options{.request = request});
    ASSERT_EQ(box_->configure(in_a_minute()), "");
    auto session = box_->session(in_a_minute());
    ASSERT_NE(session, nullptr);
    // Each turn says who it is and draws a number of the kernel's.
    ASSERT_EQ(run(*session,
                  "n=0; while :; do n=$((n+1)); echo $n >/tmp/n; hostname >>/tmp/names; "
                  "head -c 4 /dev/urandom | od -An -tx4 >>/tmp/drawn; done >/dev/null 2>&1 &",
                  true),
              "");
    while (number_in(run(*session, "cat /tmp/n")) < 3) {
    }
    session_ = std::move(session);
  }

  // What a launcher does, by hand; what went wrong, or nothing.
  std::string save(BareMachine& box, const std::string& name) {
    const std::string path = MachineKit::get().path() + "/" + name;
    fs::create_directory(path);
    folders_[name] = must_have(sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
    if (!box.say(wire::Kind::Hold, {})) return "the stream takes nothing";
    if (const auto why = box.expect(wire::Kind::Done, in_a_minute()); !why.empty()) return why;
    auto& machine = box.machine();
    must_have(machine.stop(in_a_minute()));
    const auto devices = must_have(microvm::save_devices(machine, in_a_minute()));
    const microvm::StandingMachine standing{devices.get(), machine.memory(), box.upper()};
    must_have(microvm::check_size(standing));
    const auto began = Clock::now();
    auto child = must_have(
        microvm::begin_keeping(standing, {"runtime", "shape", "image", "mark"}, folder(name)));
    const auto ended = must_have(child.wait());
    std::cout << "copied in " << std::chrono::duration<double>(Clock::now() - began).count()
              << " s\n";
    if (ended.code != 0) return microvm::why_not_kept(folder(name)).message;
    must_have(machine.go_on(in_a_minute()));
    return {};
  }

  [[nodiscard]] int folder(const std::string& name) const { return folders_.at(name).get(); }

  // A machine that goes on from there, and hears who it is after so many words of the carrier.
  std::unique_ptr<BareMachine> copy(const std::string& name, const std::string& hostname,
                                    int pings) {
    const auto saved = must_have(microvm::open_saved(folder(name)));
    disks_.push_back(
        must_have(microvm::copy_disk(MachineKit::get().store().disks(), saved.disk.get())));
    const auto began = Clock::now();
    auto box = std::make_unique<BareMachine>(BareMachine::Options{.start = microvm::Start::Clone,
                                                                  .memory_of = saved.memory.get(),
                                                                  .upper = disks_.back().get(),
                                                                  .state = saved.devices.get()});
    EXPECT_EQ(box->configure(in_a_minute()), "");
    std::cout << "a copy answered after "
              << std::chrono::duration<double>(Clock::now() - began).count() << " s\n";
    for (int i = 0; i < pings; ++i) {
      const std::array<char, sizeof(wire::ResetBody)> token{};
      EXPECT_TRUE(box->say(wire::Kind::Reset, token));
      EXPECT_EQ(box->expect(wire::Kind::Resumed, in_a_minute()), "");
      EXPECT_EQ(box->expect(wire::Kind::Hello, in_a_minute()), "");
    }
    wire::IdentityBody identity{};
    must_have(sys::random_bytes(std::as_writable_bytes(std::span(identity.seed))));
    identity.hostname_size = static_cast<std::uint32_t>(hostname.size());
    std::string body(reinterpret_cast<const char*>(&identity), sizeof(identity));
    EXPECT_TRUE(box->say(wire::Kind::Identity, body + hostname));
    EXPECT_EQ(box->expect(wire::Kind::Done, in_a_minute()), "");
    return box;
  }

  // What the program has done since: until it has gone on by some turns.
  static void await_turns(engine::GuestSession& session) {
    const int now = number_in(run(session, "cat /tmp/n"));
    while (number_in(run(session, "cat /tmp/n")) < now + 3) {
    }
  }

  static int count(engine::GuestSession& session, const std::string& name) {
    return number_in(run(session, "grep -c '^" + name + "$' /tmp/names"));
  }

  std::optional<BareMachine> box_;
  std::unique_ptr<engine::GuestSession> session_;
  std::map<std::string, UniqueFd> folders_;
  std::vector<UniqueFd> disks_;
};

TEST_F(MicrovmSaved, GoesOnAndSoDoCopiesEachAsItself) {
  session_.reset();
  ASSERT_EQ(save(*box_, "one"), "");
  ASSERT_TRUE(box_->say(wire::Kind::Release, {}));
  auto original = box_->session(in_a_minute());
  ASSERT_NE(original, nullptr);
  await_turns(*original);
  EXPECT_EQ(run(*original, "hostname"), "first\n");

  auto soon = copy("one", "soon", 0);
  auto late = copy("one", "late", kPings);
  auto one = soon->session(in_a_minute());
  auto two = late->session(in_a_minute());
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  await_turns(*one);
  await_turns(*two);
  // Nobody ran in a copy before it knew who it was, however long that took.
  EXPECT_EQ(count(*one, "first"), count(*two, "first"));
  EXPECT_GT(count(*one, "soon"), 0);
  EXPECT_GT(count(*two, "late"), 0);
  const std::string drawn = "tail -n +" + std::to_string(count(*one, "first") + 2) + " /tmp/drawn";
  EXPECT_NE(run(*one, drawn + " | head -n 1"), run(*two, drawn + " | head -n 1"));

  // And a copy of a copy.
  one.reset();
  ASSERT_EQ(save(*soon, "two"), "");
  auto third = copy("two", "third", 0);
  auto three = third->session(in_a_minute());
  ASSERT_NE(three, nullptr);
  await_turns(*three);
  EXPECT_GT(count(*three, "soon"), 0);
  EXPECT_GT(count(*three, "third"), 0);
}

}  // namespace
}  // namespace caisson::test
