// guest/layer/tar_header.h — the fields of one tar header and the records of an extended one, as
// values. Pure: bytes in, values out.
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "guest/layer/tree.h"

namespace caisson::layer {

inline constexpr std::size_t kTarBlock = 512;
inline constexpr std::size_t kRegionsMax = 64UL * 1024;  // of one sparse file

struct TarRegion {
  std::uint64_t offset;
  std::uint64_t size;
};

struct TarField {
  std::size_t at;
  std::size_t size;
};
inline constexpr TarField kTarName{0, 100};
inline constexpr TarField kTarMode{100, 8};
inline constexpr TarField kTarUid{108, 8};
inline constexpr TarField kTarGid{116, 8};
inline constexpr TarField kTarSize{124, 12};
inline constexpr TarField kTarMtime{136, 12};
inline constexpr TarField kTarChecksum{148, 8};
inline constexpr std::size_t kTarType = 156;
inline constexpr TarField kTarLink{157, 100};
inline constexpr TarField kTarMagic{257, 8};
inline constexpr TarField kTarMajor{329, 8};
inline constexpr TarField kTarMinor{337, 8};
inline constexpr TarField kTarPrefix{345, 155};

using TarBlock = std::span<const std::byte, kTarBlock>;

// Octal digits, or a binary number of either sign where the first bit is set. Nothing where it is
// neither, or has more than 63 bits. An empty field is 0.
[[nodiscard]] std::optional<std::int64_t> tar_number(std::span<const std::byte> field);
[[nodiscard]] std::optional<std::int64_t> tar_number(TarBlock block, TarField field);
[[nodiscard]] std::string tar_text(TarBlock block, TarField field);
[[nodiscard]] bool tar_is_zero(TarBlock block);
// The sum of the bytes, whether its writer took them as signed or not.
[[nodiscard]] bool tar_checksum_holds(TarBlock block);
// Name and prefix; who wrote the header decides where the prefix ends.
[[nodiscard]] std::string tar_name(TarBlock block);

// What an extended header says of the entry behind it.
struct PaxRecords {
  std::optional<std::string> path;
  std::optional<std::string> link;
  std::optional<std::int64_t> size;
  std::optional<std::int64_t> uid;
  std::optional<std::int64_t> gid;
  std::optional<struct timespec> mtime;
  std::vector<Attribute> attributes;  // only those that a layer keeps
  // GNU's three ways to say where a sparse file has data.
  std::optional<std::int64_t> sparse_size;
  std::optional<std::string> sparse_name;
  std::vector<TarRegion> regions;
  bool sparse = false;
  bool sparse_map_in_data = false;
};

[[nodiscard]] Result<void> parse_pax(std::string_view text, PaxRecords& into);

// A whole decimal number without a sign in front of its digits but '-'.
[[nodiscard]] std::optional<std::int64_t> parse_decimal(std::string_view text);

}  // namespace caisson::layer
