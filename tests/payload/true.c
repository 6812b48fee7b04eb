/* The shortest program that succeeds: start-up figures then measure the sandbox and no payload. */
int main(void) { return 0; }
