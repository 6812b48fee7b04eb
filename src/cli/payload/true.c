/* The smallest program that says all went well: what `caisson bench` starts, so that it measures
 * starting. */
int main(void) { return 0; }
