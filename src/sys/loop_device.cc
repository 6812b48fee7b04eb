#include "sys/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>

#include "sys/file.h"

namespace caisson::sys {
namespace {

constexpr int kAttemptsMax = 64;  // others take devices, too
constexpr std::size_t kDevicesMax = 4096;
constexpr std::string_view kPrefix = "loop";

Result<LoopDevice> open_device(const std::string& path) {
  LoopDevice made;
  made.device = TRY(open_at(AT_FDCWD, path, O_RDWR));
  made.path = path;
  return made;
}

bool shows(int device, const struct stat& file) {
  loop_info64 info{};
  if (::ioctl(device, LOOP_GET_STATUS64, &info) != 0) return false;
  return info.lo_inode == file.st_ino && info.lo_device == file.st_dev;
}

Result<LoopDevice> find(const struct stat& file) {
  const UniqueFd blocks = TRY(open_at(AT_FDCWD, "/sys/block", O_RDONLY | O_DIRECTORY));
  for (const std::string& name : TRY(list_dir(blocks.get(), kDevicesMax))) {
    if (!name.starts_with(kPrefix)) continue;
    auto device = open_device("/dev/" + name);
    if (device && shows(device->device.get(), file)) return device;
  }
  return failure(Errc::NotFound, "no loop device shows the file");
}

}  // namespace

Result<LoopDevice> attach_loop(int file) {
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return sys_failure("look at the file", errno);
  const UniqueFd control = TRY(open_at(AT_FDCWD, "/dev/loop-control", O_RDWR));
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    if (auto found = find(facts)) return found;
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return sys_failure("find a free loop device", errno);
    LoopDevice made = TRY(open_device("/dev/loop" + std::to_string(number)));
    loop_config config{};
    config.fd = static_cast<std::uint32_t>(file);
    config.block_size = 4096;
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if (::ioctl(made.device.get(), LOOP_CONFIGURE, &config) == 0) return made;
    if (errno != EBUSY) return sys_failure("attach the file to " + made.path, errno);
  }
  return failure(Errc::Exhausted, "no loop device could be had");
}

}  // namespace caisson::sys
