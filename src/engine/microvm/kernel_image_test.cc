#include "engine/microvm/kernel_image.h"

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <string>

#include "engine/microvm/lz4.h"
#include "engine/microvm/sha256.h"

namespace caisson::engine::microvm {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Bytes kernel() {
  std::string text =
      "\x7f"
      "ELF";
  for (int i = 0; i < 20'000; ++i) text += "a line of a kernel " + std::to_string(i % 97);
  return bytes_of(text);
}

Bytes gzip(const Bytes& plain) {
  Bytes out(plain.size() + 1024);
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  ::deflateEnd(&stream);
  return out;
}

Bytes xz(const Bytes& plain) {
  Bytes out(plain.size() + 1024);
  std::size_t used = 0;
  EXPECT_EQ(::lzma_easy_buffer_encode(
                1, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const std::uint8_t*>(plain.data()),
                plain.size(), reinterpret_cast<std::uint8_t*>(out.data()), &used, out.size()),
            LZMA_OK);
  out.resize(used);
  return out;
}

Bytes zstd(const Bytes& plain) {
  Bytes out(::ZSTD_compressBound(plain.size()));
  out.resize(::ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), 1));
  return out;
}

Bytes with_size(Bytes block) {
  const auto size = static_cast<std::uint32_t>(block.size());
  Bytes out(4);
  std::memcpy(out.data(), &size, 4);
  out.insert(out.end(), block.begin(), block.end());
  return out;
}

Bytes lz4_frame(std::initializer_list<std::string_view> blocks) {
  Bytes out = bytes_of("\x02\x21\x4c\x18");
  for (const std::string_view block : blocks) {
    const Bytes whole = with_size(bytes_of(block));
    out.insert(out.end(), whole.begin(), whole.end());
  }
  return out;
}

// As a build of the kernel lays it out, with the payload's size behind it.
Bytes image_of(const Bytes& payload) {
  Bytes image(512 * 3 + 64);
  image[0x1f1] = std::byte{2};
  std::memcpy(image.data() + 0x202, "HdrS", 4);
  const std::uint16_t version = 0x20f;
  std::memcpy(image.data() + 0x206, &version, sizeof(version));
  const std::uint32_t at = 64;
  const auto size = static_cast<std::uint32_t>(payload.size());
  std::memcpy(image.data() + 0x248, &at, sizeof(at));
  std::memcpy(image.data() + 0x24c, &size, sizeof(size));
  image.insert(image.end(), payload.begin(), payload.end());
  image.resize(image.size() + 100);
  return image;
}

TEST(KernelImage, IsFoundInEveryPacking) {
  for (Bytes payload : {gzip(kernel()), xz(kernel()), zstd(kernel())}) {
    payload.resize(payload.size() + 4);
    const auto got = extract_kernel(image_of(payload));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, kernel());
  }
  EXPECT_EQ(*extract_kernel(kernel()), kernel());
}

TEST(KernelImage, RefusesWhatIsDamaged) {
  for (const Bytes& payload : {gzip(kernel()), xz(kernel()), zstd(kernel())}) {
    Bytes cut = payload;
    cut.resize(cut.size() / 2);
    EXPECT_FALSE(extract_kernel(image_of(cut)));
    Bytes bent = payload;
    for (std::size_t i = 20; i < 60; ++i) bent[i] ^= std::byte{0xff};
    EXPECT_FALSE(extract_kernel(image_of(bent)));
  }
  EXPECT_FALSE(extract_kernel(bytes_of("no kernel")));
  EXPECT_FALSE(extract_kernel(image_of(bytes_of("BZh9 is not known"))));
  EXPECT_FALSE(extract_kernel(image_of(gzip(bytes_of("no ELF file")))));
  Bytes outside = image_of(gzip(kernel()));
  const std::uint32_t far = 0xffffff00;
  std::memcpy(outside.data() + 0x24c, &far, sizeof(far));
  EXPECT_FALSE(extract_kernel(outside));
}

TEST(KernelImage, StopsAtItsLimit) {
  const Bytes zeros(4UL << 20U);
  for (const Bytes& packed : {gzip(zeros), xz(zeros), zstd(zeros)}) {
    const auto got = unpack(packed, 1UL << 20U);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::TooLarge);
  }
}

TEST(Lz4, UnpacksRunsAndCopies) {
  // "abcab" + a copy of 3 back that overlaps itself, then a last run.
  const auto got = from_lz4(lz4_frame({std::string_view("\x52"
                                                        "abcab\x03\x00\x10"
                                                        "Z",
                                                        10)}),
                            1000);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, bytes_of("abcabcabcabZ"));
}

TEST(Lz4, UnpacksLongLengths) {
  std::string block = "\xf0";
  block += static_cast<char>(255);
  block += static_cast<char>(30);  // 15 + 255 + 30 = 300 literals
  block += std::string(300, 'x');
  const auto got = from_lz4(lz4_frame({block, block}), 1000);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, bytes_of(std::string(600, 'x')));
  EXPECT_EQ(from_lz4(lz4_frame({block, block}), 599).error().code, Errc::TooLarge);
}

TEST(Lz4, RefusesWhatReachesOutside) {
  for (const std::string_view block : {
           std::string_view("\x14"
                            "a\x02\x00",
                            4),  // a copy from before the beginning
           std::string_view("\x14"
                            "a\x00\x00",
                            4),  // from nowhere
           std::string_view("\x50"
                            "ab",
                            3),  // fewer literals than it says
           std::string_view("\x1f"
                            "a\x01\x00",
                            4),                  // a length that does not end
           std::string_view("\xf0\xff\xff", 3),  // the same, of literals
           std::string_view("\x14"
                            "a\x01",
                            3),  // half an offset
       }) {
    EXPECT_FALSE(from_lz4(lz4_frame({block}), 1000));
  }
  EXPECT_FALSE(from_lz4(bytes_of("\x02\x21\x4c\x18"), 1000));
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(bytes_of(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace caisson::engine::microvm
