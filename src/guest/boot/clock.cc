// The machine's clock. It stands still while the machine does: after a pause, and in a copy of a
// machine that booted long ago. The host's time is on the battery clock, which a small process of
// ours reads. It has one right, to set the clock, and hears nobody.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/rtc.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

constexpr long kLookNanoseconds = 200'000'000;
constexpr int64_t kApartMax = 1;  // seconds: the battery clock tells no parts of one
constexpr uint64_t kTimeCapability = 1ULL << CAP_SYS_TIME;

void keep_one_right() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  sets[0].effective = sets[0].permitted = static_cast<uint32_t>(kTimeCapability);
  if (syscall(SYS_capset, &header, sets) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    _exit(1);
}

void look(int battery) {
  rtc_time shown{};
  timespec now{};
  if (syscall(SYS_ioctl, battery, RTC_RD_TIME, &shown) != 0 ||
      clock_gettime(CLOCK_REALTIME, &now) != 0)
    return;
  tm parts{};
  parts.tm_sec = shown.tm_sec;
  parts.tm_min = shown.tm_min;
  parts.tm_hour = shown.tm_hour;
  parts.tm_mday = shown.tm_mday;
  parts.tm_mon = shown.tm_mon;
  parts.tm_year = shown.tm_year;
  const int64_t right = timegm(&parts);
  const int64_t apart = right > now.tv_sec ? right - now.tv_sec : now.tv_sec - right;
  if (apart <= kApartMax) return;
  const timespec set{right, 0};
  (void)clock_settime(CLOCK_REALTIME, &set);
}

[[noreturn]] void run(int battery) {
  (void)prctl(PR_SET_NAME, "clock", 0, 0, 0);
  (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  keep_one_right();
  for (;;) {
    look(battery);
    const timespec pause{0, kLookNanoseconds};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

void keep_clock() {
  const int battery = open("/dev/rtc0", O_RDONLY | O_CLOEXEC);
  if (battery < 0) return;  // a machine without one has the time of its boot
  const pid_t pid = fork();
  require(pid >= 0, "start", "the clock");
  if (pid == 0) {
    const int kept = fcntl(battery, F_DUPFD_CLOEXEC, 3);
    for (int fd = 0; fd < 64; ++fd) {
      if (fd != kept) close(fd);
    }
    run(kept);
  }
  close(battery);
}

}  // namespace caisson::boot
