// A small HTTP server for an image that has nothing else in it: answers each request with what was
// asked, and
// "/.sse" with an event every tenth of a second. One process per connection.
#define _GNU_SOURCE
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static char request[65536];

static size_t read_request(int connection) {
  size_t size = 0;
  size_t wanted = 0;
  while (size < sizeof request - 1) {
    const ssize_t got = read(connection, request + size, sizeof request - 1 - size);
    if (got <= 0) return 0;
    size += (size_t)got;
    request[size] = 0;
    const char* head = strstr(request, "\r\n\r\n");
    if (!head) continue;
    const char* length = strcasestr(request, "\r\ncontent-length:");
    wanted =
        (size_t)(head + 4 - request) + (length && length < head ? (size_t)atol(length + 17) : 0);
    if (size >= wanted) return size;
  }
  return size;
}

static void say(int connection, const char* text) {
  if (write(connection, text, strlen(text)) < 0) _exit(0);
}

static void serve(int connection) {
  if (read_request(connection) == 0) _exit(0);
  char path[1024] = "";
  sscanf(request, "%*s %1023s", path);
  if (strncmp(path, "/.sse", 5) == 0) {
    say(connection,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    for (int i = 0;; ++i) {
      char event[64];
      snprintf(event, sizeof event, "event: time\ndata: %d\n\n", i);
      say(connection, event);
      struct pollfd peer = {.fd = connection, .events = POLLIN};
      if (poll(&peer, 1, 100) != 0) _exit(0);  // it left
    }
  }
  if (strncmp(path, "/cookies", 8) == 0) {
    say(connection,
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: SID=stolen; Path=/\r\nContent-Length: "
        "0\r\n\r\n");
    _exit(0);
  }
  if (strncmp(path, "/noise", 6) == 0) {
    say(connection, "this is not HTTP\r\n\r\n");
    _exit(0);
  }
  if (strncmp(path, "/away", 5) == 0) {
    say(connection, "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n");
    _exit(0);
  }
  char head[256];
  snprintf(head, sizeof head,
           "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n",
           strlen(request));
  say(connection, head);
  say(connection, request);
  _exit(0);
}

int main(void) {
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(8080)};
  if (bind(listener, (const struct sockaddr*)&address, sizeof address) != 0 ||
      listen(listener, 64) != 0)
    return 1;
  printf("Echo server listening on port 8080.\n");
  fflush(stdout);
  for (;;) {
    const int connection = accept(listener, NULL, NULL);
    if (connection < 0) continue;
    if (fork() == 0) serve(connection);
    close(connection);
  }
}
