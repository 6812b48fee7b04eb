#include "policy/settings/image_settings.h"

#include <gtest/gtest.h>

#include "policy/settings/settings.h"

namespace caisson::policy {
namespace {

void expect_refused(const std::string& images, std::string_view part) {
  const auto result = parse_settings("images: {" + images + "}\n", "f");
  ASSERT_FALSE(result) << images;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
}

TEST(ImageSettings, TheWholeOfItReadsBackTheSame) {
  const auto settings = parse_settings(R"(
images:
  mirrors:
    docker.io: ["https://mirror.example:8443/hub", "http://127.0.0.1:5000"]
    registry.example: []
  insecure: ["127.0.0.1:5000", localhost]
  credentials_file: /etc/caisson/registries.json
  allow_private: true
  pull_on_create: false
  layer_bytes_max: 1048576
)",
                                       "f");
  ASSERT_TRUE(settings) << settings.error().message;
  const ImageSettings& images = settings->images;
  EXPECT_EQ(images.mirrors.at("docker.io").size(), 2U);
  EXPECT_EQ(images.insecure.size(), 2U);
  EXPECT_TRUE(images.allow_private);
  EXPECT_FALSE(images.pull_on_create);
  EXPECT_EQ(images.layer_bytes_max, 1048576);
  const auto again = parse_settings(to_yaml(*settings), "f");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->images.insecure, images.insecure);
  EXPECT_EQ(again->images.mirrors.at("docker.io"), images.mirrors.at("docker.io"));
}

TEST(ImageSettings, WhatIsNoRegistryIsRefusedByName) {
  expect_refused("mirrors: {docker.io: ['mirror.example']}", "images.mirrors.docker.io");
  expect_refused("mirrors: {docker.io: ['https://user:pw@mirror.example']}", "images.mirrors");
  expect_refused("mirrors: {docker.io: ['https://']}", "images.mirrors");
  expect_refused("mirrors: {'a b': []}", "images.mirrors");
  expect_refused("mirrors: [x]", "images.mirrors");
  expect_refused("insecure: ['http://x']", "images.insecure");
  expect_refused("insecure: ['A']", "images.insecure");
  expect_refused("credentials_file: relative", "images.credentials_file");
  expect_refused("layer_bytes_max: 1", "images.layer_bytes_max");
  expect_refused("unknown: 1", "unknown");
  std::string many = "insecure: [";
  for (std::size_t i = 0; i <= kRegistriesMax; ++i) many += "a" + std::to_string(i) + ",";
  expect_refused(many + "]", "images.insecure");
}

TEST(ImageSettings, TheEnvironmentHasTheSimpleOnes) {
  Settings settings;
  const std::string environ[] = {"CAISSON_IMAGES_INSECURE=a:5000,b",
                                 "CAISSON_IMAGES_ALLOW_PRIVATE=true"};
  ASSERT_TRUE(apply_environment(settings, environ));
  EXPECT_EQ(settings.images.insecure.size(), 2U);
  EXPECT_TRUE(settings.images.allow_private);
  const std::string wrong[] = {"CAISSON_IMAGES_MIRRORS=docker.io"};
  EXPECT_FALSE(apply_environment(settings, wrong));
}

}  // namespace
}  // namespace caisson::policy
