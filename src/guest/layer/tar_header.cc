#include "guest/layer/tar_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "guest/layer/layer.h"

namespace caisson::layer {
namespace {

std::unexpected<Error> bad_record(std::string_view key, std::string_view value) {
  constexpr std::size_t kShown = 64;
  return failure(Errc::InvalidArgument,
                 "the archive's field " + std::string(key.substr(0, kShown)) +
                     " has the bad value '" + std::string(value.substr(0, kShown)) + "'");
}

std::optional<std::int64_t> binary_number(std::span<const std::byte> field) {
  // The first bit says that it is binary, the second is its sign.
  const bool negative = (field[0] & std::byte{0x40}) != std::byte{0};
  auto value = negative ? ~std::uint64_t{0} : std::uint64_t{0};
  for (std::size_t i = 0; i < field.size(); ++i) {
    auto byte = std::to_integer<std::uint64_t>(field[i]);
    if (i == 0) byte = negative ? byte | 0x80U : byte & 0x7fU;
    const std::uint64_t lost = value >> 55U;  // the sign's copies, or there is no room
    if (lost != 0 && lost != 0x1ff) return std::nullopt;
    value = (value << 8U) | byte;
  }
  return static_cast<std::int64_t>(value);
}

bool parse_time(std::string_view text, struct timespec& out) {
  constexpr std::size_t kDigits = 9;
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::optional<std::int64_t> seconds = parse_decimal(text.substr(0, point));
  if (!seconds) return false;
  long nanoseconds = 0;
  long unit = 100'000'000;
  for (std::size_t i = point + 1; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (i - point <= kDigits) nanoseconds += unit * (text[i] - '0');
    unit /= 10;
  }
  out.tv_sec = *seconds;
  out.tv_nsec = nanoseconds;
  // The fraction of a time before 1970 counts away from zero too.
  if (text.starts_with('-') && nanoseconds != 0) {
    if (*seconds == INT64_MIN) return false;
    out.tv_sec -= 1;
    out.tv_nsec = 1'000'000'000 - nanoseconds;
  }
  return true;
}

// An empty value takes back what was said before, here and below.
bool take_size(std::string_view value, std::optional<std::int64_t>& out) {
  out = parse_decimal(value);
  return value.empty() || (out && *out >= 0);
}

bool take_text(std::string_view value, std::optional<std::string>& out) {
  if (value.find('\0') != std::string_view::npos) return false;
  out.reset();
  if (!value.empty()) out.emplace(value);
  return true;
}

bool take_owner(std::string_view value, std::optional<std::int64_t>& out) {
  out = parse_decimal(value);
  return value.empty() || out;
}

// "offset,size,offset,size…"
bool take_map(std::string_view value, std::vector<TarRegion>& out) {
  out.clear();
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    const std::optional<std::int64_t> number = parse_decimal(value.substr(at, end - at));
    if (!number || *number < 0 || numbers.size() == 2 * kRegionsMax) return false;
    numbers.push_back(*number);
    at = end + 1;
  }
  if (numbers.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    out.push_back(
        {static_cast<std::uint64_t>(numbers[i]), static_cast<std::uint64_t>(numbers[i + 1])});
  }
  return true;
}

bool take_sparse(std::string_view key, std::string_view value, PaxRecords& into) {
  into.sparse = true;
  std::optional<std::int64_t> number;
  if (key == "major") {
    into.sparse_map_in_data = value == "1";
    return value == "0" || value == "1";
  }
  if (key == "name") return take_text(value, into.sparse_name);
  if (key == "size" || key == "realsize") return take_size(value, into.sparse_size);
  if (key == "map") return take_map(value, into.regions);
  if (key == "offset") {
    if (!take_size(value, number) || !number || into.regions.size() == kRegionsMax) return false;
    into.regions.push_back({static_cast<std::uint64_t>(*number), 0});
    return true;
  }
  if (key == "numbytes") {
    if (!take_size(value, number) || !number || into.regions.empty()) return false;
    into.regions.back().size = static_cast<std::uint64_t>(*number);
    return true;
  }
  return true;  // "minor", "numblocks": said by the rest as well
}

Result<void> take_record(std::string_view key, std::string_view value, PaxRecords& into) {
  constexpr std::string_view kSparse = "GNU.sparse.";
  constexpr std::string_view kAttribute = "SCHILY.xattr.";
  bool good = true;
  struct timespec mtime{};
  if (key == "path") good = take_text(value, into.path);
  if (key == "linkpath") good = take_text(value, into.link);
  if (key == "size") good = take_size(value, into.size);
  if (key == "uid") good = take_owner(value, into.uid);
  if (key == "gid") good = take_owner(value, into.gid);
  if (key == "mtime") {
    good = value.empty() || parse_time(value, mtime);
    into.mtime.reset();
    if (!value.empty()) into.mtime = mtime;
  }
  if (key.starts_with(kSparse)) good = take_sparse(key.substr(kSparse.size()), value, into);
  if (!good) return bad_record(key, value);
  if (!key.starts_with(kAttribute)) return {};
  const std::string_view name = key.substr(kAttribute.size());
  if (!is_kept_attribute(name) || name.find('\0') != std::string_view::npos) return {};
  if (value.size() > kAttributeBytesMax || into.attributes.size() == kAttributesMax) {
    return failure(Errc::TooLarge, "the archive has too many or too large attributes at one entry");
  }
  into.attributes.push_back({std::string(name), std::string(value)});
  return {};
}

}  // namespace

