"""Each tool and each resource, in a session of its own sandbox; and control's edit and search by REST."""

import base64
import json

from mcp_case import McpCase, main, path_of, wait_for


class Tools(McpCase):
    flags = ("--vhost", "http://box.test:8080")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.talk = cls.session(cls)
        cls.box = cls.talk.tool("run", command="true")["sandbox"]

    def test_run(self):
        out = self.talk.tool("run", command="cat; echo $A; echo err >&2; exit 3", stdin="in\n", env={"A": "b"})
        self.assertEqual((out["stdout"], out["stderr"], out["exit_code"]), ("in\nb\n", "err\n", 3))
        self.assertEqual(out["sandbox"], self.box, "one session, one sandbox")
        self.assertTrue(self.talk.tool("run", command="while :; do :; done", timeout_seconds=0.1)["timed_out"])
        result = self.talk.ask("tools/call", {"name": "run", "arguments": {"command": "echo hi"}})
        self.assertEqual(result["content"][0]["text"], "exit code 0\nstdout:\nhi\n")
        self.failed(lambda: self.talk.tool("run"), "arguments.command: is missing")
        self.failed(lambda: self.talk.tool("run", command="x", cmd="y"), "arguments.cmd: is not an argument")
        self.failed(lambda: self.talk.tool("run", command="x", sandbox="nonsense"), "arguments.sandbox")

    def test_long_output_has_a_head_and_a_tail(self):
        out = self.talk.tool("run", command="echo first; seq 1 100000; echo last")
        self.assertTrue(out["stdout"].startswith("first\n1\n"))
        self.assertTrue(out["stdout"].endswith("100000\nlast\n"))
        self.assertLess(len(out["stdout"]), 66000)
        whole = len("first\nlast\n") + sum(len(f"{i}\n") for i in range(1, 100001))
        self.assertEqual(out["stdout_omitted_bytes"], whole - 65536)
        self.assertIn(f"{whole - 65536} bytes left out", out["stdout"])

    def test_run_code(self):
        out = self.talk.tool("run_code", language="python", code="import sys\nprint(sum(range(5)), sys.stdin.read())",
                             stdin="in")
        self.assertEqual(out["stdout"], "10 in\n")
        self.assertEqual(self.talk.tool("run_code", language="bash", code="echo ${BASH_VERSION%%.*}")["exit_code"], 0)
        out = self.talk.tool("run_code", language="python", code="def f():\n    return 1/0\nf()")
        self.assertEqual((out["exit_code"], out["error"]["name"]), (1, "ZeroDivisionError"))
        self.assertIn("return 1/0", out["error"]["traceback"])
        self.failed(lambda: self.talk.tool("run_code", language="cobol", code=""), "arguments.language")

    def test_code_in_a_context(self):
        out = self.talk.tool("run_code", language="python", code="x = 41", context="new", env={"A": "b"})
        context = out["context"]
        out = self.talk.tool("run_code", language="python", code="import os; x + 1, os.environ['A']", context=context)
        self.assertEqual((out["value"], out["context"]), ("(42, 'b')", context))
        self.failed(lambda: self.talk.tool("run_code", language="python", code="x", context="nonesuch"), "no context")
        self.failed(lambda: self.talk.tool("run_code", language="bash", code="x", context="new"), "arguments.context")

    def test_code_shows_pictures_and_tables(self):
        code = ("class Both:\n"
                "    def _repr_png_(self): return b'png'\n"
                "    def _repr_html_(self): return '<b>'\n"
                "Both()")
        result = self.talk.ask("tools/call", {"name": "run_code", "arguments": {"language": "python", "code": code}})
        text, picture = result["content"]
        self.assertEqual(picture, {"type": "image", "data": "cG5n", "mimeType": "image/png"})
        self.assertEqual(result["structuredContent"]["outputs"][0]["text/html"], "<b>")
        self.assertIn("value: <", text["text"])

    def test_a_process_is_followed_and_ended(self):
        process = self.talk.tool("start", command="echo up; while read line; do echo got $line; done; echo bye >&2")["process"]
        seen = self.talk.tool("poll", process=process, wait_seconds=30)
        self.assertEqual((seen["stdout"], seen["running"], seen["more"]), ("up\n", True, False))
        self.talk.tool("input", process=process, text="one\n")
        seen = self.talk.tool("poll", process=process, stdout_offset=seen["stdout_offset"], wait_seconds=30)
        self.assertEqual(seen["stdout"], "got one\n")
        self.talk.tool("input", process=process, close=True)
        offset = seen["stdout_offset"]
        seen = wait_for(lambda: (one := self.talk.tool("poll", process=process, stdout_offset=offset,
                                                       wait_seconds=30)) and not one["running"] and one, "its end")
        self.assertEqual((seen["exit_code"], seen["stderr"], seen["stdout"]), (0, "bye\n", ""))
        process = self.talk.tool("start", command="while :; do :; done")["process"]
        self.assertTrue(self.talk.tool("poll", process=process)["running"])
        ended = self.talk.tool("stop", process=process)
        self.assertEqual((ended["running"], ended["exit_code"]), (False, 143))
        self.failed(lambda: self.talk.tool("poll", process=999999), "no process")

    def test_files(self):
        self.assertEqual(self.talk.tool("write", path="d/a.txt", content="one\ntwo\nthree\n")["bytes_written"], 14)
        self.assertEqual(self.talk.tool("read", path="d/a.txt", first_line=2, lines=1)["content"], "two\n")
        self.assertEqual(self.talk.tool("read", path="d/a.txt")["total_lines"], 3)
        self.failed(lambda: self.talk.tool("read", path="d/a.txt", first_line=9), "the file has 3 lines")
        self.failed(lambda: self.talk.tool("read", path="../etc/shadow"), "..")
        self.talk.tool("write", path="d/b", content=base64.b64encode(b"\xff\0").decode(), encoding="base64")
        self.assertEqual(self.talk.tool("read", path="d/b")["encoding"], "base64")
        names = [one["name"] for one in self.talk.tool("list", path="d")["entries"]]
        self.assertEqual(names, ["a.txt", "b"])
        self.talk.tool("run", command="seq 1 50000 >d/long")
        part = self.talk.tool("read", path="d/long", lines=100000)
        self.assertTrue(part["truncated"])
        more = self.talk.tool("read", path="d/long", first_line=part["last_line"] + 1, lines=1)
        self.assertEqual(more["content"], f"{part['last_line'] + 1}\n")

    def test_edit(self):
        self.talk.tool("write", path="e.py", content="a = 1\nb = 1\n")
        self.failed(lambda: self.talk.tool("edit", path="e.py", old_text="1", new_text="2"), "stands 2 times")
        self.failed(lambda: self.talk.tool("edit", path="e.py", old_text="c = 1", new_text="2"), "is not in the file")
        self.failed(lambda: self.talk.tool("edit", path="none", old_text="c", new_text="2"), "")
        self.assertEqual(self.talk.tool("edit", path="e.py", old_text="b = 1", new_text="b = 2")["replaced"], 1)
        self.assertEqual(self.talk.tool("edit", path="e.py", old_text=" = ", new_text="=", replace_all=True)["replaced"], 2)
        self.talk.tool("run", command="chmod 751 e.py; ln -s e.py link")
        self.talk.tool("edit", path="link", old_text="a=1", new_text="a=7")
        self.assertEqual(self.talk.tool("run", command="cat e.py; stat -c %a,%F e.py link")["stdout"],
                         "a=7\nb=2\n751,regular file\n777,symbolic link\n")

    def test_search(self):
        self.talk.tool("run", command="mkdir -p s/sub s/node_modules; echo needle >s/x.py; echo 'a needle' >s/sub/y.py; "
                                      "echo needle >s/node_modules/z.py; echo hay >s/sub/n.txt")
        found = self.talk.tool("search", pattern="n(ee)+dle$", path="s")
        self.assertEqual([(one["path"], one["line"], one["text"]) for one in found["matches"]],
                         [("/workspace/s/sub/y.py", 1, "a needle"), ("/workspace/s/x.py", 1, "needle")])
        self.assertEqual(len(self.talk.tool("search", pattern="needle", path="s", exclude=[])["matches"]), 3)
        self.assertEqual(self.talk.tool("search", pattern="hay", path="s", glob="**/*.py")["matches"], [])
        one = self.talk.tool("search", pattern="needle", path="s", max_results=1)
        self.assertEqual((len(one["matches"]), one["truncated"]), (1, True))
        found = self.talk.tool("search", glob="**/*.py", path="s")
        self.assertEqual([one["path"] for one in found["files"]], ["/workspace/s/sub/y.py", "/workspace/s/x.py"])
        self.failed(lambda: self.talk.tool("search", pattern="(", path="s"), "arguments.pattern")
        self.failed(lambda: self.talk.tool("search", path="s"), "or glob for paths")

    def test_checkpoint_fork_and_rollback(self):
        self.talk.tool("write", path="state", content="before")
        kept = self.talk.tool("checkpoint", name="good")["checkpoint"]
        fork = self.talk.tool("fork")["fork"]
        self.addCleanup(self.server.delete, path_of(fork))
        self.talk.tool("write", path="state", content="after")
        self.assertEqual(self.talk.tool("read", path="state", sandbox=fork)["content"], "before")
        self.talk.tool("rollback", checkpoint="good")
        self.assertEqual(self.talk.tool("read", path="state")["content"], "before")
        self.assertEqual(self.talk.tool("rollback", checkpoint=kept)["checkpoint"], kept)

    def test_expose_names_the_address(self):
        self.talk.tool("start", command="python3 -m http.server --bind 127.0.0.1 8000")
        wait_for(lambda: self.talk.tool("expose", port=8000)["listening"], "the server inside")
        self.assertEqual(self.talk.tool("expose", port=8000)["url"], f"http://8000-{self.box}.box.test:8080/")

    def test_a_wish_for_a_host_is_recorded_and_grants_nothing(self):
        asked = self.talk.tool("request_access", host="PyPI.org", reason="to install numpy")
        self.assertEqual((asked["host"], asked["port"], asked["allowed"]), ("pypi.org", 443, False))
        rows = self.server.get(f"/api/v1/audit?sandbox={self.box}&action=egress.").json["rows"]
        self.assertEqual([(one["action"], one["object"], one["outcome"]) for one in rows],
                         [("egress.request", "pypi.org:443", "denied")])
        self.assertEqual(rows[0]["detail"]["message"], "asked for: to install numpy")
        self.assertEqual(self.server.get(path_of(self.box)).json["network"]["mode"], "none")
        self.failed(lambda: self.talk.tool("request_access", host="http://pypi.org/"), "without a scheme")
        rules = {"rules": [{"domain": "pypi.org", "ports": [443]}]}
        self.assertEqual(self.server.put(path_of(self.box, "network"), json.dumps(rules),
                                         headers={"Content-Type": "application/json"}).status, 200)
        self.assertTrue(self.talk.tool("request_access", host="pypi.org")["allowed"])

    def test_resources(self):
        listed = [one["uri"] for one in self.talk.ask("resources/list")["resources"]]
        self.assertIn(f"caisson://{self.box}/policy", listed)
        self.assertEqual(len(self.talk.ask("resources/templates/list")["resourceTemplates"]), 3)
        read = lambda what: self.talk.ask("resources/read", {"uri": f"caisson://{self.box}/{what}"})["contents"][0]
        self.assertEqual(json.loads(read("policy")["text"])["workspace"], "/workspace")
        self.assertEqual(json.loads(read("budget")["text"])["tokens"], 0)
        self.talk.tool("run", command="mkdir -p r; printf 'a b' >'r/x y'; printf '\\377' >r/raw")
        self.assertEqual(read("files/workspace/r/x%20y")["text"], "a b")
        self.assertEqual(read("files/workspace/r/raw")["blob"], "/w==")
        names = [one["name"] for one in json.loads(read("files/workspace/r")["text"])["entries"]]
        self.assertEqual(names, ["raw", "x y"])
        for wrong in ("caisson://nobody/policy", "file:///etc/passwd", f"caisson://{self.box}/files/none"):
            answer = self.talk.post("resources/read", {"uri": wrong})
            self.assertEqual(answer.json["error"]["code"], -32002, answer.body)

    def test_edit_and_search_are_tools_of_every_door(self):
        box = self.create()
        self.result(box, "file_write", path="f", content="x y")
        self.assertEqual(self.result(box, "file_edit", path="f", old_text="x", new_text="z")["replaced"], 1)
        self.refused(self.tool(box, "file_edit", path="f", old_text="", new_text="z"), 400, "InvalidArgument",
                     "arguments.old_text")
        self.assertEqual(self.result(box, "file_search", pattern="z y")["matches"][0]["path"], "/workspace/f")
        self.assertFalse(self.result(box, "request_access", host="a.example")["allowed"])
        limited = self.create(tools=["file_read"])
        self.refused(self.tool(limited, "file_edit", path="f", old_text="a", new_text="b"), 403, "Denied")
        self.failed(lambda: self.talk.tool("run", command="id", sandbox=limited), "shell_exec")


if __name__ == "__main__":
    main()
