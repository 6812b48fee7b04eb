// Makes argv[1] grandchildren whose parents are gone before them, and ends when the last parent is.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const int wanted = argc > 1 ? atoi(argv[1]) : 0;
  for (int i = 0; i < wanted; ++i) {
    const pid_t child = fork();
    if (child < 0) {
      // The limit is reached: init has to reap some before we go on.
      usleep(1000);
      --i;
      continue;
    }
    if (child == 0) {
      while (fork() < 0) usleep(1000);  // parent and grandchild both go on to the exit
      _exit(0);
    }
    if (waitpid(child, NULL, 0) != child) return 1;
  }
  return 0;
}
