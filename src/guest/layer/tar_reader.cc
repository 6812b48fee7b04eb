#include "guest/layer/tar_reader.h"

#include <algorithm>
#include <utility>

#include "guest/layer/layer.h"

namespace caisson::layer {
namespace {

std::uint64_t padding_of(std::uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

std::unexpected<Error> bad(std::string what) {
  return failure(Errc::InvalidArgument, "the archive has " + std::move(what));
}

std::optional<TarKind> kind_of(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '7':
    case 'S':
      return TarKind::File;
    case '1':
      return TarKind::HardLink;
    case '2':
      return TarKind::Link;
    case '3':
      return TarKind::CharDevice;
    case '4':
      return TarKind::BlockDevice;
    case '5':
      return TarKind::Folder;
    case '6':
      return TarKind::Fifo;
    default:
      return std::nullopt;
  }
}

bool is_extension(char type) { return type == 'x' || type == 'g' || type == 'L' || type == 'K'; }

std::unexpected<Error> no_tar(const std::string& why) {
  return failure(Errc::InvalidArgument, "this is not a tar archive: " + why);
}

// Regions of one old sparse header: pairs of numbers until one is empty.
Result<void> take_pairs(std::span<const std::byte> bytes, std::vector<TarRegion>& out) {
  constexpr std::size_t kNumber = 12;
  for (std::size_t at = 0; at + 2 * kNumber <= bytes.size(); at += 2 * kNumber) {
    if (bytes[at] == std::byte{0}) break;
    const std::optional<std::int64_t> offset = tar_number(bytes.subspan(at, kNumber));
    const std::optional<std::int64_t> size = tar_number(bytes.subspan(at + kNumber, kNumber));
    if (!offset || !size || *offset < 0 || *size < 0) return bad("a broken sparse header");
    if (out.size() == kRegionsMax) return bad("a sparse file with too many regions");
    out.push_back({static_cast<std::uint64_t>(*offset), static_cast<std::uint64_t>(*size)});
  }
  return {};
}

}  // namespace

Result<std::optional<TarEntry>> TarReader::next() {
  TRY(stream_.skip(left_));
  // Some writers leave out the padding of the last entry.
  for (std::uint64_t rest = std::exchange(padding_, 0); rest != 0;) {
    const std::span<const std::byte> passed = TRY(stream_.take(rest));
    if (passed.empty()) break;
    rest -= passed.size();
  }
  left_ = 0;
  long_name_.reset();
  long_link_.reset();
  pax_ = PaxRecords{};
  for (std::size_t extensions = 0;; ++extensions) {
    Buffer block{};
    if (!TRY(read_header(block))) {
      if (extensions != 0) return bad("an extended header with nothing behind it");
      return std::nullopt;
    }
    const std::optional<std::int64_t> size = tar_number(TarBlock(block), kTarSize);
    if (!size || *size < 0) return bad("a header with a bad size");
    char type = static_cast<char>(block[kTarType]);
    if (type == 'X' && origin_ == Origin::Anybody)
      type = 'x';  // Sun's, before there was a standard
    if (!is_extension(type)) return TRY(make_entry(TarBlock(block), *size));
    if (extensions == kExtensionsMax) return bad("too many extended headers before one entry");
    TRY(take_extension(type, static_cast<std::uint64_t>(*size)));
  }
}

Result<std::span<const std::byte>> TarReader::content(std::uint64_t bytes_max) {
  if (left_ == 0) return std::span<const std::byte>();
  const std::span<const std::byte> bytes = TRY(stream_.take(std::min(left_, bytes_max)));
  if (bytes.empty()) return failure(Errc::InvalidArgument, "the archive ends inside an entry");
  left_ -= bytes.size();
  return bytes;
}

// False at the end: two blocks of zeros, or no more bytes.
Result<bool> TarReader::read_header(Buffer& block) {
  const std::size_t got = TRY(stream_.read(block));
  if (got == 0) return false;
  if (got != kTarBlock) {
    return begun_ ? bad("a header that is cut off") : no_tar("its first header is cut off");
  }
  if (tar_is_zero(TarBlock(block))) {
    Buffer second{};
    const std::size_t more = TRY(stream_.read(second));
    if (more == kTarBlock && !tar_is_zero(TarBlock(second))) {
      return bad("entries behind a block of zeros");
    }
    return false;
  }
  if (!tar_checksum_holds(TarBlock(block))) {
    return begun_ ? bad("a header with a wrong checksum")
                  : no_tar("its first header has a wrong checksum");
  }
  begun_ = true;
  return true;
}

Result<std::string> TarReader::read_extension(std::uint64_t size) {
  if (size > kExtensionBytesMax) {
    return failure(Errc::TooLarge, "the archive has an extended header of " + std::to_string(size) +
                                       " bytes, at most " + std::to_string(kExtensionBytesMax));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  const std::size_t got = TRY(stream_.read(std::as_writable_bytes(std::span(text))));
  if (got != text.size()) return bad("an extended header that is cut off");
  TRY(stream_.skip(padding_of(size)));
  return text;
}

Result<void> TarReader::take_extension(char type, std::uint64_t size) {
  std::string text = TRY(read_extension(size));
  if (type == 'g') return {};  // defaults for all entries: the usual readers obey none
  if (type == 'x') {
    // The last one counts, as a whole.
    pax_ = PaxRecords{};
    return parse_pax(text, pax_);
  }
  // GNU ends its names with a NUL.
  text.resize(std::min(text.find('\0'), text.size()));
  (type == 'L' ? long_name_ : long_link_) = std::move(text);
  return {};
}

Result<TarEntry> TarReader::make_entry(TarBlock block, std::int64_t size) {
  TarEntry entry;
  const char type = static_cast<char>(block[kTarType]);
  // Where GNU's way and the standard's disagree about a name, GNU's counts.
  entry.name = long_name_ ? *long_name_ : pax_.path ? *pax_.path : tar_name(block);
  entry.link = long_link_ ? *long_link_ : pax_.link ? *pax_.link : tar_text(block, kTarLink);
  const std::optional<TarKind> kind = kind_of(type);
  if (!kind && origin_ == Origin::Image) {
    return bad("an entry of the unknown type '" + std::string(1, type) + "'");
  }
  entry.kind = kind.value_or(TarKind::Other);
  // The oldest tars wrote a folder as a file whose name ends in a slash.
  if (type == '\0' && entry.name.ends_with('/')) entry.kind = TarKind::Folder;
  const auto mode = tar_number(block, kTarMode);
  const auto uid = pax_.uid ? pax_.uid : tar_number(block, kTarUid);
  const auto gid = pax_.gid ? pax_.gid : tar_number(block, kTarGid);
  const auto mtime = tar_number(block, kTarMtime);
  if (!mode || !uid || !gid || !mtime)
    return bad("a header with a bad number, at '" + entry.name + "'");
  entry.mode = static_cast<std::uint32_t>(*mode & 07777);
  entry.uid = *uid;
  entry.gid = *gid;
  entry.mtime = pax_.mtime ? *pax_.mtime : timespec{*mtime, 0};
  entry.attributes = std::move(pax_.attributes);
  if (entry.kind == TarKind::CharDevice || entry.kind == TarKind::BlockDevice) {
    entry.device_major = tar_number(block, kTarMajor).value_or(0);
    entry.device_minor = tar_number(block, kTarMinor).value_or(0);
  }
  // Only files have content, whatever the size of something else says.
  if (entry.kind != TarKind::File && entry.kind != TarKind::Other) return entry;
  left_ = static_cast<std::uint64_t>(pax_.size ? *pax_.size : size);
  padding_ = padding_of(left_);
  entry.size = left_;
  if (type == 'S') {
    TRY(take_old_sparse(block, entry));
  } else if (pax_.sparse && entry.kind == TarKind::File) {
    TRY(take_new_sparse(entry));
  }
  if (entry.sparse) TRY(check_regions(entry));
  return entry;
}

// GNU's first way: four regions in the header, more in blocks behind it, and the real size.
Result<void> TarReader::take_old_sparse(TarBlock block, TarEntry& entry) {
  constexpr TarField kRegions{386, 96};
  constexpr std::size_t kExtended = 482;
  constexpr TarField kRealSize{483, 12};
  constexpr std::size_t kMoreRegions = 504;  // bytes of regions in a block of its own
  const std::optional<std::int64_t> real = tar_number(block, kRealSize);
  if (!real || *real < 0) return bad("a broken sparse header");
  entry.sparse = true;
  entry.size = static_cast<std::uint64_t>(*real);
  TRY(take_pairs(std::span<const std::byte>(block).subspan(kRegions.at, kRegions.size),
                 entry.regions));
  bool more = block[kExtended] != std::byte{0};
  for (std::size_t blocks = 0; more; ++blocks) {
    if (blocks == kRegionsMax) return bad("a sparse file with too many regions");
    Buffer next{};
    if (TRY(stream_.read(next)) != kTarBlock) return bad("a sparse header that is cut off");
    TRY(take_pairs(std::span<const std::byte>(next).first(kMoreRegions), entry.regions));
    more = next[kMoreRegions] != std::byte{0};
  }
  return {};
}

Result<void> TarReader::take_new_sparse(TarEntry& entry) {
  entry.sparse = true;
  if (pax_.sparse_name) entry.name = *pax_.sparse_name;
  if (!pax_.sparse_size) return bad("a sparse file without its size");
  entry.size = static_cast<std::uint64_t>(*pax_.sparse_size);
  entry.regions = std::move(pax_.regions);
  return pax_.sparse_map_in_data ? read_sparse_map(entry) : Result<void>{};
}

Result<void> TarReader::read_inside(std::span<std::byte> out) {
  if (out.size() > left_ || TRY(stream_.read(out)) != out.size()) {
    return bad("a sparse map that is cut off");
  }
  left_ -= out.size();
  return {};
}

// GNU's last way: the map stands before the data, as lines of decimal numbers, in whole blocks.
Result<void> TarReader::read_sparse_map(TarEntry& entry) {
  constexpr std::size_t kDigitsMax = 20;
  std::vector<std::int64_t> numbers;
  std::string digits;
  entry.regions.clear();
  for (;;) {
    Buffer block{};
    TRY(read_inside(block));
    for (const std::byte byte : block) {
      const char letter = static_cast<char>(byte);
      if (letter != '\n') {
        if (digits.size() == kDigitsMax) return bad("a broken sparse map");
        digits += letter;
        continue;
      }
      const std::optional<std::int64_t> number = parse_decimal(std::exchange(digits, {}));
      if (!number || *number < 0) return bad("a broken sparse map");
      numbers.push_back(*number);
      if (numbers[0] > static_cast<std::int64_t>(kRegionsMax)) {
        return bad("a sparse file with too many regions");
      }
      if (numbers.size() == 1 + 2 * static_cast<std::size_t>(numbers[0])) {
        for (std::size_t i = 1; i < numbers.size(); i += 2) {
          entry.regions.push_back(
              {static_cast<std::uint64_t>(numbers[i]), static_cast<std::uint64_t>(numbers[i + 1])});
        }
        return {};
      }
    }
  }
}

Result<void> TarReader::check_regions(const TarEntry& entry) const {
  std::uint64_t end = 0;
  std::uint64_t sum = 0;
  for (const TarRegion& region : entry.regions) {
    if (region.offset < end || region.size > entry.size ||
        region.offset > entry.size - region.size) {
      return bad("a sparse file whose regions do not fit, at '" + entry.name + "'");
    }
    end = region.offset + region.size;
    sum += region.size;
  }
  if (sum != left_) return bad("a sparse file whose data does not fit, at '" + entry.name + "'");
  return {};
}

}  // namespace caisson::layer
