// Images: pulled, imported, built, used, removed. The registry, the launcher and the tool that
// unpacks are played by the test; the blobs are real.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "control/fleet_fixture_test.h"
#include "control/image_library.h"
#include "control/image_options.h"
#include "image/build.h"
#include "sys/temp_dir_test.h"

namespace caisson::control {
namespace {

using test::FakeAnswer;
using test::FakeJob;
using test::FleetTest;

// Says of every name that it is the same image, made of the layers that the test gives.
class FakeRegistry final : public ImageSource {
 public:
  awaitable<Result<image::PulledImage>> pull(image::PullRequest request) override {
    ++pulls;
    logins.push_back(request.credentials.find(request.reference.registry()).user);
    if (fails) co_return std::unexpected(*fails);
    auto made = co_await image::make_image(*blobs, request.reference, config, sources());
    if (!made) co_return std::unexpected(made.error());
    if (claimed) made->layers.back().diff_id = *claimed;
    for (std::size_t i = 0; request.on_layer && i < made->layers.size(); ++i) {
      image::LayerReady ready;
      ready.index = i;
      ready.count = made->layers.size();
      ready.layer = made->layers[i];
      auto taken = co_await request.on_layer(std::move(ready));
      if (!taken) co_return std::unexpected(taken.error());
    }
    co_return made;
  }
  std::vector<image::LayerSource> sources() const {
    std::vector<image::LayerSource> out;
    for (const std::string& text : layers) {
      image::LayerSource source;
      source.fd = UniqueFd(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
      EXPECT_EQ(::write(source.fd.get(), text.data(), text.size()),
                static_cast<ssize_t>(text.size()));
      EXPECT_EQ(::lseek(source.fd.get(), 0, SEEK_SET), 0);
      out.push_back(std::move(source));
    }
    return out;
  }

  std::string folder;
  image::BlobStore* blobs = nullptr;
  image::ImageConfig config;
  std::vector<std::string> layers;
  std::vector<std::string> logins;
  std::optional<Error> fails;
  std::optional<image::Digest> claimed;  // what the last layer is said to unpack to
  int pulls = 0;
};

// An empty tar with a name in its padding, so that each is another one.
std::string layer(char mark) {
  std::string out(10240, '\0');
  out.back() = mark;
  return out;
}

image::Digest digest_of(std::string_view text) {
  image::Hasher hasher;
  hasher.update(text);
  return hasher.finish();
}

class FleetImages : public FleetTest {
 protected:
  // In the launcher's store. Layers of images that are made here are not compressed.
  static std::string name_of(char mark) {
    const image::Digest digest = digest_of(layer(mark));
    return *layer_name(digest, digest);
  }
  FleetImages() {
    options_.state_key = dir_.path("state.key");
    options_.images.folder = dir_.path("blobs");
    registry_ = std::make_shared<FakeRegistry>();
    registry_->config.platform = image::host_platform();
    registry_->layers = {layer('1'), layer('2')};
    registry_->folder = dir_.path(".");
    options_.images.source = registry_;
    // A second look at the same folder: the fleet's own store is inside it.
    auto blobs = image::BlobStore::open(options_.images.folder);
    EXPECT_TRUE(blobs) << (blobs ? "" : blobs.error().message);
    if (blobs) blobs_ = *std::move(blobs);
    registry_->blobs = blobs_.get();
    world_.store.on_job = [](FakeJob& job) { return unpacked(job); };
  }
  // An honest tool: the digest of what it was given.
  static FakeAnswer unpacked(FakeJob& job) {
    image::Hasher hasher;
    std::vector<std::byte> buffer(65536);
    for (off_t at = 0;;) {
      const ssize_t size = ::pread(job.file.get(), buffer.data(), buffer.size(), at);
      if (size <= 0) break;
      at += size;
      hasher.update(std::span(buffer).first(static_cast<std::size_t>(size)));
    }
    return FakeAnswer().done(FakeAnswer::with_digest(hasher.finish().hex()));
  }
  Result<ImageView> pull(const std::string& reference, bool refresh = true) {
    PullWish wish;
    wish.reference = reference;
    wish.refresh = refresh;
    return run(follow(wish, me_));
  }
  awaitable<Result<ImageView>> follow(PullWish wish, Caller caller) {
    auto stream = co_await fleet_->pull_image(caller, wish);
    if (!stream) co_return std::unexpected(stream.error());
    for (;;) {
      auto item = co_await (*stream)->next();
      if (!item) co_return std::unexpected(item.error());
      if (auto* done = std::get_if<ImageView>(&*item)) co_return *done;
      told_.push_back(std::get<ImageProgress>(*item));
    }
  }
  CreateWish on(std::string image) {
    CreateWish wish;
    wish.image = std::move(image);
    return wish;
  }

