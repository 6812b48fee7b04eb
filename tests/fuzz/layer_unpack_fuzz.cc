// Any bytes are an image's layer or are refused; either way nothing outside of the target is
// touched, no whiteout's name reaches the tree, and no owner or mode is beyond what a layer may
// have. The target lies in a folder of its own beside a file that must stay as it is.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/unique_fd.h"
#include "guest/layer/layer.h"

namespace {

namespace fs = std::filesystem;
namespace layer = caisson::layer;
namespace wire = caisson::wire;

constexpr char kWitness[] = "untouched";

void require(bool holds) {
  if (!holds) std::abort();
}

class Deaf final : public layer::Teller {
 public:
  caisson::Result<void> progress(const wire::LayerProgress& /*progress*/) override { return {}; }
  caisson::Result<void> entry(const layer::Finding& /*found*/,
                              const std::string& /*path*/) override {
    return {};
  }
};

// A folder of this run's own, gone with it.
class Home {
 public:
  Home() {
    std::string name = (fs::temp_directory_path() / "caisson-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  ~Home() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const fs::path& home() {
  static const Home folder;
  return folder.path();
}

void check_tree(const fs::path& root) {
  for (const fs::directory_entry& item : fs::recursive_directory_iterator(root)) {
    require(!item.path().filename().string().starts_with(".wh."));
    struct stat facts{};
    require(::lstat(item.path().c_str(), &facts) == 0);
    require((facts.st_mode & (S_ISUID | S_ISGID)) == 0);
    require(facts.st_uid <= 65534 && facts.st_gid <= 65534);
    require(!S_ISBLK(facts.st_mode) && !S_ISSOCK(facts.st_mode));
    require(!S_ISCHR(facts.st_mode) || facts.st_rdev == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::error_code ignored;
  fs::remove_all(home() / "out", ignored);
  fs::create_directories(home() / "out");
  std::ofstream(home() / "witness") << kWitness;
  const caisson::UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
  require(::write(file.get(), data, size) == static_cast<ssize_t>(size));
  ::lseek(file.get(), 0, SEEK_SET);
  const caisson::UniqueFd root(::open(home().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  wire::Job job{};
  job.kind = wire::JobKind::Unpack;
  job.bytes_max = std::uint64_t{4} * 1024 * 1024;
  job.entries_max = 500;
  Deaf teller;
  const auto done = layer::run(layer::Work{root.get(), job, "", file.get()}, teller);
  // Without a failure of the machine only these may be said.
  if (!done) require(layer::to_wire(done.error()).error != wire::LayerError::NoSpace);
  check_tree(home() / "out");
  std::ifstream witness(home() / "witness");
  require(std::string(std::istreambuf_iterator<char>(witness), {}) == kWitness);
  require(std::distance(fs::directory_iterator(home()), fs::directory_iterator()) == 2);
  return 0;
}
