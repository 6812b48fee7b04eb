"""A client of sandboxer, and a server that it takes for one.

    class Life(SandboxerCase):
        pictures = {"busybox": "busybox"}

        def test_one(self):
            box = self.make("busybox", args=["sleep", "1000"])
            self.assertEqual(self.run_one(box, "echo hi"), ("hi", "", 0))

`Sdk` sends what the published SDK sends, header by header, and gives up when nothing comes for five seconds, as it does.
"""

import http.client
import json
import pathlib
import sys
import urllib.parse

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "server"), str(HERE.parent / "images")]
from harness import Answer, wait_for  # noqa: E402
from pictures import picture  # noqa: E402
from store_case import StoreCase, tar_of  # noqa: E402

SDK_TIMEOUT = 5  # httpx's own
SLOW = 120
HTTPX = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive",
         "User-Agent": "python-httpx/0.28.1"}
IDLE = ["sleep", "100000"]


def parsed(answer, content):
    kind = answer.getheader("Content-Type", "")
    return json.loads(content) if kind.startswith("application/json") and content else None


class Failed(Exception):
    """What raise_for_status() raises."""

    def __init__(self, answer):
        super().__init__(f"{answer.status} {answer.body[:500]}")
        self.answer = answer


class Sdk:
    """The Python SDK's requests. Redirects are not followed."""

    def __init__(self, port, token=None):
        self.port = port
        self.headers = HTTPX | ({"Authorization": f"Bearer {token}"} if token else {})

    def send(self, method, path, body=None):
        fields = dict(self.headers)
        raw = None
        if body is not None:
            raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            fields["Content-Type"] = "application/json"
        elif method in ("POST", "PUT", "PATCH"):
            fields["Content-Length"] = "0"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SDK_TIMEOUT)
        try:
            connection.request(method, path, raw, fields)
            answer = connection.getresponse()
            content = answer.read()
            return Answer(answer.status, answer.headers, content, parsed(answer, content))
        finally:
            connection.close()

    def call(self, method, path, body=None):
        answer = self.send(method, path, body)
        if answer.status >= 400:
            raise Failed(answer)
        return json.loads(answer.body)

    def create(self, image, label, interactive=False):
        wish = {"image": image, "label": label, "interactive": interactive}
        return SdkSandbox(self, **self.call("POST", "/sandboxes", wish))


class SdkSandbox:
    """As the SDK builds it: the answer's keys are its arguments."""

    def __init__(self, client, id, label="", image="", interactive=False, **more):
        self.client, self.id, self.label, self.image, self.interactive = client, id, label, image, interactive
        self.more = more

    def at(self, *parts):
        return "/".join(("/sandboxes", self.id, *parts))

    def fork(self, label):
        return SdkSandbox(self.client, **self.client.call("POST", self.at("fork"), {"label": label}))

    def exec(self, code):
        return self.client.call("POST", self.at("execute"), {"code": code})

    def terminate(self):
        return self.client.call("DELETE", self.at())

    def tree(self):
        return self.client.call("GET", self.at("tree"))

    def coalesce(self, final):
        return SdkSandbox(self.client, **self.client.call("POST", self.at("coalesce", final.id)))

    def logs(self, limit=1000):
        return self.client.call("GET", self.at("execution-logs") + f"?limit={limit}")


class SandboxerCase(StoreCase):
    """`pictures`: the name that clients use → the image that is meant."""

    pictures = {"busybox": "busybox"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bring_pictures()

    @classmethod
    def bring_pictures(cls):
        for reference, name in cls.pictures.items():
            path = "/api/v1/images/import?" + urllib.parse.urlencode({"reference": reference})
            answer = cls.server.post(path, tar_of(picture(name)), headers={"Content-Type": "application/x-tar"},
                                     timeout=SLOW)
            assert answer.status == 201, answer.body

    # --- asking

    def ask(self, method, path, body=None, token=None, headers=None, raw=None, timeout=SLOW):
        """A token of "" sends none."""
        fields = {}
        token = self.server.token if token is None else token
        if token:
            fields["Authorization"] = f"Bearer {token}"
        if body is not None:
            raw = json.dumps(body).encode()
            fields["Content-Type"] = "application/json"
        fields |= headers or {}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout)
        try:
            connection.request(method, path, raw, fields)
            answer = connection.getresponse()
            content = answer.read()
            return Answer(answer.status, answer.headers, content, parsed(answer, content))
        finally:
            connection.close()

    def open(self, method, path, body=None, token=None, headers=None, timeout=SLOW):
        """(connection, unread answer)"""
        fields = {"Authorization": f"Bearer {token or self.server.token}"}
        if body is not None:
            body = json.dumps(body).encode()
            fields["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout)
        self.addCleanup(connection.close)
        connection.request(method, path, body, fields | (headers or {}))
        return connection, connection.getresponse()

    def good(self, method, path, body=None, **more):
        answer = self.ask(method, path, body, **more)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def detail(self, answer, status, text=None):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(list(answer.json), ["detail"])
        if text is not None:
            self.assertEqual(answer.json["detail"], text)

    # --- sandboxes

    def make(self, image="busybox", label="a label", token=None, keep=False, **more):
        """The answer of a create."""
        if image == "busybox" and "args" not in more and not more.get("interactive"):
            more["args"] = IDLE
        made = self.good("POST", "/sandboxes", {"image": image, "label": label} | more, token=token)
        self.server.ids.add(made["name"])
        if not keep:
            self.addCleanup(self.ask, "DELETE", f"/sandboxes/{made['id']}", token=token)
        return made

    def fork(self, box, label="a fork", **more):
        made = self.good("POST", self.at(box, "fork"), {"label": label} | more)
        self.server.ids.add(made["name"])
        self.addCleanup(self.ask, "DELETE", f"/sandboxes/{made['id']}")
        return made

    @staticmethod
    def at(box, *parts):
        return "/".join(("/sandboxes", box["id"] if isinstance(box, dict) else box, *parts))

    def show(self, box, **more):
        return self.good("GET", self.at(box), **more)

    def rows(self, **more):
        return {one["id"]: one for one in self.good("GET", "/sandboxes", **more)["sandboxes"]}

    def execute(self, box, code, **more):
        return self.good("POST", self.at(box, "execute"), {"code": code}, **more)

    def run_one(self, box, code):
        done = self.execute(box, code)
        self.assertEqual(list(done), ["stdout", "stderr", "exit_code"])
        return done["stdout"], done["stderr"], done["exit_code"]

    def logs(self, box):
        answer = self.ask("GET", self.at(box, "logs"))
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(answer.headers["Content-Type"], "text/plain; charset=utf-8")
        return answer.body.decode()

    def until_status(self, box, status):
        wait_for(lambda: self.show(box)["status"] == status, f"the status {status}")
        return self.show(box)