  sys::TempDir dir_;
  std::shared_ptr<FakeRegistry> registry_;
  std::unique_ptr<image::BlobStore> blobs_;
  std::vector<ImageProgress> told_;
};

TEST_F(FleetImages, AnImageIsPulledUnpackedAndUsed) {
  registry_->config.user = *image::parse_user("7:8");
  registry_->config.workdir = "/app";
  registry_->config.env = {"A=1"};
  registry_->config.cmd = {"python3"};
  open();
  const auto made = pull("python:3.12");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->reference, "docker.io/library/python:3.12");
  EXPECT_EQ(made->layers.size(), 2U);
  EXPECT_EQ(made->defaults.uid, 7U);
  EXPECT_EQ(made->defaults.command, std::vector<std::string>{"python3"});
  EXPECT_EQ(made->source, "pull");
  EXPECT_EQ(world_.store.layers.size(), 2U);
  EXPECT_LE(world_.store.jobs_at_once_most, 2);
  EXPECT_EQ(store_.actions("image.pull"), 1U);
  const FakeJob& job = world_.store.jobs.front();
  EXPECT_EQ(job.job.kind, wire::JobKind::Unpack);
  EXPECT_EQ(job.job.bytes_max, kLayerBytesDefault);
  EXPECT_EQ(job.request.program, engine::Program::Layer);
  EXPECT_FALSE(job.request.gate);
  const auto box = run(fleet_->create(me_, on("python:3.12")));
  ASSERT_TRUE(box) << box.error().message;
  EXPECT_EQ(box->image, "docker.io/library/python:3.12");
  EXPECT_EQ(box->uid, 7U);
  EXPECT_EQ(box->workdir, "/app");
  EXPECT_EQ(box->root, engine::RootMode::Writable);
  const auto& request = world_.requests.back();
  EXPECT_FALSE(request.stack.host);
  // Topmost first.
  ASSERT_EQ(request.stack.layers.size(), 2U);
  EXPECT_EQ(request.stack.layers.front(), name_of('2'));
  EXPECT_EQ(request.gid, 8U);
  // The next server knows it.
  close();
  open();
  EXPECT_EQ(fleet_->images(me_).size(), 1U);
  EXPECT_EQ(fleet_->image(me_, "python:3.12")->digest, made->digest);
}

TEST_F(FleetImages, AForeignImageIsNone) {
  options_.images.pull_on_create = false;
  open();
  ASSERT_TRUE(pull("python"));
  EXPECT_TRUE(fleet_->images(other_).empty());
  EXPECT_EQ(fleet_->image(other_, "python").error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->remove_image(other_, "python")).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->export_image(other_, "python")).error().code, Errc::NotFound);
  const auto refused = run(fleet_->create(other_, on("python")));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::NotFound);
  EXPECT_EQ(refused.error().field, "base_image");
  EXPECT_NE(refused.error().message.find("caisson image pull python"), std::string::npos);
  EXPECT_EQ(run(fleet_->create(me_, on("Bad:::"))).error().field, "base_image");
}

