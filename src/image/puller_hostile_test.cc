// A registry that lies: what it says is never taken for more than a claim.
#include "base/base64.h"
#include "image/puller_fixture_test.h"

namespace caisson::image::test {
namespace {

using Hostile = PullerFixture;

const std::string kLayer(200000, 'x');

Answer with(unsigned status, std::vector<std::pair<std::string, std::string>> fields,
            std::string body = "") {
  return {status, std::move(fields), std::move(body), {}, false, {}, {}};
}

TEST_F(Hostile, OneByteAtEachLevelIsNoticed) {
  const std::string manifest = registry_.image({kLayer}, "1");
  const std::string index = fmt::format(
      R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{{"mediaType":"{}","digest":"{}","size":{},
         "platform":{{"os":"linux","architecture":"{}"}}}}]}})",
      kOciIndexType, kOciManifestType, digest_of(manifest).str(), manifest.size(),
      host_platform().architecture);
  const Digest top = registry_.manifest(index, kOciIndexType);
  const auto config = std::get<Manifest>(*parse_document(manifest, "")).config;
  const std::pair<std::string, std::string> levels[] = {
      {top.str(), index}, {digest_of(manifest).str(), manifest}, {digest_of(kLayer).str(), kLayer}};
  for (const auto& [digest, content] : levels) {
    registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
      if (!asked.target.ends_with(digest)) return std::nullopt;
      const std::string type(digest == top.str() ? kOciIndexType : kOciManifestType);
      return with(200, {{"Content-Type", type}}, flipped(content));
    });
    const auto got = pull("app@" + top.str());
    ASSERT_FALSE(got) << digest;
    EXPECT_EQ(got.error().code, Errc::Protocol) << got.error().message;
    EXPECT_FALSE(store_->size_of(*Digest::parse(digest)));
  }
  (void)store_->remove(config.digest);
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with(config.digest.str())) return std::nullopt;
    return with(200, {}, std::string(config.size, ' '));
  });
  EXPECT_EQ(pull("app@" + top.str()).error().code, Errc::Protocol);
  registry_.hook({});
  EXPECT_TRUE(pull("app@" + top.str()));
}

TEST_F(Hostile, WhatItSaysOfTheDigestMustHold) {
  const std::string manifest = registry_.image({kLayer}, "1");
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (!asked.target.ends_with("/manifests/1")) return std::nullopt;
    return with(200,
                {{"Content-Type", std::string(kOciManifestType)},
                 {"Docker-Content-Digest", digest_of("other").str()}},
                manifest);
  });
  EXPECT_EQ(pull().error().code, Errc::Protocol);
}

TEST_F(Hostile, AnotherContentTypeIsRefused) {
  const std::string manifest = registry_.image({kLayer}, "1");
  for (const char* type : {"text/html", "application/vnd.docker.distribution.manifest.v2+json",
                           "application/vnd.oci.image.index.v1+json"}) {
    registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
      if (!asked.target.ends_with("/manifests/1")) return std::nullopt;
      return with(200, {{"Content-Type", type}}, manifest);
    });
    EXPECT_EQ(pull().error().code, Errc::Protocol) << type;
  }
}

TEST_F(Hostile, TooLongAndTooShortAreRefused) {
  registry_.image({kLayer}, "1");
  options_.attempts_max = 2;
  const auto serve_layer = [&](Answer answer) {
    registry_.hook([answer](const Asked& asked) -> std::optional<Answer> {
      if (!asked.target.ends_with(digest_of(kLayer).str())) return std::nullopt;
      return answer;
    });
  };
  serve_layer({200, {}, kLayer + "y", {}, false, {}, {}});  // by its length
  EXPECT_EQ(pull().error().code, Errc::Protocol);
  serve_layer({200, {}, kLayer + "y", {}, true, {}, {}});  // without one
  EXPECT_EQ(pull().error().code, Errc::Protocol);
  serve_layer({200, {}, kLayer.substr(1), {}, false, {}, {}});
  EXPECT_EQ(pull().error().code, Errc::Protocol);
  serve_layer({200, {}, kLayer.substr(1), {}, true, {}, {}});
  EXPECT_EQ(pull().error().code, Errc::Gone);
  serve_layer({206, {{"Content-Range", "bytes 5-9/10"}}, "12345", {}, false, {}, {}});
  EXPECT_EQ(pull().error().code, Errc::Protocol);
  EXPECT_FALSE(store_->size_of(digest_of(kLayer)));
}

