// The words of the layer tool, taken apart; and what becomes of one that says nothing.
#include "control/layer_works.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/fleet_fixture_test.h"

namespace caisson::control {
namespace {

using test::FakeAnswer;
using test::FakeJob;
using test::FakeLauncher;
using test::FakeWorld;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(LayerAnswers, ComeInAnyPieces) {
  const std::string all = FakeAnswer()
                              .word(wire::AnswerKind::Progress, wire::LayerProgress{1, 2, 3})
                              .entry(wire::EntryKind::Added, "a/b", 7, 512)
                              .entry(wire::EntryKind::Removed, "/c")
                              .done()
                              .bytes;
  for (std::size_t size = 1; size <= all.size(); ++size) {
    LayerAnswers answers(10);
    int told = 0;
    answers.progress = [&](const wire::LayerProgress& at) { told += at.entries == 3 ? 1 : 0; };
    bool over = false;
    for (std::size_t at = 0; at < all.size(); at += size) {
      const auto taken = answers.take(bytes_of(all.substr(at, size)));
      ASSERT_TRUE(taken) << taken.error().message;
      over = *taken;
    }
    EXPECT_TRUE(over);
    EXPECT_EQ(told, 1);
    ASSERT_EQ(answers.outcome().entries.size(), 2U);
    EXPECT_EQ(answers.outcome().entries[0].path, "/a/b");
    EXPECT_EQ(answers.outcome().entries[0].size, 7U);
    EXPECT_EQ(answers.outcome().entries[0].offset, 512U);
    EXPECT_EQ(answers.outcome().entries[1].path, "/c");
  }
}

TEST(LayerAnswers, WhatIsNotInTheProtocolIsRefused) {
  const auto refused = [](const std::string& bytes) {
    LayerAnswers answers(10);
    const auto taken = answers.take(bytes_of(bytes));
    return !taken && taken.error().code == Errc::Protocol;
  };
  EXPECT_TRUE(refused(FakeAnswer().entry(wire::EntryKind::Added, "../x").bytes));
  EXPECT_TRUE(refused(FakeAnswer().entry(wire::EntryKind::Added, "a//b").bytes));
  EXPECT_TRUE(refused(FakeAnswer().entry(wire::EntryKind::Added, "").bytes));
  EXPECT_TRUE(refused(FakeAnswer().entry(wire::EntryKind::Added, std::string("a\0b", 3)).bytes));
  EXPECT_TRUE(refused(FakeAnswer().entry(wire::EntryKind::Added, std::string(5000, 'a')).bytes));
  EXPECT_TRUE(refused(FakeAnswer().entry(static_cast<wire::EntryKind>(99), "a").bytes));
  EXPECT_TRUE(refused(FakeAnswer().raw(static_cast<wire::AnswerKind>(9), "x").bytes));
  EXPECT_TRUE(refused(FakeAnswer().raw(wire::AnswerKind::Done, "short").bytes));
  EXPECT_TRUE(refused(FakeAnswer().done().done().bytes));
  wire::JobHeader huge{wire::kLayerVersion, 1, wire::kLayerAnswerMax + 1};
  EXPECT_TRUE(refused(std::string(reinterpret_cast<const char*>(&huge), sizeof(huge))));
  wire::JobHeader foreign{wire::kLayerVersion + 1, 1, 0};
  EXPECT_TRUE(refused(std::string(reinterpret_cast<const char*>(&foreign), sizeof(foreign))));
}

TEST(LayerAnswers, OnlySoMuchIsKept) {
  LayerAnswers few(2);
  FakeAnswer many;
  for (int i = 0; i < 5; ++i) many.entry(wire::EntryKind::Added, "x" + std::to_string(i));
  ASSERT_TRUE(few.take(bytes_of(many.done().bytes)));
  EXPECT_EQ(few.outcome().entries.size(), 2U);
  EXPECT_TRUE(few.outcome().truncated);
  LayerAnswers long_ones(1'000'000);
  FakeAnswer one;
  std::string path = "d";
  while (path.size() < 3000) path += "/" + std::string(200, 'p');
  one.entry(wire::EntryKind::Added, path);
  for (std::size_t i = 0; i < kAnswerPathBytesMax / path.size() + 2; ++i)
    ASSERT_TRUE(long_ones.take(bytes_of(one.bytes)));
  EXPECT_TRUE(long_ones.outcome().truncated);
  EXPECT_LE(long_ones.outcome().entries.size() * path.size(), kAnswerPathBytesMax);
}

TEST(LayerAnswers, AFailureIsTold) {
  LayerAnswers answers(1);
  const auto taken =
      answers.take(bytes_of(FakeAnswer().failed(wire::LayerError::NoSpace, "no \xff room").bytes));
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Errc::Exhausted);
  EXPECT_NE(taken.error().message.find("room"), std::string::npos);
}

class LayerWorksTest : public testing::Test {
 protected:
  LayerWorksTest()
      : works_(context_.get_executor(), milliseconds(50)),
        launcher_(context_.get_executor(), world_, {}) {
    works_.use(launcher_);
  }
  Result<LayerResult> run(LayerJob job) {
    std::optional<Result<LayerResult>> out;
    boost::asio::co_spawn(
        context_, works_.run(std::move(job)),
        [&](const std::exception_ptr&, Result<LayerResult> result) { out = std::move(result); });
    const TimePoint limit = Clock::now() + seconds(20);
    while (!out && Clock::now() < limit) {
      context_.restart();
      context_.run_one_for(milliseconds(100));
    }
    context_.restart();
    while (context_.poll() > 0) {
    }
    if (!out) return failure(Errc::TimedOut, "the test");
    return *std::move(out);
  }

