// The whole of an image: says so, and ends.
#include <stdio.h>

int main(void) {
  printf(
      "\nHello from Docker!\nThis message shows that your installation appears to be working "
      "correctly.\n\n");
  return 0;
}