TEST_F(Hostile, ItCannotFillOurMemory) {
  registry_.hook([&](const Asked&) {
    return with(200, {{"Content-Type", std::string(kOciManifestType)}},
                std::string(kManifestBytesMax + 1, ' '));
  });
  EXPECT_EQ(pull().error().code, Errc::TooLarge);
  registry_.hook([&](const Asked&) {
    return with(200, {{"X", std::string(kAnswerHeadBytesMax, 'x')}}, "{}");
  });
  EXPECT_EQ(pull().error().code, Errc::Protocol);
  registry_.hook([&](const Asked&) -> std::optional<Answer> {
    Answer endless = with(200, {{"Content-Type", std::string(kOciManifestType)}},
                          std::string(kManifestBytesMax + 1, ' '));
    endless.no_length = true;
    return endless;
  });
  EXPECT_EQ(pull().error().code, Errc::TooLarge);
}

TEST_F(Hostile, StallsForEver) {
  options_.stall_timeout = milliseconds(50);
  options_.attempts_max = 2;
  registry_.hook([&](const Asked&) -> std::optional<Answer> {
    return Answer{200, {}, "xxxx", {}, false, 1, {}};
  });
  EXPECT_EQ(pull().error().code, Errc::TimedOut);
  EXPECT_EQ(registry_.asked().size(), 2U);
}

TEST_F(Hostile, RedirectsInwardAreJudged) {
  registry_.image({kLayer}, "1");
  options_.attempts_max = 1;
  options_.insecure = {"169.254.169.254"};
  options_.resolve = [](std::string) -> awaitable<Result<std::vector<asio::ip::address>>> {
    // A name with one good and one bad address.
    co_return std::vector{asio::ip::make_address("127.0.0.1"), asio::ip::make_address("10.0.0.1")};
  };
  for (const char* to : {"http://169.254.169.254/latest/meta-data/", "https://10.0.0.1/x",
                         "https://[::ffff:169.254.169.254]/x", "https://mixed.example/x"}) {
    registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
      if (asked.target.find("/blobs/") == std::string::npos) return std::nullopt;
      return with(307, {{"Location", to}});
    });
    judged_.clear();
    const auto got = pull();
    ASSERT_FALSE(got) << to;
    EXPECT_EQ(got.error().code, Errc::Denied) << to << ": " << got.error().message;
    EXPECT_GE(judged_.size(), 2U) << to;
  }
  // Without TLS to a host that nobody listed: not even judged.
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (asked.target.find("/blobs/") == std::string::npos) return std::nullopt;
    return with(307, {{"Location", "http://plain.example/x"}});
  });
  EXPECT_EQ(pull().error().code, Errc::Denied);
}

TEST_F(Hostile, RedirectsHaveAnEnd) {
  registry_.hook([&](const Asked& asked) { return with(302, {{"Location", asked.target}}); });
  EXPECT_EQ(pull().error().code, Errc::Protocol);
  EXPECT_EQ(registry_.asked().size(), kRedirectsMax + 1);
}

TEST_F(Hostile, CredentialsStayWithTheirRegistry) {
  FakeRegistry cdn(io_);
  cdn.blob(kLayer);
  registry_.image({kLayer}, "1");
  ASSERT_TRUE(credentials_.add(registry_.host(), {"me", "secret", ""}));
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (asked.field("authorization").empty()) {
      return with(401, {{"WWW-Authenticate", "Basic realm=\"x\""}});
    }
    EXPECT_EQ(asked.field("authorization"), "Basic " + to_base64("me:secret"));
    if (!asked.target.ends_with(digest_of(kLayer).str())) return std::nullopt;
    return with(307, {{"Location", fmt::format("http://{}/v2/app/blobs/{}", cdn.host(),
                                               digest_of(kLayer).str())}});
  });
  const auto got = pull();
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(cdn.asked().size(), 1U);
  EXPECT_EQ(cdn.asked()[0].field("authorization"), "");
  // For another registry there are none.
  cdn.hook([&](const Asked&) { return with(401, {{"WWW-Authenticate", "Basic realm=\"x\""}}); });
  PullRequest request;
  request.reference = *Reference::parse(cdn.host() + "/app:1");
  request.credentials = credentials_;
  EXPECT_EQ(run(io_, puller().pull(request)).error().code, Errc::Unauthenticated);
  for (const Asked& asked : cdn.asked()) EXPECT_EQ(asked.field("authorization"), "");
}