TEST_F(FleetImages, CreatePullsWhatIsMissingAndALayerIsUnpackedOnce) {
  open();
  const auto box = run(fleet_->create(me_, on("python")));
  ASSERT_TRUE(box) << box.error().message;
  EXPECT_EQ(registry_->pulls, 1);
  ASSERT_TRUE(run(fleet_->create(me_, on("python"))));
  EXPECT_EQ(registry_->pulls, 1);
  const auto one = begin(follow(PullWish{"a", {}, "", "", true}, me_));
  const auto two = begin(follow(PullWish{"b", {}, "me", "secret", true}, other_));
  until([&] { return one->has_value() && two->has_value(); });
  ASSERT_TRUE(**one);
  ASSERT_TRUE(**two);
  EXPECT_EQ(world_.store.jobs.size(), 2U);  // of all pulls together
  EXPECT_EQ(registry_->logins.back(), "me");
  ASSERT_TRUE(pull("python", false));
  EXPECT_EQ(registry_->pulls, 3);
}

TEST_F(FleetImages, ALayerThatIsSomethingElseIsRefused) {
  open();
  world_.store.on_job = [](FakeJob&) {
    return FakeAnswer().done(FakeAnswer::with_digest(std::string(64, 'a')));
  };
  const auto lied = pull("python");
  ASSERT_FALSE(lied);
  EXPECT_EQ(lied.error().code, Errc::Protocol);
  settle();
  EXPECT_TRUE(world_.store.layers.empty());
  EXPECT_TRUE(world_.boxes.empty());
  EXPECT_TRUE(fleet_->images(me_).empty());
  world_.store.on_job = [](FakeJob&) {
    return FakeAnswer().failed(wire::LayerError::TooLarge, "a bomb");
  };
  EXPECT_EQ(pull("python").error().code, Errc::TooLarge);
  registry_->fails = Error{Errc::Denied, "the registry says no", 0};
  EXPECT_EQ(pull("python").error().code, Errc::Denied);
  EXPECT_EQ(run(fleet_->create(me_, on("python"))).error().code, Errc::Denied);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Denied);
}

TEST_F(FleetImages, WhoClaimsAnothersLayerDoesNotGetIt) {
  open();
  ASSERT_TRUE(pull("private"));
  const std::size_t jobs = world_.store.jobs.size();
  // A manifest of somebody else, with a blob of his own that is said to unpack to that layer.
  registry_->layers = {layer('9')};
  registry_->claimed = digest_of(layer('1'));
  PullWish wish;
  wish.reference = "thief";
  wish.refresh = true;
  const auto stolen = run(follow(wish, other_));
  ASSERT_FALSE(stolen);
  EXPECT_EQ(stolen.error().code, Errc::Protocol);
  EXPECT_EQ(world_.store.jobs.size(), jobs + 1) << "it was unpacked, and seen to be something else";
  EXPECT_TRUE(fleet_->images(other_).empty());
  settle();
  EXPECT_EQ(world_.store.layers.size(), 2U);
}

TEST_F(FleetImages, WhateverFailsLeavesNoImage) {
  open();
  for (int step = 0; step < 8; ++step) {
    world_.store.fails_in = step;
    const auto made = pull("python");
    world_.store.fails_in = -1;
    settle();
    EXPECT_TRUE(world_.boxes.empty()) << step;
    if (made) break;
    EXPECT_TRUE(fleet_->images(me_).empty()) << step;
    EXPECT_EQ(store_.count(store::FileKind::Image), 0U);
  }
  ASSERT_TRUE(pull("python"));
}

TEST_F(FleetImages, NamesOfUsersAreLookedUpInTheImage) {
  registry_->config.user = *image::parse_user("app:web");
  open();
  const std::string top = name_of('2');
  world_.image_files[top] = {{"/etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:33:33::/srv:/x\n"},
                             {"/etc/group", "web:x:44:\n"}};
  const auto made = pull("python");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->defaults.uid, 33U);
  EXPECT_EQ(made->defaults.gid, 44U);
  EXPECT_EQ(made->defaults.environment, std::vector<std::string>{"HOME=/srv"});
  EXPECT_TRUE(world_.boxes.empty());  // who read it is gone
  registry_->config.user = *image::parse_user("33");
  const auto number = pull("number");
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_EQ(number->defaults.gid, 33U) << "the group of its line";
  registry_->config.user = *image::parse_user("app:web");
  world_.image_files[top].erase("/etc/passwd");
  EXPECT_FALSE(pull("other"));
  world_.image_files[top]["/etc/passwd"] = std::string((1 << 20) + 1, 'x');
  EXPECT_EQ(pull("other").error().code, Errc::TooLarge);
  settle();
  EXPECT_TRUE(world_.boxes.empty());
}