  boost::asio::io_context context_{1};
  FakeWorld world_;
  LayerWorks works_;
  FakeLauncher launcher_;
};

TEST_F(LayerWorksTest, OneThatSaysNothingIsGivenUp) {
  world_.store.on_job = [](FakeJob&) {
    FakeAnswer out;
    out.silent = true;
    return out;
  };
  const auto result = run(LayerJob());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::TimedOut);
  EXPECT_TRUE(world_.boxes.empty());
}

TEST_F(LayerWorksTest, WhatIsNotToBeKeptGoes) {
  LayerJob job;
  job.layer = "new";
  job.keep = [](const LayerOutcome&) -> Result<bool> { return false; };
  const auto result = run(std::move(job));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_FALSE(result->kept);
  EXPECT_TRUE(world_.store.layers.empty());
  EXPECT_TRUE(world_.boxes.empty());
  LayerJob good;
  good.layer = "new";
  ASSERT_TRUE(run(std::move(good))->kept);
  EXPECT_TRUE(world_.store.layers.contains("new"));
  works_.close();
  EXPECT_EQ(run(LayerJob()).error().code, Errc::Gone);
}

// An archive is written anew without any layer: the job is its two files, in this order.
TEST_F(LayerWorksTest, ASanitiserGetsItsTwoFilesAndNoMounts) {
  const UniqueFd in(::memfd_create("in", MFD_CLOEXEC));
  const UniqueFd out(::memfd_create("out", MFD_CLOEXEC));
  world_.store.on_job = [](FakeJob& job) {
    EXPECT_EQ(::write(job.out.get(), "tar", 3), 3);
    return FakeAnswer().entry(wire::EntryKind::Added, "f", 3, 512).done();
  };
  LayerJob job;
  job.kind = wire::JobKind::Sanitise;
  job.flags = wire::kJobNoLinks;
  job.entries_kept = 10;
  job.file = UniqueFd(::dup(in.get()));
  job.out = UniqueFd(::dup(out.get()));
  const auto result = run(std::move(job));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->outcome.entries.size(), 1U);
  EXPECT_EQ(result->outcome.entries[0].offset, 512U);
  struct stat facts{};
  ASSERT_EQ(::fstat(out.get(), &facts), 0);
  EXPECT_EQ(facts.st_size, 3);
  ASSERT_EQ(::fstat(in.get(), &facts), 0);
  EXPECT_EQ(facts.st_size, 0);
  ASSERT_EQ(world_.store.jobs.size(), 1U);
  EXPECT_EQ(world_.store.jobs[0].job.flags, std::uint32_t{wire::kJobNoLinks});
  EXPECT_TRUE(world_.store.jobs[0].request.store_mounts.empty());
  EXPECT_TRUE(world_.boxes.empty());
}

TEST_F(LayerWorksTest, HoldsAreCounted) {
  std::vector<std::string> released;
  works_.on_release([&](const std::string& name) { released.push_back(name); });
  auto first = works_.hold({"a", "b"});
  {
    const auto second = works_.hold({"b"});
    EXPECT_TRUE(works_.held("b"));
  }
  EXPECT_TRUE(works_.held("b"));
  first = LayerWorks::Hold();
  EXPECT_FALSE(works_.held("a"));
  EXPECT_EQ(released, (std::vector<std::string>{"a", "b"}));
}

TEST(Turns, AreTakenInOrder) {
  boost::asio::io_context context{1};
  Turns turns(context.get_executor(), 2);
  int inside = 0;
  int most = 0;
  std::vector<int> order;
  const auto visit = [&](int number) -> boost::asio::awaitable<void> {
    auto turn = co_await turns.take();
    most = std::max(most, ++inside);
    order.push_back(number);
    co_await boost::asio::post(context, boost::asio::use_awaitable);
    --inside;
  };
  for (int i = 0; i < 6; ++i) boost::asio::co_spawn(context, visit(i), boost::asio::detached);
  context.run();
  EXPECT_EQ(most, 2);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(turns.free(), 2U);
}

}  // namespace
}  // namespace caisson::control