TEST_F(Hostile, TokensComeFromTheRegistrysOwnService) {
  registry_.image({kLayer}, "1");
  ASSERT_TRUE(credentials_.add(registry_.host(), {"me", "secret", ""}));
  const std::string challenge = fmt::format(
      R"(Bearer realm="http://{}/token",service="s",scope="repository:*:*")", registry_.host());
  registry_.hook([&](const Asked& asked) -> std::optional<Answer> {
    if (asked.target.starts_with("/token")) {
      EXPECT_EQ(asked.field("authorization"), "Basic " + to_base64("me:secret"));
      EXPECT_NE(asked.target.find("scope=repository%3Aapp%3Apull"), std::string::npos);
      return with(200, {}, R"({"token":"abc","expires_in":300})");
    }
    if (asked.field("authorization") == "Bearer abc") return std::nullopt;
    return with(401, {{"WWW-Authenticate", challenge}});
  });
  const auto got = pull();
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(registry_.count("/token"), 1U) << "one token for all of it";
}

TEST_F(Hostile, ATokenServiceElsewhereGetsNothing) {
  FakeRegistry other(io_);
  ASSERT_TRUE(credentials_.add(registry_.host(), {"me", "secret", ""}));
  // Another host: the same machine by another name is one, too.
  const std::string realm = fmt::format("http://localhost:{}/token", other.port());
  registry_.hook([&](const Asked&) {
    return with(401, {{"WWW-Authenticate", fmt::format(R"(Bearer realm="{}")", realm)}});
  });
  const auto got = pull();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::Denied);
  EXPECT_NE(got.error().message.find("realms"), std::string::npos) << got.error().message;
  EXPECT_TRUE(other.asked().empty());
  // Listed, it is asked.
  puller_.reset();
  options_.realms[registry_.host()] = {"localhost"};
  other.hook([&](const Asked&) { return with(200, {}, R"({"token":"abc"})"); });
  EXPECT_EQ(pull().error().code, Errc::Unauthenticated);
  EXPECT_EQ(other.asked().size(), 1U);
}

TEST_F(Hostile, SizesOfTheManifestMustHoldForBlobsThatWeHave) {
  registry_.image({kLayer}, "1");
  ASSERT_TRUE(pull());
  ImageConfig config;
  config.platform = host_platform();
  config.diff_ids = {digest_of(kLayer)};
  const std::string text = to_json(config);
  Manifest manifest;
  manifest.media_type = kOciManifestType;
  manifest.config = {std::string(kOciConfigType), registry_.blob(text), text.size()};
  manifest.layers = {{std::string(kOciLayerType), digest_of(kLayer), 5}};
  registry_.manifest(to_json(manifest), kOciManifestType, "2");
  EXPECT_EQ(pull("app:2").error().code, Errc::Protocol);
  // As many diff_ids as layers.
  manifest.layers.clear();
  registry_.manifest(to_json(manifest), kOciManifestType, "3");
  EXPECT_EQ(pull("app:3").error().code, Errc::Protocol);
}

TEST_F(Hostile, PlainHttpNeedsToBeListed) {
  options_.loopback_http = false;
  registry_.image({kLayer}, "1");
  options_.attempts_max = 1;
  EXPECT_FALSE(pull()) << "TLS with a server that has none";
  EXPECT_TRUE(registry_.asked().empty() || registry_.asked()[0].target.empty());
  puller_.reset();
  options_.insecure = {registry_.host()};
  EXPECT_TRUE(pull());
}

}  // namespace
}  // namespace caisson::image::test
