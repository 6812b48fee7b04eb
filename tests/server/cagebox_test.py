"""The tools API, as a client that was written for Cagebox sees it."""

import json
import os
import subprocess
import tempfile
import unittest

from api_case import ApiCase
from harness import BIN, PATIENCE, Server, main, path_of, wait_for

UNKNOWN = "a" * 26
CONFIG = r"""
sandbox:
  max_concurrent: 20
  resource_limits: {cpu: 0.5, memory_mb: 128, timeout_seconds: 300}
  command_blocklist: ['\bforbidden\b', 'curl\s+.*\|\s*sh']
profiles:
  reader:
    tools: [file_read, file_list]
    resource_limits: {memory_mb: 64}
    env: {FROM: profile}
  loose:
    filesystem: {root: writable}
"""


class Sandboxes(ApiCase):
    def test_health_needs_no_credentials(self):
        answer = self.server.get("/healthz", token="")
        self.assertEqual((answer.status, answer.json["status"]), (200, "ok"))
        self.assertEqual(self.server.get("/readyz").json, {"status": "ready"})

    def test_document_names_every_route(self):
        document = self.server.get("/openapi.json").json
        self.assertTrue(document["openapi"].startswith("3.1"))
        for path in ("", "/{id}", "/{id}/tools/execute", "/{id}/logs", "/{id}/files/{path}"):
            self.assertIn("/api/v1/sandboxes" + path, document["paths"])
        self.assertIn("/api/v1/tools", document["paths"])

    def test_empty_wish_has_safe_defaults(self):
        answer = self.server.post("/api/v1/sandboxes")
        self.assertEqual(answer.status, 201)
        made = answer.json
        self.addCleanup(self.server.delete, path_of(made["id"]))
        self.assertEqual(answer.headers["Location"], path_of(made["id"]))
        self.assertEqual((made["state"], made["tier"], made["image"]), ("running", "native", "host"))
        self.assertEqual((made["user"], made["workdir"]), (65534, "/workspace"))
        self.assertEqual(made["filesystem"], {"root": "read_only"})
        self.assertIsNotNone(made["expires_at"])
        self.assertEqual(made["record"]["network"], "lo only")

    def test_every_field(self):
        wish = {
            "name": "everything", "tools": ["shell_exec"], "files": {"main.txt": "one\n", "deep/er/two.txt": "zwei ü"},
            "network": {"mode": "none"}, "base_image": "host", "tier": "native",
            "resource_limits": {"cpu": 0.25, "memory_mb": 96, "timeout_seconds": 120, "processes": 40, "disk_mb": 32,
                                "idle_seconds": 60, "cpu_seconds": 50},
            "filesystem": {"root": "writable"}, "env": {"COLOUR": "red"}, "workdir": "/workspace/deep", "user": 1234,
            "hostname": "inner", "labels": {"team": "blue"},
        }
        answer = self.server.post("/api/v1/sandboxes", wish)
        self.assertEqual(answer.status, 201, answer.body)
        made = answer.json
        self.addCleanup(self.server.delete, path_of(made["id"]))
        for name, value in wish["resource_limits"].items():
            self.assertEqual(made["resource_limits"][name], value, name)
        for name in ("name", "tools", "filesystem", "workdir", "user", "labels"):
            self.assertEqual(made[name], wish[name], name)
        shown = self.server.get(path_of(made["id"])).json
        # When it expires is counted anew each time, from a clock without leaps: the last digit may differ.
        self.assertEqual(shown.pop("expires_at")[:20], made.pop("expires_at")[:20])
        self.assertEqual(shown, made)
        out = self.result(made["id"], "shell_exec",
                          command="id -u; hostname; echo $COLOUR; pwd; cat ../main.txt er/two.txt")
        self.assertEqual(out["stdout"], "1234\ninner\nred\n/workspace/deep\none\nzwei ü", out)

    def test_a_writable_root_is_private(self):
        box = self.create(filesystem={"root": "writable"}, user=0)
        out = self.result(box, "shell_exec", command="echo x > /etc/caisson-new && cat /etc/caisson-new")
        self.assertEqual(out["stdout"], "x\n", out)
        self.assertFalse(os.path.exists("/etc/caisson-new"))

    def test_null_is_the_same_as_leaving_it_out(self):
        answer = self.server.post("/api/v1/sandboxes", {"profile": None, "tools": None, "files": None, "network": None})
        self.assertEqual(answer.status, 201, answer.body)
        self.server.delete(path_of(answer.json["id"]))

    def test_bad_wishes_name_their_field(self):
        cases = [
            ({"colour": 1}, "colour"),
            ({"tools": ["hammer"]}, None),
            ({"tools": "shell_exec"}, "tools"),
            ({"resource_limits": {"cpu": -1}}, "resource_limits.cpu"),
            ({"resource_limits": {"memory_mb": "much"}}, "resource_limits.memory_mb"),
            ({"user": 70000}, "user"),
            ({"filesystem": {"root": "soft"}}, "filesystem.root"),
            ({"profile": "nobody"}, "profile"),
            ({"network": {"mode": "open"}}, "network.mode"),
        ]
        before = len(self.server.get("/api/v1/sandboxes").json["sandboxes"])
        for wish, field in cases:
            with self.subTest(wish=wish):
                self.refused(self.server.post("/api/v1/sandboxes", wish), 400, "InvalidArgument", field)
        self.assertEqual(len(self.server.get("/api/v1/sandboxes").json["sandboxes"]), before)

    def test_files_cannot_leave_the_workspace(self):
        for path in ("../out", "/etc/passwd", "a/../../out", "/workspace/../etc/x"):
            with self.subTest(path=path):
                answer = self.server.post("/api/v1/sandboxes", {"files": {path: "x"}})
                self.refused(answer, 403, "Denied", f"files.{path}")

    def test_what_does_not_exist_yet_is_unsupported(self):
        self.refused(self.server.post("/api/v1/sandboxes", {"tier": "microvm"}), 501, "Unsupported")

    def test_an_image_that_is_not_here_names_the_remedy(self):
        answer = self.server.post("/api/v1/sandboxes", {"base_image": "python:3.12"})
        self.refused(answer, 404, "NotFound", "base_image")
        self.assertIn("caisson image pull", answer.json["error"]["message"])

    def test_list_get_delete(self):
        first, second = self.create(), self.create()
        listed = [one["id"] for one in self.server.get("/api/v1/sandboxes").json["sandboxes"]]
        self.assertLess(listed.index(first), listed.index(second))
        self.assertEqual(self.server.delete(path_of(first)).status, 204)
        self.refused(self.server.get(path_of(first)), 404, "NotFound")
        self.refused(self.server.delete(path_of(first)), 404, "NotFound")
        listed = [one["id"] for one in self.server.get("/api/v1/sandboxes").json["sandboxes"]]
        self.assertNotIn(first, listed)
        self.assertIn(second, listed)

    def test_unknown_sandbox_is_not_found_everywhere(self):
        for method, rest in (("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("GET", "/files/x"), ("GET", "/usage")):
            self.refused(self.server.request(method, path_of(UNKNOWN) + rest), 404, "NotFound")
        self.refused(self.tool(UNKNOWN, "file_list"), 404, "NotFound")
        self.assertEqual(self.server.put(path_of(UNKNOWN, "files/x"), b"x").status, 404)

    def test_names_are_unique_while_they_live(self):
        first = self.create(name="only")
        self.refused(self.server.post("/api/v1/sandboxes", {"name": "only"}), 409, "AlreadyExists")
        self.server.delete(path_of(first))
        self.create(name="only")

    def test_a_key_header_is_taken_and_foreign_hosts_are_not(self):
        self.assertEqual(self.server.get("/api/v1/tools", headers={"X-API-Key": "cais_nothing"}).status, 200)
        self.assertEqual(self.server.get("/api/v1/tools", headers={"Host": "evil.example"}).status, 421)
        answer = self.server.post("/api/v1/sandboxes", {}, headers={"Origin": "http://evil.example"})
        self.refused(answer, 403, "Denied")
        answer = self.server.post("/api/v1/sandboxes", "{}", headers={"Content-Type": "text/plain"})
        self.assertEqual(answer.status, 415)


class Tools(ApiCase):
    def test_the_tools_have_schemas(self):
        tools = {one["name"]: one for one in self.server.get("/api/v1/tools").json["tools"]}
        cagebox = {"shell_exec", "file_read", "file_write", "file_list", "http_request"}
        self.assertEqual(set(tools), cagebox | {"file_edit", "file_search", "request_access"})
        for one in tools.values():
            self.assertEqual(one["arguments"]["type"], "object")
        self.assertEqual(tools["file_write"]["arguments"]["required"], ["path", "content"])

    def test_shell_exec(self):
        box = self.create()
        out = self.result(box, "shell_exec", command="echo out; echo err >&2; exit 3")
        self.assertEqual((out["stdout"], out["stderr"], out["exit_code"]), ("out\n", "err\n", 3))
        out = self.result(box, "shell_exec", command="pwd; echo $A; cat", workdir="/tmp", env={"A": "b"}, stdin="in")
        self.assertEqual(out["stdout"], "/tmp\nb\nin")
        out = self.result(box, "shell_exec", command="sleep 1000", timeout_seconds=0.2)
        self.assertTrue(out["timed_out"])
        out = self.result(box, "shell_exec", command="kill -9 $$")
        self.assertEqual((out["exit_code"], out["signal"]), (137, 9))

    def test_file_tools(self):
        box = self.create()
        self.result(box, "file_write", path="a/b/c.txt", content="hällo")
        self.assertEqual(self.result(box, "file_read", path="a/b/c.txt")["content"], "hällo")
        self.assertEqual(self.result(box, "file_read", path="/workspace/a/b/c.txt")["content"], "hällo")
        self.result(box, "file_write", path="/tmp/x", content="/w==", encoding="base64")
        read = self.result(box, "file_read", path="/tmp/x")
        self.assertEqual((read["content"], read["encoding"]), ("/w==", "base64"))
        names = [one["name"] for one in self.result(box, "file_list")["entries"]]
        self.assertEqual(names, ["a"])
        paths = [one["path"] for one in self.result(box, "file_list", path="a", recursive=True)["entries"]]
        self.assertIn("/workspace/a/b/c.txt", paths)

    def test_path_traversal_is_refused_twice(self):
        box = self.create(files={"x": "1"})
        for tool, more in (("file_read", {}), ("file_write", {"content": ""}), ("file_list", {})):
            self.refused(self.tool(box, tool, path="../etc/passwd", **more), 403, "Denied", "arguments.path")
        for path in ("%2e%2e/%2e%2e/etc/shadow", "a/../x", "/workspace/../etc/passwd", "a%2f..%2f..%2fb", ".."):
            for method, route in (("GET", "files"), ("PUT", "files"), ("DELETE", "files"), ("GET", "stat"),
                                  ("GET", "list"), ("GET", "archive"), ("PUT", "archive"), ("GET", "watch")):
                with self.subTest(method=method, route=route, path=path):
                    body = b"" if method == "PUT" else None
                    answer = self.server.request(method, path_of(box, route) + "/" + path, body)
                    self.refused(answer, 403, "Denied", "path")
        for route, wish, field in (("mkdir", {"path": "../x"}, "path"), ("move", {"from": "x", "to": "../x"}, "to"),
                                   ("move", {"from": "../x", "to": "x"}, "from"),
                                   ("exec", {"command": "true", "workdir": ".."}, "workdir")):
            with self.subTest(route=route, wish=wish):
                self.refused(self.server.post(path_of(box, route), wish), 403, "Denied", field)
        # The second wall: a link inside leads to the sandbox's own root, never to the host's.
        self.result(box, "shell_exec", command="ln -s /../../../../etc/hostname /workspace/link; ln -s / root")
        inside = self.result(box, "shell_exec", command="cat /etc/hostname 2>&1")["stdout"]
        link = self.tool(box, "file_read", path="link")
        if link.status == 200:
            self.assertEqual(link.json["result"]["content"], inside)

    def test_bad_arguments(self):
        box = self.create()
        self.refused(self.tool(box, "shell_exec"), 400, "InvalidArgument", "arguments.command")
        self.refused(self.tool(box, "shell_exec", command="x", colour=1), 400, "InvalidArgument", "arguments.colour")
        self.refused(self.tool(box, "file_read", path=7), 400, "InvalidArgument", "arguments.path")
        self.refused(self.tool(box, "hammer"), 400, "InvalidArgument", "tool")
        self.refused(self.tool(box, "file_read", path="missing"), 404, "NotFound")
        self.refused(self.server.post(path_of(box, "tools/execute"), "{"
                                      , headers={"Content-Type": "application/json"}), 400, "InvalidArgument")

    def test_http_request_without_a_network_is_denied(self):
        box = self.create()
        answer = self.tool(box, "http_request", method="GET", url="http://example.com/")
        self.refused(answer, 403, "Denied", "arguments.url")

    def test_a_tool_that_is_not_listed_is_denied_and_audited(self):
        box = self.create(tools=["file_read"])
        self.refused(self.tool(box, "shell_exec", command="echo never"), 403, "Denied", "tool")
        self.refused(self.tool(box, "file_write", path="x", content="y"), 403, "Denied", "tool")
        rows = self.server.get(path_of(box, "logs")).json["rows"]
        denied = [(row["action"], row["object"]) for row in rows if row["outcome"] == "denied"]
        self.assertEqual(denied, [("tool.shell_exec", "echo never"), ("tool.file_write", "x")])
        self.refused(self.tool(box, "file_read", path="x"), 404, "NotFound")

    def test_every_call_is_in_the_log(self):
        box = self.create()
        answer = self.tool(box, "shell_exec", command="echo logged")
        self.tool(box, "shell_exec", command="rm -rf /")
        rows = self.server.get(path_of(box, "logs")).json["rows"]
        self.assertEqual([row["action"] for row in rows], ["sandbox.create", "tool.shell_exec", "tool.shell_exec"])
        self.assertEqual([row["outcome"] for row in rows], ["allowed", "allowed", "denied"])
        self.assertEqual(rows[1]["request_id"], answer.headers["X-Request-Id"])
        self.assertEqual(rows[1]["object"], "echo logged")
        page = self.server.get(path_of(box, "logs", after=rows[0]["sequence"], limit=1)).json
        self.assertEqual([row["sequence"] for row in page["rows"]], [rows[1]["sequence"]])
        self.assertEqual(page["next_after"], rows[1]["sequence"])

    def test_default_blocklist(self):
        box = self.create()
        for command in ("rm -rf /", "shutdown now", ":(){ :|:& };:", "rm -r -f /*", "mkfs.ext4 /dev/sda"):
            with self.subTest(command=command):
                self.refused(self.tool(box, "shell_exec", command=command), 403, "Denied")
                self.refused(self.server.post(path_of(box, "exec"), {"command": command}), 403, "Denied")
        self.assertEqual(self.result(box, "shell_exec", command="rm -rf /workspace/x")["exit_code"], 0)

    def test_files_up_and_down(self):
        box = self.create()
        content = bytes(range(256)) * 1000
        answer = self.server.put(path_of(box, "files/in/deep/data.bin"), content)
        self.assertEqual((answer.status, answer.json["size"]), (200, len(content)), answer.body)
        down = self.server.get(path_of(box, "files/in/deep/data.bin"))
        self.assertEqual(down.body, content)
        self.assertTrue(down.headers["Content-Disposition"].startswith("attachment"))
        self.refused(self.server.get(path_of(box, "files/missing")), 404, "NotFound")
        self.refused(self.server.put(path_of(box, "files//etc/new"), b"x"), 403, "Denied")

    def test_walls_a_client_can_feel(self):
        box = self.create()
        look = "id -u; touch /etc/x /usr/x; grep CapEff /proc/self/status; grep -c : /proc/net/dev"
        out = self.result(box, "shell_exec", command=look)
        self.assertEqual(out["stdout"], "65534\nCapEff:\t0000000000000000\n1\n", out)
        self.assertEqual(out["stderr"].count("Read-only file system"), 2, out)
        write = "for d in /workspace /tmp /run; do echo y > $d/f && cat $d/f; done"
        out = self.result(box, "shell_exec", command=write)
        self.assertEqual(out["stdout"], "y\ny\ny\n")


class Curl(ApiCase):
    """The routes of the contract, typed at a shell. The last line of each output is the status."""

    def curl(self, *words, data=None):
        command = ["curl", "-sS", "-w", "\n%{http_code}", *words]
        if data is not None:
            command += ["-H", "Content-Type: application/json", "-d", data]
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        body, _, status = done.stdout.rpartition(b"\n")
        return int(status), body

    def test_every_route(self):
        url = f"http://localhost:{self.server.port}"
        api = f"{url}/api/v1/sandboxes"
        self.assertEqual(self.curl(f"{url}/healthz")[0], 200)
        tools = {one["name"] for one in json.loads(self.curl(f"{url}/api/v1/tools")[1])["tools"]}
        self.assertEqual(len(tools), 8)
        wish = """{"tools": ["shell_exec", "file_read", "file_write", "file_list"],
                   "files": {"main.py": "print(42)\\n"}, "network": {"mode": "none"},
                   "resource_limits": {"cpu": 0.5, "memory_mb": 256, "timeout_seconds": 60}}"""
        status, body = self.curl("-X", "POST", api, data=wish)
        self.assertEqual(status, 201, body)
        box = json.loads(body)["id"]
        self.addCleanup(self.server.delete, path_of(box))
        self.assertEqual([one["id"] for one in json.loads(self.curl(api)[1])["sandboxes"]], [box])
        self.assertEqual(json.loads(self.curl(f"{api}/{box}")[1])["state"], "running")
        calls = [
            ('{"tool": "shell_exec", "arguments": {"command": "cat main.py"}}', "stdout", "print(42)\n"),
            ('{"tool": "file_write", "arguments": {"path": "a/b.txt", "content": "x"}}', "bytes_written", 1),
            ('{"tool": "file_read", "arguments": {"path": "/workspace/a/b.txt"}}', "content", "x"),
            ('{"tool": "file_list", "arguments": {"path": ".", "recursive": true}}', "path", "/workspace"),
        ]
        for call, key, value in calls:
            status, body = self.curl("-X", "POST", f"{api}/{box}/tools/execute", data=call)
            self.assertEqual((status, json.loads(body)["result"][key]), (200, value), body)
        denied = '{"tool": "http_request", "arguments": {"method": "GET", "url": "http://example.com/"}}'
        self.assertEqual(self.curl("-X", "POST", f"{api}/{box}/tools/execute", data=denied)[0], 403)
        with tempfile.NamedTemporaryFile() as upload:
            upload.write(os.urandom(3_000_000))
            upload.flush()
            self.assertEqual(self.curl("-T", upload.name, f"{api}/{box}/files/up.bin")[0], 200)
            body = ("--data-binary", f"@{upload.name}")
            self.assertEqual(self.curl("-X", "PUT", *body, f"{api}/{box}/files/again.bin")[0], 200)
            with open(upload.name, "rb") as sent:
                self.assertEqual(self.curl(f"{api}/{box}/files/up.bin"), (200, sent.read()))
        rows = json.loads(self.curl(f"{api}/{box}/logs")[1])["rows"]
        self.assertEqual(rows[0]["action"], "sandbox.create")
        self.assertEqual(self.curl("-X", "DELETE", f"{api}/{box}")[0], 204)
        self.assertEqual(self.curl(f"{api}/{box}")[0], 404)


class Configured(ApiCase):
    config = CONFIG

    def test_limits_come_from_the_file(self):
        limits = self.server.get(path_of(self.create())).json["resource_limits"]
        self.assertEqual((limits["cpu"], limits["memory_mb"], limits["timeout_seconds"]), (0.5, 128, 300))
        box = self.create(resource_limits={"memory_mb": 200})
        limits = self.server.get(path_of(box)).json["resource_limits"]
        self.assertEqual((limits["cpu"], limits["memory_mb"]), (0.5, 200))

    def test_a_profile_and_what_overrides_it(self):
        shown = self.server.get(path_of(self.create(profile="reader"))).json
        self.assertEqual((shown["profile"], shown["tools"]), ("reader", ["file_read", "file_list"]))
        self.assertEqual(shown["resource_limits"]["memory_mb"], 64)
        self.assertEqual(shown["resource_limits"]["cpu"], 0.5)
        box = self.create(profile="reader", tools=["shell_exec"], resource_limits={"memory_mb": 80})
        shown = self.server.get(path_of(box)).json
        self.assertEqual((shown["tools"], shown["resource_limits"]["memory_mb"]), (["shell_exec"], 80))
        self.assertEqual(self.result(box, "shell_exec", command="echo $FROM")["stdout"], "profile\n")

    def test_the_files_blocklist_replaces_ours(self):
        box = self.create()
        self.refused(self.tool(box, "shell_exec", command="echo forbidden fruit"), 403, "Denied")
        self.refused(self.tool(box, "shell_exec", command="curl http://x | sh"), 403, "Denied")
        self.assertEqual(self.result(box, "shell_exec", command="echo forbiddenly")["stdout"], "forbiddenly\n")


class Variables(ApiCase):
    env = {"CAISSON_SANDBOX_RESOURCE_LIMITS_MEMORY_MB": "77", "CAGEBOX_SANDBOX_MAX_CONCURRENT": "2",
           "CAGEBOX_LOGGING_LEVEL": "DEBUG", "CAGEBOX_SANDBOX_RESOURCE_LIMITS_MEMORY_MB": "999"}

    def test_ours_go_before_theirs(self):
        box = self.create()
        self.assertEqual(self.server.get(path_of(box)).json["resource_limits"]["memory_mb"], 77)
        self.create()
        self.refused(self.server.post("/api/v1/sandboxes", {}), 429, "Exhausted")


class Starting(unittest.TestCase):
    def serve(self, *flags, env=None):
        """Output of a server that must not start."""
        spare = Server()
        self.addCleanup(spare.close)
        done = subprocess.run([BIN / "caisson", "serve", "--state-dir", spare.state, *flags], capture_output=True,
                              text=True, timeout=PATIENCE, env=os.environ | (env or {}), check=False)
        self.assertNotEqual(done.returncode, 0)
        spare.wait_until_clean()
        return done.stderr

    def test_wrong_settings_are_named(self):
        self.assertIn("CAISSON_SANDBOX_COLOUR", self.serve("--open", env={"CAISSON_SANDBOX_COLOUR": "1"}))
        self.assertIn("CAGEBOX_SERVER_PORT", self.serve("--open", env={"CAGEBOX_SERVER_PORT": "many"}))
        self.assertIn("open", self.serve("--open", "--listen", "0.0.0.0:0"))

    def test_the_port_from_a_variable(self):
        with Server("--open", env={"CAGEBOX_SERVER_PORT": "0", "CAGEBOX_AUDIT_DATABASE_PATH": ""}) as server:
            server.stop()
            server.start(listen=False)
            self.assertNotEqual(server.port, 0)

    def test_a_token_is_needed_without_open(self):
        with Server() as server:
            for token in ("", "cais_wrong", server.token + "x", "Bearer"):
                self.assertEqual(server.get("/api/v1/sandboxes", token=token).status, 401)
            box = server.create()
            call = {"tool": "shell_exec", "arguments": {"command": "echo hi"}}
            out = server.post(path_of(box, "tools/execute"), call)
            self.assertEqual(out.json["result"]["stdout"], "hi\n")
            answer = server.get("/api/v1/sandboxes", token="", headers={"X-API-Key": server.token})
            self.assertEqual(answer.status, 200)
            self.assertEqual(server.get(f"/api/v1/sandboxes?token={server.token}", token="").status, 401)
            self.assertNotIn(server.token, server.log().split("try:")[1].split("-d '{}'")[1])
            token, before = server.token, server.log()
            self.assertIn(token, before)
            server.stop()
            server.start()
            self.assertNotIn("cais_", server.log())
            self.assertEqual(server.get("/api/v1/sandboxes", token=token).status, 200)

    def test_nothing_is_left(self):
        with Server("--open") as server:
            for _ in range(3):
                server.create(files={"x": "y"})
            wait_for(lambda: len(server.processes()) > 3, "the processes of three sandboxes")
            self.assertEqual(server.stop(), 0)
            server.wait_until_clean()


if __name__ == "__main__":
    main()
