/* Stays until a signal ends it: the living sandbox into which a comparison runs other programs. */
#include <unistd.h>

int main(void) {
  pause();
  return 0;
}
