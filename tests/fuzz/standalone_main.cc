// Replays a corpus through a fuzz target that was built without libFuzzer. Every argument is a file
// or a folder of files. The program ends with 0 when the target survived them all, and with 2 when
// there was nothing to replay: an empty corpus would otherwise look like a passed test.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kInputBytesMax = std::size_t{16} << 20;

std::optional<std::vector<std::uint8_t>> read_input(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad() || text.size() > kInputBytesMax) return std::nullopt;
  return std::vector<std::uint8_t>(text.begin(), text.end());
}

std::vector<std::filesystem::path> list_inputs(const std::filesystem::path& where) {
  std::vector<std::filesystem::path> inputs;
  if (!std::filesystem::is_directory(where)) {
    inputs.push_back(where);
    return inputs;
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(where)) {
    if (entry.is_regular_file()) inputs.push_back(entry.path());
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t replayed = 0;
  for (int i = 1; i < argc; ++i) {
    for (const std::filesystem::path& path : list_inputs(argv[i])) {
      const auto input = read_input(path);
      if (!input) {
        std::fprintf(stderr, "cannot read %s\n", path.c_str());
        return 1;
      }
      LLVMFuzzerTestOneInput(input->data(), input->size());
      ++replayed;
    }
  }
  std::printf("%zu inputs replayed\n", replayed);
  return replayed == 0 ? 2 : 0;
}
