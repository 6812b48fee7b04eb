// Any bytes are a tar stream or are refused; entries stay within their limits, and no safe name
// leads upward. The first byte says in which pieces the rest arrives: the result must not depend on
// it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

// The parser is part of a program for musl. Compiled in here, it runs under the fuzzer's
// instruments.
#include "guest/init/tar_format.cc"
#include "guest/init/tar_parser.cc"

namespace {

using caisson::init::TarEntry;
using caisson::init::TarParser;
namespace wire = caisson::wire;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_entry(const TarEntry& entry) {
  require(std::strlen(entry.name) <= wire::kPathMax && std::strlen(entry.link) <= wire::kPathMax);
  require((entry.mode & ~0777U) == 0 && entry.mtime_ns < 1000000000U);
  char safe[wire::kPathMax + 1];
  if (!caisson::init::tar_safe_name(entry.name, safe)) return;
  const std::string path = "/" + std::string(safe) + "/";
  require(path.find("/../") == std::string::npos && path.find("/./") == std::string::npos &&
          safe[0] != '/');
}

// What the stream says, as text.
std::string read(const std::uint8_t* data, std::size_t size, std::size_t step) {
  std::string seen;
  const auto parser = std::make_unique<TarParser>();
  for (std::size_t at = 0; at < size; at += step) {
    const std::size_t part = std::min(step, size - at);
    for (std::size_t done = 0;;) {
      std::size_t used = 0;
      const TarParser::Event event = parser->feed(data + at + done, part - done, used);
      done += used;
      require(done <= part);
      if (event == TarParser::Event::NeedMore) break;
      if (event == TarParser::Event::Bad) return seen + "!" + parser->error();
      if (event == TarParser::Event::Entry) {
        check_entry(parser->entry());
        seen += "\nentry " + std::string(parser->entry().name) + " ";
      }
      if (event == TarParser::Event::Content) {
        require(parser->content() >= data &&
                parser->content() + parser->content_size() <= data + size);
        seen.append(reinterpret_cast<const char*>(parser->content()), parser->content_size());
      }
    }
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = std::size_t{data[0]} * 3 + 1;
  require(read(data + 1, size - 1, step) == read(data + 1, size - 1, size));
  return 0;
}