TEST_F(FleetImages, WhatNobodyNeedsGoesWithTheGarbage) {
  open();
  ASSERT_TRUE(pull("python"));
  const std::string box = create(on("python"));
  ASSERT_TRUE(run(fleet_->remove_image(me_, "python")));
  EXPECT_EQ(store_.count(store::FileKind::Image), 0U);
  EXPECT_EQ(fleet_->image(me_, "python").error().code, Errc::NotFound);
  auto gone = run(fleet_->collect_garbage(me_));
  ASSERT_TRUE(gone) << gone.error().message;
  EXPECT_EQ(gone->layers, 0U);  // a sandbox stands on them
  EXPECT_GE(gone->blobs, 3U);
  ASSERT_TRUE(run(fleet_->destroy(me_, box)));
  settle();
  EXPECT_EQ(world_.store.layers.size(), 2U);  // for the next one that has them
  gone = run(fleet_->collect_garbage(me_));
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->layers, 2U);
  EXPECT_TRUE(world_.store.layers.empty());
  // And can be had again.
  ASSERT_TRUE(pull("python"));
  EXPECT_EQ(world_.store.layers.size(), 2U);
}

TEST_F(FleetImages, APullUnderWayKeepsWhatItHas) {
  open();
  ASSERT_TRUE(pull("first"));
  ASSERT_TRUE(run(fleet_->remove_image(me_, "first")));
  registry_->layers = {layer('1'), layer('3')};
  // The garbage is collected while the second layer is being unpacked: the first is held.
  bool collected = false;
  world_.store.on_job = [&](FakeJob& job) {
    if (!collected) {
      collected = true;
      auto collect = [](Fleet& fleet, Caller caller) -> awaitable<void> {
        (void)co_await fleet.collect_garbage(caller);
      };
      boost::asio::co_spawn(context_, collect(*fleet_, me_), boost::asio::detached);
    }
    return unpacked(job);
  };
  ASSERT_TRUE(pull("second"));
  settle();
  EXPECT_TRUE(collected);
  const auto box = run(fleet_->create(me_, on("second")));
  EXPECT_TRUE(box) << box.error().message;
}

TEST_F(FleetImages, APullThatIsGivenUpLeavesNothing) {
  open();
  world_.store.on_job = [](FakeJob&) {
    FakeAnswer out;
    out.silent = true;
    return out;
  };
  auto stream = run(fleet_->pull_image(me_, PullWish{"python", {}, "", "", true}));
  ASSERT_TRUE(stream);
  until([&] { return !world_.store.jobs.empty(); });
  stream->reset();
  until([&] { return world_.boxes.empty(); });
  until([&] { return store_.actions("image.pull") == 1; });
  EXPECT_TRUE(fleet_->images(me_).empty());
  EXPECT_TRUE(world_.store.layers.empty());
}