std::optional<std::int64_t> parse_decimal(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> tar_number(std::span<const std::byte> field) {
  if ((field[0] & std::byte{0x80}) != std::byte{0}) return binary_number(field);
  std::size_t at = 0;
  const auto is_blank = [&](std::size_t i) {
    return field[i] == std::byte{' '} || field[i] == std::byte{0};
  };
  while (at < field.size() && is_blank(at)) ++at;
  std::uint64_t value = 0;
  for (; at < field.size() && !is_blank(at); ++at) {
    const auto digit = std::to_integer<std::uint64_t>(field[at]) - '0';
    if (digit > 7 || (value >> 59U) != 0) return std::nullopt;
    value = (value << 3U) | digit;
  }
  for (; at < field.size(); ++at) {
    if (!is_blank(at)) return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> tar_number(TarBlock block, TarField field) {
  return tar_number(std::span<const std::byte>(block).subspan(field.at, field.size));
}

std::string tar_text(TarBlock block, TarField field) {
  const char* text = reinterpret_cast<const char*>(block.data()) + field.at;
  return {text, ::strnlen(text, field.size)};
}

bool tar_is_zero(TarBlock block) {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

bool tar_checksum_holds(TarBlock block) {
  const std::optional<std::int64_t> said = tar_number(block, kTarChecksum);
  std::int64_t as_unsigned = 0;
  std::int64_t as_signed = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kTarChecksum.at && i < kTarChecksum.at + kTarChecksum.size;
    const auto byte = own ? std::uint8_t{' '} : std::to_integer<std::uint8_t>(block[i]);
    as_unsigned += byte;
    as_signed += static_cast<std::int8_t>(byte);
  }
  return said && (*said == as_unsigned || *said == as_signed);
}

std::string tar_name(TarBlock block) {
  constexpr TarField kStarPrefix{345, 131};  // star keeps times behind it, and says so at the end
  const char* text = reinterpret_cast<const char*>(block.data());
  std::string name = tar_text(block, kTarName);
  // GNU's own format has no prefix; its magic has a blank where this one has a NUL.
  if (std::memcmp(text + kTarMagic.at, "ustar\0", 6) != 0) return name;
  const bool star = std::memcmp(text + kTarBlock - 4, "tar\0", 4) == 0;
  const std::string prefix = tar_text(block, star ? kStarPrefix : kTarPrefix);
  return prefix.empty() ? name : prefix + "/" + name;
}

// "size key=value\n", where size counts itself.
Result<void> parse_pax(std::string_view text, PaxRecords& into) {
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::optional<std::int64_t> size =
        blank == std::string_view::npos ? std::nullopt : parse_decimal(text.substr(0, blank));
    const bool fits = size && *size > static_cast<std::int64_t>(blank) + 2 &&
                      static_cast<std::uint64_t>(*size) <= text.size() &&
                      text[static_cast<std::size_t>(*size) - 1] == '\n';
    if (!fits) return failure(Errc::InvalidArgument, "the archive has a broken extended header");
    const auto whole = static_cast<std::size_t>(*size);
    const std::string_view record = text.substr(blank + 1, whole - blank - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return failure(Errc::InvalidArgument, "the archive has a broken extended header");
    }
    TRY(take_record(record.substr(0, equals), record.substr(equals + 1), into));
    text.remove_prefix(whole);
  }
  return {};
}

}  // namespace caisson::layer
