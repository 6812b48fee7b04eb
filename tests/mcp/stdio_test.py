"""`caisson mcp`: lines in, lines out. With a server of its own, which leaves nothing behind, and with one that is named."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from mcp_case import LEGACY, McpCase, envelope, main, structured, wait_for
from harness import BIN, PATIENCE, all_processes, descendants, parent_and_birth


class Command:
    """One `caisson mcp`."""

    def __init__(self, *flags, env=None):
        self.tmp = tempfile.mkdtemp(prefix="caisson-stdio-")
        os.chmod(self.tmp, 0o755)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("CAISSON_")}
        clean |= {"TMPDIR": self.tmp, "XDG_CONFIG_HOME": self.tmp} | (env or {})
        self.err = open(self.tmp + "/err", "wb+")
        self.process = subprocess.Popen([str(BIN / "caisson"), "mcp", *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.err, env=clean)
        self.count = 0

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def next(self):
        line = self.process.stdout.readline()
        assert line, self.log()
        return json.loads(line)

    def log(self):
        self.err.seek(0)
        return self.err.read().decode(errors="replace")

    def initialize(self, version=LEGACY):
        answer = self.ask("initialize", {"protocolVersion": version, "capabilities": {},
                                         "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def ask(self, method, params=None):
        self.count += 1
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params or {}})
        answer = self.next()
        assert answer["id"] == self.count, answer
        return answer["result"]

    def tool(self, name, /, **arguments):
        return structured(self.ask("tools/call", {"name": name, "arguments": arguments}))

    def modern(self, name, /, **arguments):
        message, _ = envelope("tools/call", {"name": name, "arguments": arguments})
        self.send(message)
        return structured(self.next()["result"])

    def family(self):
        """Everything that lives because of it, the guardian's session included."""
        processes = all_processes()
        return {pid: parent_and_birth(pid)[2] for pid in descendants([self.process.pid], processes)
                if parent_and_birth(pid)}

    def left(self, family):
        """Of these, and of its temporary folder."""
        alive = [pid for pid, birth in family.items()
                 if (now := parent_and_birth(pid)) and now[2] == birth and now[1] not in "ZX"]
        return alive + [str(one) for one in pathlib.Path(self.tmp).glob("caisson-mcp-*")]

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.err.close()
        return status


class CommandCase(unittest.TestCase):
    def command(self, *flags, **more):
        one = Command(*flags, **more)
        self.addCleanup(shutil.rmtree, one.tmp, ignore_errors=True)
        return one


class OwnServer(CommandCase):
    def test_it_works_without_set_up_and_leaves_nothing(self):
        one = self.command()
        self.assertEqual(one.initialize()["serverInfo"]["name"], "caisson")
        self.assertEqual(one.tool("run", command="echo hi >f; cat f")["stdout"], "hi\n")
        self.assertEqual(one.tool("read", path="f")["content"], "hi\n")
        # The newer revision, on the same pipe: a client of its own has one sandbox there, too.
        box = one.modern("write", path="g", content="new")["sandbox"]
        self.assertEqual(one.modern("read", path="g")["content"], "new")
        self.assertEqual(one.modern("run", command="ls", sandbox=box)["stdout"], "g\n")
        # What is no message is told of, and the next line counts.
        one.process.stdin.write(b"nonsense\n\n")
        one.process.stdin.flush()
        self.assertEqual(one.next()["error"]["code"], -32700)
        # One that is taken back has no answer; the next one has.
        wait = {"name": "run", "arguments": {"command": "touch begun; while :; do :; done"}}
        one.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": wait})
        self.assertEqual(one.tool("run", command="while [ ! -e begun ]; do :; done; echo seen")["stdout"], "seen\n")
        one.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
        self.assertEqual(one.ask("ping"), {})
        family = one.family()
        self.assertEqual(one.close(), 0)
        wait_for(lambda: not one.left(family), f"nothing of it: {one.left(family)}")

    def test_killed_it_leaves_nothing_either(self):
        one = self.command()
        one.initialize()
        one.tool("run", command="true")
        family = one.family()
        self.assertGreater(len(family), 4)
        one.process.send_signal(signal.SIGKILL)
        one.process.wait(PATIENCE)
        one.process.stdout.close()
        wait_for(lambda: not one.left(family), "nothing of it")


class NamedServer(CommandCase, McpCase):
    def test_it_speaks_to_the_server_that_is_named(self):
        one = self.command("--url", self.server.url, env={"CAISSON_TOKEN": self.server.token})
        one.initialize()
        box = one.tool("run", command="true")["sandbox"]
        self.assertIn(box, [each["id"] for each in self.server.get("/api/v1/sandboxes").json["sandboxes"]])
        # A line that the client's last breath carried is answered.
        one.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})
        one.process.stdin.close()
        self.assertEqual(one.next(), {"jsonrpc": "2.0", "id": "last", "result": {}})
        self.assertEqual(one.process.wait(PATIENCE), 0)
        wait_for(lambda: box not in [each["id"] for each in self.server.get("/api/v1/sandboxes").json["sandboxes"]
                                     if each["state"] != "ended"], "the end of its sandbox")

    def test_a_wrong_token_is_told_and_nothing_is_on_standard_output(self):
        one = self.command("--url", self.server.url, env={"CAISSON_TOKEN": "cais_nothing"})
        self.assertEqual(one.process.wait(PATIENCE), 1)
        self.assertEqual(one.process.stdout.read(), b"")
        self.assertIn("token", one.log())


if __name__ == "__main__":
    main()
