#include "image/manifest.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "image/json.h"

namespace caisson::image {
namespace {

const std::string kDigest = "sha256:" + std::string(64, 'a');

std::string descriptor(std::string_view type, std::string_view more = "") {
  return fmt::format(R"({{"mediaType":"{}","digest":"{}","size":10{}}})", type, kDigest, more);
}

std::string manifest_text(std::string_view layers, std::string_view more = "") {
  return fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]{}}})",
                     kOciManifestType, descriptor(kOciConfigType), layers, more);
}

Errc code_of(std::string_view text, std::string_view type = "") {
  const auto got = parse_document(text, type);
  EXPECT_FALSE(got) << text;
  return got ? Errc::Internal : got.error().code;
}

TEST(Manifest, IsReadAndWritten) {
  const std::string text = manifest_text(descriptor(kOciLayerGzipType));
  const auto got = parse_document(text, std::string(kOciManifestType) + "; charset=utf-8");
  ASSERT_TRUE(got) << got.error().message;
  const Manifest& manifest = std::get<Manifest>(*got);
  ASSERT_EQ(manifest.layers.size(), 1U);
  EXPECT_EQ(manifest.layers[0].size, 10U);
  const auto again = parse_document(to_json(manifest), kOciManifestType);
  ASSERT_TRUE(again);
  EXPECT_EQ(std::get<Manifest>(*again).layers, manifest.layers);
}

TEST(Manifest, WhatItIsMustAgreeEverywhere) {
  const std::string text = manifest_text(descriptor(kOciLayerType));
  EXPECT_EQ(code_of(text, kDockerManifestType), Errc::Protocol);
  EXPECT_EQ(code_of(text, "text/plain"), Errc::Protocol);
  EXPECT_EQ(code_of(text, kOciIndexType), Errc::Protocol);
  // An index and an image in one text.
  EXPECT_EQ(code_of(manifest_text("", R"(,"manifests":[])")), Errc::Protocol);
  EXPECT_EQ(code_of(fmt::format(R"({{"schemaVersion":2,"manifests":[],"layers":[]}})")),
            Errc::Protocol);
  // The same in disguise: the header says index, and there is no list.
  EXPECT_EQ(code_of(R"({"schemaVersion":2,"layers":[]})", kOciIndexType), Errc::Protocol);
}

TEST(Manifest, HostileTextsAreRefused) {
  EXPECT_EQ(code_of(R"({"schemaVersion":2,"schemaVersion":2})"), Errc::Protocol);
  EXPECT_EQ(code_of(R"({"schemaVersion":2,"\u0073chemaVersion":2})"), Errc::Protocol);
  EXPECT_EQ(code_of(R"({"schemaVersion":2,"":1,"":2})"), Errc::Protocol);
  EXPECT_EQ(code_of(R"({"schemaVersion":1,"fsLayers":[]})"), Errc::Unsupported);
  EXPECT_EQ(code_of("[]"), Errc::Protocol);
  EXPECT_EQ(code_of("{} {}"), Errc::Protocol);
  EXPECT_EQ(code_of("{\"a\":"), Errc::Protocol);
  EXPECT_EQ(code_of(std::string(1000, '[')), Errc::Protocol);
  std::string deep = R"({"schemaVersion":2,"x":)";
  for (int i = 0; i < 20; ++i) deep += R"({"x":)";
  EXPECT_EQ(code_of(deep), Errc::Protocol);
  EXPECT_EQ(code_of(std::string(kManifestBytesMax + 1, ' ')), Errc::TooLarge);
  std::string many = R"({"schemaVersion":2,"x":[0)";
  for (std::size_t i = 0; i <= kJsonValuesMax; ++i) many += ",0";
  EXPECT_EQ(code_of(many + "]}"), Errc::Protocol);
}

TEST(Manifest, LayersAreBounded) {
  std::string layers = descriptor(kOciLayerType);
  for (std::size_t i = 1; i < kLayersMax; ++i) layers += "," + descriptor(kOciLayerType);
  EXPECT_TRUE(parse_document(manifest_text(layers), ""));
  EXPECT_EQ(code_of(manifest_text(layers + "," + descriptor(kOciLayerType))), Errc::TooLarge);
  const auto sized = [&](std::string_view size) {
    return manifest_text(fmt::format(R"({{"mediaType":"{}","digest":"{}","size":{}}})",
                                     kOciLayerType, kDigest, size));
  };
  EXPECT_EQ(code_of(sized("17179869185")), Errc::TooLarge);
  EXPECT_EQ(code_of(sized("-1")), Errc::Protocol);
  EXPECT_EQ(code_of(sized("1.5")), Errc::Protocol);
  EXPECT_EQ(code_of(sized("1e400")), Errc::Protocol);
  EXPECT_EQ(code_of(sized("\"10\"")), Errc::Protocol);
  EXPECT_EQ(code_of(sized("99999999999999999999999")), Errc::Protocol);
}

TEST(Manifest, ForeignAndUnknownLayersAreRefused) {
  EXPECT_EQ(code_of(manifest_text(
                descriptor("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"))),
            Errc::Unsupported);
  EXPECT_EQ(code_of(manifest_text(
                descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"))),
            Errc::Unsupported);
  EXPECT_EQ(code_of(manifest_text(descriptor(kOciLayerType, R"(,"urls":["http://x/"])"))),
            Errc::Unsupported);
  EXPECT_EQ(code_of(manifest_text(descriptor("application/octet-stream"))), Errc::Unsupported);
  const std::string md5 =
      fmt::format(R"({{"mediaType":"{}","digest":"md5:00","size":1}})", kOciLayerType);
  EXPECT_EQ(code_of(manifest_text(md5)), Errc::Protocol);
}

TEST(Index, ChoosesByPlatform) {
  const auto entry = [](std::string_view digit, std::string_view arch, std::string_view variant) {
    return fmt::format(
        R"({{"mediaType":"{}","digest":"sha256:{}","size":1,"platform":{{"os":"linux",
        "architecture":"{}","variant":"{}"}}}})",
        kOciManifestType, std::string(64, digit[0]), arch, variant);
  };
  const std::string text =
      fmt::format(R"({{"schemaVersion":2,"mediaType":"{}","manifests":[{},{},{},{}]}})",
                  kOciIndexType, entry("1", "amd64", ""), entry("2", "arm64", "v8"),
                  entry("3", "arm", "v7"), entry("4", "unknown", ""));
  const auto document = parse_document(text, kOciIndexType);
  ASSERT_TRUE(document) << document.error().message;
  const Index& index = std::get<Index>(*document);
  const auto pick = [&](const char* platform) -> std::string {
    const auto got = choose(index, *Platform::parse(platform));
    return got ? std::string(1, got->descriptor.digest.hex()[0]) : got.error().message;
  };
  EXPECT_EQ(pick("linux/amd64"), "1");
  EXPECT_EQ(pick("linux/arm64"), "2");
  EXPECT_EQ(pick("linux/arm64/v8"), "2");
  EXPECT_EQ(pick("linux/arm"), "3");
  EXPECT_NE(pick("linux/arm/v6").find("nothing for linux/arm/v6"), std::string::npos);
  EXPECT_NE(pick("linux/s390x").find("linux/amd64"), std::string::npos);
  EXPECT_FALSE(Platform::parse("amd64"));
  EXPECT_FALSE(Platform::parse("linux/"));
  EXPECT_FALSE(Platform::parse("linux/a/b/c"));
}

}  // namespace
}  // namespace caisson::image
