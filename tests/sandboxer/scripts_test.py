"""What sandboxer's own scripts do, step by step, with clients that send what its SDKs send and are as impatient."""

import http.client
import json
import pathlib
import shutil
import subprocess

from sandboxer_case import HTTPX, SDK_TIMEOUT, Sdk, SandboxerCase
from harness import main, wait_for

HERE = pathlib.Path(__file__).resolve().parent


class Scripts(SandboxerCase):
    pictures = {"nginx": "nginx", "redis": "redis", "hello-world": "hello-world"}

    def sdk(self):
        return Sdk(self.server.port, self.server.token)

    def test_a_web_server_with_the_sync_client(self):
        box = self.sdk().create("nginx", "webserver", interactive=True)
        self.assertEqual((box.label, box.image, box.interactive), ("webserver", "nginx", True))
        done = box.exec("echo '<h1>Hello from sandbox!</h1>' > /usr/share/nginx/html/index.html")
        self.assertEqual(done["exit_code"], 0, done)
        answer = self.sdk().send("GET", f"/sandboxes/{box.id}/proxy/")
        self.assertEqual(answer.status, 200, answer.body)
        self.assertIn("Hello from sandbox!", answer.body.decode())
        box.terminate()

    def test_a_counter_in_three_generations(self):
        root = self.sdk().create("redis", "root")
        self.assertEqual(root.exec("redis-cli incr counter")["stdout"], "1")
        root.exec("echo kept >/data/file")
        child = root.fork("fork_1")
        self.assertEqual((child.label, child.image), ("fork_1", "redis"))
        deep = None
        if child.more["memory"]:
            child.exec("redis-cli incr counter")
            deep = child.fork("deep_fork")
            deep.exec("redis-cli incr counter")
            for one, count in ((root, 1), (child, 2), (deep, 3)):
                self.assertEqual(int(one.exec("redis-cli get counter")["stdout"]), count)
        else:
            # This tier forks files: the answer says so, the files are there, and the program has begun anew.
            self.assertEqual(child.exec("cat /data/file")["stdout"], "kept")
            self.assertEqual(child.exec("redis-cli incr counter")["stdout"], "1")
            deep = child.fork("deep_fork")
            self.assertIs(deep.more["memory"], False)
            self.assertEqual(deep.exec("cat /data/file")["stdout"], "kept")
            self.assertEqual(root.exec("redis-cli get counter")["stdout"], "1")
        self.assertIn("deep_fork", root.tree()["tree"])
        self.assertEqual(len(deep.logs()["executions"]) > 0, True)
        for one in (deep, child, root):
            one.terminate()

    def test_a_branch_is_kept_with_the_sdk(self):
        root = self.sdk().create("redis", "root")
        child = root.fork("child")
        kept = root.coalesce(child)
        self.assertEqual((kept.id, kept.label), (child.id, "child"))
        kept.terminate()

    def test_the_readme_says_hello(self):
        made = self.good("POST", "/sandboxes", {"image": "hello-world", "label": "hello", "interactive": False})
        wait_for(lambda: "Hello from Docker!" in self.logs(made), "its greeting")

    def test_the_javascript_client(self):
        node = shutil.which("node")
        if not node:
            self.skipTest("needs node, which is not installed")
        done = subprocess.run([node, str(HERE / "sdk.mjs"), self.server.url, self.server.token], capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(said["counters"][0], "1")
        self.assertEqual(said["labels"], ["ts-root", "fork", "deep"])
        self.assertEqual(said["files"], ["kept", "kept", "kept"])
        if said["memory"]:
            self.assertEqual(said["counters"], ["1", "2", "3"])
        self.assertGreaterEqual(said["logs"], 2)
        self.assertEqual(said["missing"], 404)


class Demo(SandboxerCase):
    """The command-line demo: no token, no `interactive`, an image without a shell."""

    flags = ("--open",)
    pictures = {"jmalloc/echo-server": "echo-server"}

    def step(self, method, path, body=None, status=200):
        answer = Sdk(self.server.port).send(method, path, body)
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body) if answer.body else None

    def test_the_demo_from_its_first_step_to_its_last(self):
        root = self.step("POST", "/sandboxes", {"image": "jmalloc/echo-server", "label": "Root Sandbox"})["id"]
        left = self.step("POST", f"/sandboxes/{root}/fork", {"label": "left"})["id"]
        right = self.step("POST", f"/sandboxes/{root}/fork", {"label": "right"})["id"]
        for one, label in ((left, "Left Fork"), (right, "Right Fork")):
            self.assertEqual(self.step("PATCH", f"/sandboxes/{one}", {"label": label})["label"], label)
        deep = self.step("POST", f"/sandboxes/{right}/fork", {"label": "deep"})["id"]
        self.step("PATCH", f"/sandboxes/{deep}", {"label": "Grandchild"})
        tree = self.step("GET", f"/sandboxes/{root}/tree")
        self.assertEqual(len(tree["tree"].split("\n")), 4)
        self.assertEqual(tree["tree_json"]["children"][1]["children"][0]["label"], "Grandchild")
        done = self.step("POST", f"/sandboxes/{root}/execute", {"code": "echo Hello World"})
        self.assertEqual(set(done), {"stdout", "stderr", "exit_code"})
        self.stream(root)
        self.read_events(deep)
        answer = Sdk(self.server.port).send("POST", f"/sandboxes/{root}/proxy/foo", {"hello": "world"})
        self.assertEqual(answer.status, 200)
        self.assertIn(b'{"hello":"world"}', answer.body)
        self.step("POST", f"/sandboxes/{root}/coalesce/{deep}")
        self.assertEqual(self.step("GET", f"/sandboxes/{deep}/tree")["tree"], f"📦 Grandchild [{deep}]")
        self.step("DELETE", f"/sandboxes/{deep}")
        for one in (root, left, right):
            self.step("DELETE", f"/sandboxes/{one}", status=404)

    def stream(self, box):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SDK_TIMEOUT)
        self.addCleanup(connection.close)
        body = json.dumps({"code": "for i in 1 2 3; do echo $i; sleep 1; done"}).encode()
        connection.request("POST", f"/sandboxes/{box}/execute?stream=true", body,
                           HTTPX | {"Content-Type": "application/json"})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        lines = [json.loads(line) for line in answer.read().decode().splitlines()]
        self.assertEqual(lines[-1]["type"], "exit")

    def read_events(self, box):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=SDK_TIMEOUT)
        self.addCleanup(connection.close)
        connection.request("GET", f"/sandboxes/{box}/proxy/.sse", headers=HTTPX)
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        for _ in range(6):
            self.assertNotEqual(answer.read1(4096), b"")

    def test_an_open_server_is_open_to_this_machine_only(self):
        for host in ("evil.example", "sandboxer.test"):
            answer = self.ask("GET", "/sandboxes", token="", headers={"Host": host})
            self.assertIn(answer.status, (401, 403, 421))
        answer = self.ask("GET", "/sandboxes", token="", headers={"Origin": "http://evil.example"})
        self.assertEqual(answer.status, 403)


if __name__ == "__main__":
    main()
