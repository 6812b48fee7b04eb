"""One command in a sandbox of its own, by one call: what it answers, what it leaves, and who may ask for it."""

import json
import os
import pathlib
import socket

from api_case import ApiCase
from harness import main, wait_for

RUN = "/api/v1/run"


def running(word):
    """Whether a process of this host has the word in its command line."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes().split(b"\0"):
                return True
        except OSError:
            pass  # it has ended
    return False


class Once(ApiCase):
    def run_once(self, **body):
        answer = self.server.post(RUN, body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def rows(self, sandbox):
        return [row["action"] for row in self.server.get(f"/api/v1/audit?sandbox={sandbox}").json["rows"]]

    def nothing_lives(self):
        wait_for(lambda: not self.server.get("/api/v1/sandboxes").json["sandboxes"], "the end of the sandbox")

    def test_what_it_says_and_leaves(self):
        done = self.run_once(command="cat main.py -; id -u; exit 3", stdin="from outside\n",
                             sandbox={"files": {"main.py": "first\n"}, "resource_limits": {"memory_mb": 64}})
        self.assertEqual((done["stdout"], done["exit_code"]), ("first\nfrom outside\n65534\n", 3))
        self.nothing_lives()
        wait_for(lambda: sorted(self.rows(done["sandbox"])) == ["exec", "sandbox.create", "sandbox.end"], "its rows")

    def test_nobody_outlives_it(self):
        seconds = f"1000.{os.getpid()}"
        done = self.run_once(command=f"(setsid sleep {seconds} &); echo out")
        self.assertEqual(done["stdout"], "out\n")
        wait_for(lambda: not running(seconds), "the end of what it left behind")
        self.nothing_lives()

    def test_each_has_its_own(self):
        self.run_once(command="echo mine >/workspace/x; echo mine >/tmp/x")
        done = self.run_once(command="ls -A /workspace /tmp")
        self.assertEqual(done["stdout"], "/tmp:\n\n/workspace:\n")

    def test_limits_end_it(self):
        done = self.run_once(command="sleep 1000", timeout_seconds=0.2)
        self.assertEqual((done["timed_out"], done["exit_code"]), (True, 137))
        done = self.run_once(command="python3 -c 'bytearray(1 << 30)'", sandbox={"resource_limits": {"memory_mb": 64}})
        self.assertEqual((done["oom_killed"], done["exit_code"]), (True, 137))

    def test_what_is_refused(self):
        self.refused(self.server.post(RUN, {}), 400, "InvalidArgument", "command")
        self.refused(self.server.post(RUN, {"command": "true", "sandbox": {"resource_limits": {"cpu": -1}}}), 400,
                     "InvalidArgument", "sandbox.resource_limits.cpu")
        self.refused(self.server.post(RUN, {"command": "true", "sandbox": {"persistent": True, "storage": "disk"}}), 400,
                     "InvalidArgument", "persistent")
        self.refused(self.server.post(RUN, {"command": "true", "sandbox": {"base_image": "no-such"}}), 404, "NotFound")
        self.refused(self.server.post(RUN, {"command": "true", "sandbox": {"tools": ["file_read"]}}), 403, "Denied")
        self.nothing_lives()

    def test_a_caller_who_hangs_up_takes_it_along(self):
        body = json.dumps({"command": "echo up; sleep 1000"}).encode()
        with socket.create_connection(("127.0.0.1", self.server.port)) as link:
            link.sendall(b"POST /api/v1/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            wait_for(lambda: self.server.get("/api/v1/sandboxes").json["sandboxes"], "its sandbox")
        self.nothing_lives()

    def test_asked_again_it_is_not_run_again(self):
        headers = {"Idempotency-Key": "the-same"}
        first = self.server.post(RUN, {"command": "cat /proc/sys/kernel/random/uuid"}, headers=headers)
        again = self.server.post(RUN, {"command": "cat /proc/sys/kernel/random/uuid"}, headers=headers)
        self.assertEqual(first.json, again.json)


class Scopes(ApiCase):
    flags = ()

    def test_it_needs_both(self):
        tokens = {}
        for name, scopes in (("both", ["create", "use"]), ("create", ["create"]), ("use", ["use"])):
            made = self.server.post("/api/v1/tokens", {"label": name, "scopes": scopes, "tenant": "red"})
            self.assertEqual(made.status, 201, made.body)
            tokens[name] = made.json["token"]
        ask = {"command": "true"}
        self.assertEqual(self.server.post(RUN, ask, token=tokens["both"]).status, 200)
        self.refused(self.server.post(RUN, ask, token=tokens["create"]), 403, "Denied")
        self.refused(self.server.post(RUN, ask, token=tokens["use"]), 403, "Denied")


if __name__ == "__main__":
    main()