TEST_F(FleetImages, AnImageIsBuiltFromASnapshotAndExported) {
  open();
  ASSERT_TRUE(pull("python"));
  CreateWish wish = on("python");
  wish.storage = engine::Storage::Disk;
  const std::string id = create(wish);
  const auto point = run(fleet_->snapshot(me_, id, {}));
  ASSERT_TRUE(point) << point.error().message;
  world_.store.on_job = [](FakeJob& job) {
    if (job.job.kind != wire::JobKind::Pack) return unpacked(job);
    const std::string text = layer('9');
    EXPECT_EQ(::write(job.file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return FakeAnswer().done();
  };
  BuildWish build;
  build.reference = "mine:1";
  build.snapshot = point->id;
  build.command = {{"serve"}};
  const auto made = run(fleet_->build_image(me_, build));
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->layers.size(), 3U);
  EXPECT_EQ(made->source, "build");
  EXPECT_EQ(made->defaults.command, std::vector<std::string>{"serve"});
  EXPECT_TRUE(run(fleet_->create(me_, on("mine:1"))));
  auto reader = run(fleet_->export_image(me_, "mine:1"));
  ASSERT_TRUE(reader) << reader.error().message;
  std::uint64_t bytes = 0;
  for (;;) {
    const auto piece = run((*reader)->next());
    ASSERT_TRUE(piece) << piece.error().message;
    if (piece->empty()) break;
    bytes += piece->size();
  }
  EXPECT_GT(bytes, 3 * 10240U);
  // One that is dropped in the middle ends its export.
  auto half = run(fleet_->export_image(me_, "mine:1"));
  ASSERT_TRUE(run((*half)->next()));
  half->reset();
  settle();
  // Of a snapshot on the host's programs, only what is the snapshot's.
  CreateWish host;
  host.storage = engine::Storage::Disk;
  const auto bare = run(fleet_->snapshot(me_, create(host), {}));
  build.reference = "mine:2";
  build.snapshot = bare->id;
  const auto alone = run(fleet_->build_image(me_, build));
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(alone->layers.size(), 1U);
  build.user = "4294967296";
  EXPECT_FALSE(run(fleet_->build_image(me_, build)));
  build.snapshot = "none";
  EXPECT_EQ(run(fleet_->build_image(me_, build)).error().code, Errc::NotFound);
}

TEST_F(FleetImages, AnUploadIsARootFileSystemOrNothing) {
  open();
  auto upload = run(fleet_->import_image(me_, ImportWish{"own:1", std::nullopt}));
  ASSERT_TRUE(upload) << upload.error().message;
  const std::string text = layer('5');
  ASSERT_TRUE(run((*upload)->write(std::as_bytes(std::span(text)))));
  const auto made = run((*upload)->finish());
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->source, "import");
  EXPECT_EQ(run((*upload)->finish()).error().code, Errc::Gone);
  auto bad = run(fleet_->import_image(me_, ImportWish{"own:2", std::nullopt}));
  const std::string nonsense(3000, 'x');
  ASSERT_TRUE(run((*bad)->write(std::as_bytes(std::span(nonsense)))));
  EXPECT_FALSE(run((*bad)->finish()));
  EXPECT_EQ(fleet_->images(me_).size(), 1U);
  EXPECT_EQ(run(fleet_->import_image(me_, ImportWish{"///", std::nullopt})).error().code,
            Errc::InvalidArgument);
}

TEST_F(FleetImages, AServerWithoutAFolderKeepsNone) {
  options_.images.folder.clear();
  open();
  EXPECT_EQ(run(fleet_->pull_image(me_, PullWish{"a", {}, "", "", true})).error().code,
            Errc::Unsupported);
  EXPECT_EQ(run(fleet_->create(me_, on("a"))).error().code, Errc::NotFound);
}

TEST(ImageOptions, RegistriesInsideAreRefusedUnlessListed) {
  ImageOptions options;
  const auto judge = [&](const char* address, std::string_view host, std::uint16_t port) {
    return judge_of(options)(boost::asio::ip::make_address(address), host, port).has_value();
  };
  EXPECT_TRUE(judge("93.184.216.34", "r.example", 443));
  EXPECT_FALSE(judge("127.0.0.1", "r.example", 443));
  EXPECT_FALSE(judge("10.0.0.1", "r.example", 443));
  EXPECT_FALSE(judge("169.254.169.254", "r.example", 80));
  EXPECT_FALSE(judge("::ffff:127.0.0.1", "r.example", 80));
  options.allow_private = true;
  EXPECT_TRUE(judge("10.0.0.1", "r.example", 443));
  EXPECT_FALSE(judge("127.0.0.1", "r.example", 443));
  EXPECT_FALSE(judge("169.254.169.254", "r.example", 80));
  options.registry.insecure = {"127.0.0.1:5000"};
  options.registry.mirrors["docker.io"].urls = {"https://mirror.example:8443/v2"};
  EXPECT_TRUE(judge("127.0.0.1", "127.0.0.1", 5000));
  EXPECT_FALSE(judge("127.0.0.1", "127.0.0.1", 5001));
  EXPECT_TRUE(judge("127.0.0.1", "mirror.example", 8443));
  EXPECT_FALSE(judge("169.254.169.254", "mirror.example", 8443));
}

}  // namespace
}  // namespace caisson::control
