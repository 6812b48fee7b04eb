#include "guest/layer/tar_writer.h"

#include <algorithm>
#include <cstring>

#include "guest/layer/tar_header.h"

namespace caisson::layer {
namespace {

constexpr std::uint64_t kOctalMax = (std::uint64_t{1} << 33U) - 1;  // eleven octal digits

constexpr std::uint32_t kOctalIdMax = 07777777;

using Header = std::array<char, kTarBlock>;

void put_octal(Header& header, TarField field, std::uint64_t value) {
  for (std::size_t i = field.size - 1; i > 0; --i) {
    header[field.at + i - 1] = static_cast<char>('0' + (value & 7U));
    value >>= 3U;
  }
}

void put_text(Header& header, TarField field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), field.size),
              header.begin() + static_cast<std::ptrdiff_t>(field.at));
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

Header make_header(const TarItem& item) {
  constexpr TarField kDigits{kTarChecksum.at, kTarChecksum.size - 1};
  Header header{};
  put_text(header, kTarName, item.name);
  put_text(header, kTarLink, item.link);
  put_octal(header, kTarMode, item.mode & 07777U);
  put_octal(header, kTarUid, item.uid <= kOctalIdMax ? item.uid : 0);
  put_octal(header, kTarGid, item.gid <= kOctalIdMax ? item.gid : 0);
  put_octal(header, kTarSize, item.size <= kOctalMax ? item.size : 0);
  const auto seconds = static_cast<std::uint64_t>(std::max<std::int64_t>(item.mtime.tv_sec, 0));
  put_octal(header, kTarMtime, std::min(seconds, kOctalMax));
  header[kTarType] = item.type;
  put_text(header, kTarMagic, std::string_view("ustar\00000", 8));
  std::uint32_t sum = kTarChecksum.size * ' ';
  for (const char byte : header) sum += static_cast<std::uint8_t>(byte);
  put_octal(header, kDigits, sum);
  header[kTarChecksum.at + kTarChecksum.size - 1] = ' ';
  return header;
}

// "size key=value\n", where size counts itself.
void put_record(std::string& to, std::string_view key, std::string_view value) {
  const std::size_t rest = 1 + key.size() + 1 + value.size() + 1;
  std::size_t total = rest + std::to_string(rest).size();
  total = rest + std::to_string(total).size();
  to += std::to_string(total);
  to += ' ';
  to += key;
  to += '=';
  to += value;
  to += '\n';
}

std::string time_text(const struct timespec& time) {
  std::int64_t seconds = time.tv_sec;
  std::int64_t fraction = time.tv_nsec;
  const bool negative = seconds < 0;
  // Before 1970 the fraction counts away from zero, as the seconds do.
  if (negative && fraction != 0) {
    seconds += 1;
    fraction = 1'000'000'000 - fraction;
  }
  std::string digits = std::to_string(fraction);
  digits.insert(0, 9 - digits.size(), '0');
  const std::string whole = std::to_string(seconds);
  return (negative && seconds == 0 ? "-" : "") + whole + (fraction != 0 ? "." + digits : "");
}

std::string make_records(const TarItem& item) {
  std::string records;
  const bool time_fits = item.mtime.tv_nsec == 0 && item.mtime.tv_sec >= 0 &&
                         static_cast<std::uint64_t>(item.mtime.tv_sec) <= kOctalMax;
  for (const Attribute& one : item.attributes) {
    put_record(records, "SCHILY.xattr." + one.name, one.value);
  }
  if (item.gid > kOctalIdMax) put_record(records, "gid", std::to_string(item.gid));
  if (item.link.size() > kTarLink.size || !is_plain(item.link)) {
    put_record(records, "linkpath", item.link);
  }
  if (!time_fits) put_record(records, "mtime", time_text(item.mtime));
  if (item.name.size() > kTarName.size || !is_plain(item.name)) {
    put_record(records, "path", item.name);
  }
  if (item.size > kOctalMax) put_record(records, "size", std::to_string(item.size));
  if (item.uid > kOctalIdMax) put_record(records, "uid", std::to_string(item.uid));
  return records;
}

std::span<const std::byte> bytes_of(const Header& header) {
  return std::as_bytes(std::span(header));
}

}  // namespace

Result<void> TarWriter::begin(const TarItem& item) {
  // In a header there is room for a short target, and records say a long one.
  constexpr std::string_view kLinkRecord = "linkpath=";
  const bool long_link = item.link.size() > kTarLink.size;
  std::uint64_t long_link_position = 0;
  const std::string records = make_records(item);
  if (!records.empty()) {
    TarItem extended;
    extended.name = "PaxHeaders/entry";
    extended.type = 'x';
    extended.mode = 0644;
    extended.size = records.size();
    const Header header = make_header(extended);
    TRY(put(bytes_of(header)));
    const std::size_t link = records.find(kLinkRecord);
    if (link != std::string::npos) long_link_position = position_ + link + kLinkRecord.size();
    TRY(put(std::as_bytes(std::span(records))));
    in_entry_ = records.size();
    TRY(end_content());
  }
  const Header header = make_header(item);
  in_entry_ = 0;
  link_position_ = long_link ? long_link_position : position_ + kTarLink.at;
  return put(bytes_of(header));
}

Result<void> TarWriter::content(std::span<const std::byte> bytes) {
  in_entry_ += bytes.size();
  return put(bytes);
}

Result<void> TarWriter::end_content() {
  const std::array<std::byte, kTarBlock> zeros{};
  const auto padding = static_cast<std::size_t>((kTarBlock - in_entry_ % kTarBlock) % kTarBlock);
  in_entry_ = 0;
  return put(std::span(zeros).first(padding));
}

Result<std::array<std::uint8_t, 32>> TarWriter::finish() {
  const std::array<std::byte, 2 * kTarBlock> zeros{};
  TRY(put(zeros));
  TRY(flush());
  return digest_.finish();
}

Result<void> TarWriter::put(std::span<const std::byte> bytes) {
  TRY(meter_.add_out(bytes.size()));
  position_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), kBufferBytes - buffer_.size());
    const auto from = bytes.first(part);
    buffer_.insert(buffer_.end(), from.begin(), from.end());
    bytes = bytes.subspan(part);
    if (buffer_.size() == kBufferBytes) TRY(flush());
  }
  return {};
}

Result<void> TarWriter::flush() {
  if (hashing_ == Hashing::Wanted) digest_.add(buffer_);
  TRY(write_all(fd_, buffer_));
  buffer_.clear();
  return {};
}

}  // namespace caisson::layer
