#include "image/puller.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include "base/base64.h"
#include "image/puller_fixture_test.h"
#include "sys/file.h"

namespace caisson::image::test {
namespace {

using Pull = PullerFixture;

const std::string kLayerA(300000, 'a');
const std::string kLayerB(100, 'b');

TEST_F(Pull, BringsAnImage) {
  const std::string manifest = registry_.image({kLayerA, kLayerB, kLayerA}, "1");
  std::vector<ProgressKind> kinds;
  std::vector<std::string> layers(3);
  PullRequest request;
  request.reference = reference();
  request.progress = [&](const Progress& event) { kinds.push_back(event.kind); };
  request.on_layer = [&](LayerReady ready) -> awaitable<Result<void>> {
    EXPECT_EQ(ready.count, 3U);
    auto fd = std::move(ready.fd);
    if (!fd) {
      auto opened = co_await store_->open_verified(ready.layer.digest);
      if (!opened) co_return std::unexpected(opened.error());
      fd = std::move(*opened);
    }
    auto text = sys::read_again(fd.get(), 1 << 20);
    if (!text) co_return std::unexpected(text.error());
    layers[ready.index] = *text;
    co_return Result<void>();
  };
  const auto image = run(io_, puller().pull(std::move(request)));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->manifest_digest, digest_of(manifest));
  EXPECT_EQ(image->resolved, digest_of(manifest));
  EXPECT_EQ(layers, (std::vector<std::string>{kLayerA, kLayerB, kLayerA}));
  EXPECT_EQ(image->layers[0].diff_id, digest_of(kLayerA));
  EXPECT_EQ(kinds.front(), ProgressKind::Resolved);
  EXPECT_EQ(registry_.count(digest_of(kLayerA).str()), 1U) << "one layer twice comes once";
  EXPECT_EQ(blobs_of(*image).size(), 4U);
  // A second pull asks for the tag and nothing else.
  const std::size_t before = registry_.asked().size();
  ASSERT_TRUE(pull());
  EXPECT_EQ(registry_.asked().size(), before + 1);
  const auto loaded = run(io_, load_image(*store_, reference(), image->manifest_digest));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->layers.size(), 3U);
}

TEST_F(Pull, HoldsItsBlobsUntilItIsOnRecord) {
  registry_.image({kLayerA}, "1");
  auto image = pull();
  ASSERT_TRUE(image);
  auto removed = run(io_, store_->remove_unreferenced({}, seconds(0)));
  EXPECT_EQ(removed->blobs, 0U);
  image->pins.clear();
  removed = run(io_, store_->remove_unreferenced({}, seconds(0)));
  EXPECT_EQ(removed->blobs, 3U);
}

TEST_F(Pull, ConcurrentPullsShareEachBlob) {
  registry_.image({kLayerA, kLayerB}, "1");
  PullRequest request;
  request.reference = reference();
  Puller& one = puller();
  auto [a, b, c] = run_all<Result<PulledImage>, Result<PulledImage>, Result<PulledImage>>(
      io_, one.pull(request), one.pull(request), one.pull(request));
  EXPECT_TRUE(*a && *b && *c);
  EXPECT_EQ(registry_.count("/blobs/"), 3U);
}

TEST_F(Pull, WhoeverWaitedTriesWhenTheFirstFails) {
  registry_.image({kLayerA}, "1");
  int calls = 0;
  options_.attempts_max = 1;
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    const bool layer = asked.target.ends_with(digest_of(kLayerA).str());
    if (!layer || ++calls > 1) return std::nullopt;
    return Answer{500, {}, "", {}, false, {}, {}};
  });
  PullRequest request;
  request.reference = reference();
  auto [a, b] = run_all<Result<PulledImage>, Result<PulledImage>>(io_, puller().pull(request),
                                                                  puller().pull(request));
  EXPECT_NE(a->has_value(), b->has_value());
  EXPECT_EQ(calls, 2);
}

TEST_F(Pull, TriesAgainWhenTheRegistryIsBusy) {
  registry_.image({kLayerA}, "1");
  int calls = 0;
  registry_.hook([&](const Asked&) -> std::optional<Answer> {
    ++calls;
    if (calls % 3 == 0) return std::nullopt;
    return Answer{calls % 3 == 1 ? 503U : 429U, {}, "", {}, false, {}, {}};
  });
  EXPECT_TRUE(pull());
  EXPECT_EQ(calls, 9);
  registry_.hook([&](const Asked&) { return Answer{502, {}, "", {}, false, {}, {}}; });
  const std::size_t before = registry_.asked().size();
  EXPECT_EQ(pull("other:1").error().code, Errc::Busy);
  EXPECT_EQ(registry_.asked().size() - before, kAttemptsMax);
}

