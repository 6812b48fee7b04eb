// Archives in and out: what we write we read, and what others could have written to fool us we
// refuse.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <boost/json/parse.hpp>

#include "image/build.h"
#include "image/decompress.h"
#include "image/export.h"
#include "image/import.h"
#include "image/run_test.h"
#include "image/tar_index.h"
#include "sys/file.h"
#include "sys/temp_dir_test.h"

namespace caisson::image::test {
namespace {

std::string tar_entry(std::string_view name, std::string_view content, char type = '0',
                      std::string_view target = "") {
  std::string head(512, '\0');
  name.copy(head.data(), 100);
  std::string_view("0000644").copy(head.data() + 100, 7);
  fmt::format("{:011o}", content.size()).copy(head.data() + 124, 11);
  std::string_view("        ").copy(head.data() + 148, 8);
  head[156] = type;
  target.copy(head.data() + 157, 100);
  std::string_view("ustar\00000", 8).copy(head.data() + 257, 8);
  unsigned sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  fmt::format("{:06o}", sum).copy(head.data() + 148, 6);
  head[154] = '\0';
  std::string out = head + std::string(content);
  out.resize((out.size() + 511) / 512 * 512);
  return out;
}

std::string pax(const std::string& key, const std::string& value) {
  std::string body = " " + key + "=" + value + "\n";
  const std::size_t size = body.size() + (body.size() + 2 < 100 ? 2 : 3);
  return tar_entry("pax", std::to_string(size) + body, 'x');
}

const std::string kEnd(1024, '\0');

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1024, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class Archive : public testing::Test {
 protected:
  Archive() { store_ = std::move(*BlobStore::open(dir_.path("store"))); }

  UniqueFd file(const std::string& content) {
    const std::string name = fmt::format("file{}", files_++);
    dir_.write(name, content);
    return std::move(*sys::open_at(AT_FDCWD, dir_.path(name), O_RDONLY));
  }
  Result<PulledImage> import(const std::string& content, const std::string& pick = "") {
    ImportOptions options;
    options.reference = *Reference::parse("localhost/it:1");
    options.pick = pick;
    return run(io_, import_archive(*store_, file(content), options));
  }
  std::string exported(const PulledImage& image) {
    std::string out;
    TarSink sink = [&out](std::span<const std::byte> bytes) -> awaitable<Result<void>> {
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      co_return Result<void>();
    };
    const auto done = run(io_, export_image(*store_, image, sink));
    EXPECT_TRUE(done) << done.error().message;
    EXPECT_EQ(out.size(), *export_size(image));
    return out;
  }
  PulledImage made() {
    ImageConfig config;
    config.platform = host_platform();
    config.cmd = {"/bin/sh"};
    std::vector<LayerSource> layers(3);
    layers[0].fd = file(kRoot);
    layers[1].fd = file(gzip(kRoot + "x"));
    layers[2].fd = file(zstd(kRoot + "y"));
    auto image =
        run(io_, make_image(*store_, *Reference::parse("me/app:2"), config, std::move(layers)));
    EXPECT_TRUE(image) << image.error().message;
    return std::move(*image);
  }

  const std::string kRoot = tar_entry("etc/", "", '5') + tar_entry("etc/hostname", "x\n") + kEnd;
  sys::TempDir dir_;
  boost::asio::io_context io_;
  std::unique_ptr<BlobStore> store_;
  int files_ = 0;
};

TEST_F(Archive, AnImageOfLayersKnowsTheirPlainDigests) {
  const PulledImage image = made();
  ASSERT_EQ(image.layers.size(), 3U);
  EXPECT_EQ(image.layers[0].diff_id, image.layers[0].digest);
  EXPECT_EQ(image.layers[1].packing, Packing::Gzip);
  EXPECT_EQ(image.layers[1].diff_id, digest_of(kRoot + "x"));
  EXPECT_EQ(image.layers[2].diff_id, digest_of(kRoot + "y"));
  EXPECT_EQ(image.config.cmd.size(), 1U);
}

TEST_F(Archive, WhatIsExportedIsImportedAndAlwaysTheSame) {
  const PulledImage image = made();
  const std::string tar = exported(image);
  EXPECT_EQ(exported(image), tar);
  store_ = std::move(*BlobStore::open(dir_.path("other")));
  for (const std::string& form :
       {tar, gzip(tar), zstd(tar), gzip(tar.substr(0, 700)) + gzip(tar.substr(700))}) {
    const auto info = run(io_, inspect_archive(*store_, file(form)));
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->kind, ArchiveKind::OciLayout);
    EXPECT_EQ(info->names, std::vector<std::string>{"docker.io/me/app:2"});
    const auto back = import(form);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->manifest_digest, image.manifest_digest);
    EXPECT_EQ(back->layers.size(), 3U);
    EXPECT_TRUE(run(io_, store_->open_verified(back->layers[1].digest)));
  }
  EXPECT_EQ(import(tar, "other:1").error().code, Errc::NotFound);
  EXPECT_TRUE(import(tar, "docker.io/me/app:2"));
}

TEST_F(Archive, OneByteOfAnArchiveIsNoticed) {
  const PulledImage image = made();
  std::string tar = exported(image);
  store_ = std::move(*BlobStore::open(dir_.path("other")));
  const std::size_t at = tar.find("etc/hostname");
  ASSERT_NE(at, std::string::npos);
  tar[at + 520] = 'z';  // inside the first layer
  const auto got = import(tar);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::Protocol);
  EXPECT_FALSE(store_->size_of(image.layers[0].digest));
}

