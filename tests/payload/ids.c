/* Prints who it is: real and effective user and group, and the permitted and effective
   capabilities. A copy of it with the setuid bit or with file capabilities shows whether an exec
   gave anything. */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
  syscall(SYS_capget, &header, data);
  uid_t real = 0, effective = 0, saved = 0;
  gid_t group = 0, effective_group = 0, saved_group = 0;
  getresuid(&real, &effective, &saved);
  getresgid(&group, &effective_group, &saved_group);
  printf("%u %u %u / %u %u %u / %x%x %x%x\n", real, effective, saved, group, effective_group,
         saved_group, data[1].permitted, data[0].permitted, data[1].effective, data[0].effective);
  return 0;
}