TEST_F(Pull, ResumesAfterAStallAndACut) {
  registry_.image({kLayerA}, "1");
  int calls = 0;
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with(digest_of(kLayerA).str())) return std::nullopt;
    ++calls;
    if (calls == 1) return Answer{200, {}, kLayerA, {}, false, 1000, {}};
    EXPECT_FALSE(asked.field("range").empty());
    if (calls > 2) return std::nullopt;
    const std::size_t from = std::stoul(asked.field("range").substr(6));
    return Answer{206,
                  {{"Content-Range", fmt::format("bytes {}-299999/300000", from)}},
                  kLayerA.substr(from),
                  {},
                  false,
                  {},
                  5000};
  });
  const auto image = pull();
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(calls, 3);
}

TEST_F(Pull, BeginsAnewWhereRangesAreNotKnown) {
  registry_.image({kLayerA}, "1");
  int calls = 0;
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with(digest_of(kLayerA).str())) return std::nullopt;
    ++calls;
    if (calls == 1) return Answer{200, {}, kLayerA, {}, false, {}, 1000};
    if (calls == 2) return Answer{416, {}, "", {}, false, {}, {}};
    return Answer{200, {}, kLayerA, {}, false, {}, {}};
  });
  const auto image = pull();
  ASSERT_TRUE(image) << image.error().message;
}

TEST_F(Pull, AnotherServerGoesOnWhereThisOneWasKilled) {
  registry_.image({kLayerA}, "1");
  options_.attempts_max = 1;
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with(digest_of(kLayerA).str())) return std::nullopt;
    return Answer{200, {}, kLayerA, {}, false, {}, 200000};
  });
  EXPECT_EQ(pull().error().code, Errc::Gone);
  registry_.hook({});
  puller_.reset();
  store_.reset();
  store_ = std::move(*BlobStore::open(dir_.path("store")));
  ASSERT_TRUE(pull());
  EXPECT_EQ(registry_.asked().back().field("range"), "bytes=200000-");
}

TEST_F(Pull, CanBeCancelledInTheMiddle) {
  registry_.image({kLayerA, kLayerB}, "1");
  asio::cancellation_signal cancel;
  options_.stall_timeout = milliseconds(60000);
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with(digest_of(kLayerA).str())) return std::nullopt;
    asio::post(io_, [&] { cancel.emit(asio::cancellation_type::terminal); });
    return Answer{200, {}, kLayerA, {}, false, 1000, {}};
  });
  PullRequest request;
  request.reference = reference();
  std::optional<Result<PulledImage>> got;
  asio::co_spawn(io_, puller().pull(request),
                 asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr& thrown,
                                                                 Result<PulledImage> value) {
                   EXPECT_FALSE(thrown);
                   got = std::move(value);
                 }));
  const auto end = std::chrono::steady_clock::now() + kBound;
  while (!got && std::chrono::steady_clock::now() < end) io_.run_one_for(milliseconds(1000));
  ASSERT_TRUE(got);
  ASSERT_FALSE(*got);
  EXPECT_EQ(got->error().code, Errc::Gone);
  EXPECT_FALSE(store_->size_of(digest_of(kLayerA)));
  registry_.hook({});
  EXPECT_TRUE(pull()) << "and nothing is locked";
}

TEST_F(Pull, AFullDiskEndsIt) {
  registry_.image({kLayerA}, "1");
  BlobStoreOptions full;
  full.free_bytes_min = ~std::uint64_t{0} / 2;
  store_ = std::move(*BlobStore::open(dir_.path("full"), full));
  EXPECT_EQ(pull().error().code, Errc::StoreFull);
  EXPECT_TRUE(store_->list()->empty());
}

TEST_F(Pull, MirrorsComeFirstAndTheRegistryLast) {
  FakeRegistry mirror(io_);
  registry_.image({kLayerA}, "1");
  options_.mirrors["docker.io"] = {
      {fmt::format("http://{}/proxy", mirror.host()), fmt::format("http://{}", registry_.host())},
      true};
  options_.attempts_max = 1;
  PullRequest request;
  request.reference = *Reference::parse("docker.io/library/app:1");
  EXPECT_TRUE(credentials_.add("docker.io", {"me", "secret", ""}));
  request.credentials = credentials_;
  const auto image = run(io_, puller().pull(request));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(mirror.asked().front().target, "/proxy/v2/library/app/manifests/1");
  EXPECT_EQ(registry_.count("/v2/library/app/"), 3U);
  for (const Asked& asked : registry_.asked()) EXPECT_EQ(asked.field("authorization"), "");
}

TEST_F(Pull, ATagIsResolvedOnce) {
  const std::string first = registry_.image({kLayerA}, "1");
  int tags = 0;
  const std::string index = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{{"mediaType":"{}","digest":"{}","size":{},
         "platform":{{"os":"linux","architecture":"{}"}}}}]}})",
      kOciIndexType, kOciManifestType, digest_of(first).str(), first.size(),
      host_platform().architecture);
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with("/manifests/1")) return std::nullopt;
    ++tags;
    const std::string type(kOciIndexType);
    return Answer{200, {{"Content-Type", type}}, tags == 1 ? index : "{}", {}, false, {}, {}};
  });
  const auto image = pull();
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(tags, 1);
  EXPECT_EQ(image->resolved, digest_of(index));
  EXPECT_EQ(image->manifest_digest, digest_of(first));
}

}  // namespace
}  // namespace caisson::image::test