TEST_F(Archive, ARootFileSystemBecomesOneLayer) {
  for (const std::string& form : {kRoot, gzip(kRoot), zstd(kRoot)}) {
    const auto image = import(form);
    ASSERT_TRUE(image) << image.error().message;
    ASSERT_EQ(image->layers.size(), 1U);
    EXPECT_EQ(image->layers[0].diff_id, digest_of(kRoot));
    EXPECT_EQ(image->config.platform, host_platform());
  }
}

TEST_F(Archive, DockersOwnFormIsRead) {
  ImageConfig config;
  config.platform = host_platform();
  config.diff_ids = {digest_of(kRoot), digest_of(kRoot)};
  const std::string text = to_json(config);
  const std::string manifest =
      R"([{"Config":"c.json","RepoTags":["a:1","b:2"],"Layers":["one/layer.tar","two/layer.tar"]}])";
  const std::string tar = tar_entry("c.json", text) + tar_entry("one/layer.tar", kRoot) +
                          tar_entry("two/layer.tar", "", '2', "../one/layer.tar");
  const auto image = import(tar + tar_entry("manifest.json", manifest) + kEnd);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->layers.size(), 2U);
  EXPECT_EQ(image->config_digest, digest_of(text)) << "the config is kept as it was";
  // Two images: which one?
  const std::string two =
      R"([{"Config":"c.json","RepoTags":["a:1"],"Layers":["one/layer.tar","two/layer.tar"]},
          {"Config":"c.json","RepoTags":["b:2"],"Layers":[]}])";
  const auto unclear = import(tar + tar_entry("manifest.json", two) + kEnd);
  ASSERT_FALSE(unclear);
  EXPECT_NE(unclear.error().message.find("a:1, b:2"), std::string::npos);
  EXPECT_TRUE(import(tar + tar_entry("manifest.json", two) + kEnd, "a:1"));
  EXPECT_FALSE(import(tar + tar_entry("manifest.json", two) + kEnd, "b:2"));
}

TEST_F(Archive, TricksWithNamesAndLinksAreRefused) {
  ImageConfig config;
  config.platform = host_platform();
  config.diff_ids = {digest_of(kRoot)};
  const auto docker = [&](const std::string& layer, const std::string& entries) {
    return tar_entry("c.json", to_json(config)) + entries +
           tar_entry("manifest.json",
                     fmt::format(R"([{{"Config":"c.json","Layers":["{}"]}}])", layer)) +
           kEnd;
  };
  EXPECT_TRUE(import(docker("l", tar_entry("l", kRoot))));
  EXPECT_FALSE(import(docker("l", tar_entry("l", "", '2', "/etc/passwd"))));
  EXPECT_FALSE(import(docker("l", tar_entry("l", "", '2', "../../etc/passwd"))));
  EXPECT_FALSE(import(docker("l", tar_entry("l", "", '2', "l"))));
  EXPECT_FALSE(import(docker("l", tar_entry("k", kRoot) + tar_entry("l", "", '1', "k"))));
  EXPECT_FALSE(import(docker("l", tar_entry("l", "", '5'))));
  EXPECT_FALSE(import(docker("../l", tar_entry("l", kRoot))));
  EXPECT_FALSE(import(docker("l", tar_entry("l", kRoot) + tar_entry("l", "x")))) << "twice";
  EXPECT_FALSE(import(docker("l", tar_entry("l", kRoot + "x")))) << "not what the config says";
  EXPECT_TRUE(import(docker("deep/l", pax("path", "deep/l") + tar_entry("short", kRoot))));
}

TEST_F(Archive, BrokenTarsAreRefused) {
  std::string sum = kRoot;
  sum[0] = 'E';
  EXPECT_FALSE(import(sum)) << "checksum";
  EXPECT_FALSE(import(""));
  EXPECT_FALSE(import("short"));
  EXPECT_FALSE(import(kRoot.substr(0, 700))) << "cut in a header";
  EXPECT_FALSE(import(tar_entry("a", std::string(2000, 'x')).substr(0, 1024))) << "cut in a file";
  EXPECT_FALSE(import(pax("size", "99999999999") + tar_entry("a", "x") + kEnd));
  EXPECT_FALSE(import(pax("size", "-1") + tar_entry("a", "x") + kEnd));
  EXPECT_FALSE(import(tar_entry("p", "999 path=x\n", 'x') + tar_entry("a", "x") + kEnd));
  EXPECT_FALSE(import(gzip(kRoot).substr(0, 60)));
  EXPECT_FALSE(import(gzip(kRoot) + "trailing"));
  EXPECT_FALSE(import(zstd(kRoot).substr(0, 60)));
}

TEST_F(Archive, TooManyEntriesAreNotIndexed) {
  std::string many;
  for (std::size_t i = 0; i <= 100; ++i) many += tar_entry(fmt::format("f{}", i), "");
  const auto index = index_tar(file(many + kEnd).get(), 100);
  ASSERT_TRUE(index);
  EXPECT_TRUE(index->cut);
  EXPECT_EQ(index->entries.size(), 100U);
}

TEST_F(Archive, ASmallFileCannotBecomeALargeOne) {
  const std::string zeros(kRatioFreeBytes + 40UL * 1024 * 1024, '\0');
  const std::string packed = gzip(zeros);
  ASSERT_LT(packed.size() * kRatioMax, zeros.size());
  const UniqueFd fd = file(packed);
  const auto sink = [](std::span<const std::byte>) { return Result<void>(); };
  const FilePart part{fd.get(), 0, packed.size()};
  EXPECT_EQ(unwrap(part, Packing::Gzip, kArchiveBytesMax, sink).error().code, Errc::TooLarge);
  EXPECT_EQ(unwrap(part, Packing::Gzip, 1000, sink).error().code, Errc::TooLarge);
}

}  // namespace
}  // namespace caisson::image::test
