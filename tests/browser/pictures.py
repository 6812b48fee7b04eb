"""Takes the pictures of the documentation: a real server with a small world of sandboxes, seen by a real browser.

    pictures.py FOLDER [NAME…]

Names and sizes stay the same; what is inside follows the console. `./dev pictures` calls it.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("support", "server"))]
import chromium  # noqa: E402, F401  (first: it may start this program again)
import way_out  # noqa: E402

way_out.enter_own_world()  # before the first thread

from chromium import Visit, expect  # noqa: E402
from harness import Server, path_of  # noqa: E402
from upstream import Dns, Web  # noqa: E402
from way_out import PUBLIC  # noqa: E402

BYTES_MAX = 150_000
SIZES = {"list": (1280, 480), "terminal": (1280, 640), "changes": (1280, 600), "snapshots": (1280, 480),
         "network": (1280, 720), "audit": (1180, 560), "phone": (390, 620)}
SAMPLES = 10  # of a curve, before it is worth a picture

APP = '''"""Counts words, largest first."""
import collections
import sys


def count(text):
    return collections.Counter(text.lower().split()).most_common()


for word, times in count(sys.stdin.read()):
    print(f"{times:6} {word}")
'''
CHANGED = APP.replace("text.lower().split()", "re.findall(r\"[a-z']+\", text.lower())").replace(
    "import sys\n", "import re\nimport sys\n")
GROWS = "python3 -c 'import os, time\nd=[]\nwhile 1: d.append(os.urandom(9 << 20)); time.sleep(1)'"
LINES = ("PS1='\\w\\$ '; clear", "ls -l", "cat sample.txt", "python3 count.py <sample.txt",
         "curl -sS http://tracker.example.net/", "id")
DRAWN = """(count) => [...document.querySelectorAll('.spark polyline')]
  .some((line) => line.points.numberOfItems >= count)"""


class World:
    """What the pictures show."""

    def __init__(self):
        dns = Dns()
        for name in ("pypi.org", "files.pythonhosted.org", "tracker.example.net"):
            dns.set(name, PUBLIC)
        self.web = Web(port=80)
        self.server = Server("--store-bytes", str(2 << 30), config=f'egress: {{dns_servers: ["{dns.address}"]}}\n')
        self.server.start()

    def call(self, method, path, body=None):
        answer = self.server.request(method.upper(), path, body)
        if answer.status >= 300:
            raise AssertionError(f"{method} {path}: {answer.status} {answer.body}")
        return answer.json

    def run(self, box, command):
        return self.call("post", path_of(box, "exec"), {"command": command})

    def fork(self, box, name):
        return self.call("post", path_of(box, "fork"), {"name": name})["id"]

    def start(self, box, command):
        self.call("post", path_of(box, "processes"), {"command": command})

    def build(self):
        create = self.server.create
        rules = [{"domain": "pypi.org", "ports": [80, 443]}, {"domain": "files.pythonhosted.org", "ports": [80, 443]}]
        self.agent = create(name="word-counter", labels={"team": "tools"}, storage="disk", persistent=True,
                            files={"count.py": APP, "README.md": "# Word counter\n"},
                            network={"mode": "allowlist", "rules": rules}, resource_limits={"timeout_seconds": 14400})
        self.call("post", path_of(self.agent, "snapshots"), {"name": "first-draft"})
        self.tests = self.fork(self.agent, "try-regex")
        self.call("put", path_of(self.tests, "files/count.py"), CHANGED.encode())
        self.run(self.tests, "echo 'It works, it works!' >sample.txt; python3 count.py <sample.txt")
        self.call("post", path_of(self.tests, "snapshots"), {"name": "regex-works"})
        self.faster = self.fork(self.tests, "try-faster")
        self.fork(self.agent, "try-unicode")
        web = create(name="landing-page", labels={"team": "web"}, files={"index.html": "<h1>Hello</h1>"})
        self.start(web, "python3 -m http.server 8000")
        busy = create(name="nightly-build", labels={"team": "ci"},
                      resource_limits={"cpu": 0.5, "timeout_seconds": 1800})
        paused = create(name="data-review", labels={"team": "data"})
        self.call("post", path_of(paused, "pause"))
        self.start(busy, "for n in 1 3 2 4 1 3 2 4 1 3; do seq ${n}00000 | sort -R | md5sum; sleep 2; done")
        self.start(self.faster, GROWS)
        self.start(self.tests, "while :; do python3 count.py <count.py; sleep 0.2; done")
        self.call("put", "/api/v1/users/default", {"name": "Ada", "email": "ada@example.org"})
        for name in ("pypi.org", "files.pythonhosted.org", "tracker.example.net", "pypi.org"):
            self.run(self.agent, f"curl -s -o /dev/null http://{name}/simple/")


class Camera:
    def __init__(self, world, folder, names):
        self.world, self.folder, self.names = world, folder, names

    def visit(self, **wish):
        visit = Visit(self.world.server.url, **wish)
        visit.context.request.post(f"{self.world.server.url}/auth/token", data={"token": self.world.server.token})
        return visit, visit.page

    def take(self, name, page):
        picture = self.folder / f"{name}.png"
        page.screenshot(path=picture, animations="disabled", caret="hide")
        size = picture.stat().st_size
        print(f"{picture}: {size} bytes")
        if size > BYTES_MAX:
            raise AssertionError(f"{picture} has {size} bytes, at most {BYTES_MAX}: a smaller view will do")

    def every(self):
        for name in self.names or SIZES:
            width, height = SIZES[name]
            wish = {"viewport": {"width": width, "height": height},
                    "color_scheme": "dark" if name == "terminal" else "light"}
            if name == "phone":
                wish |= {"is_mobile": True, "has_touch": True}
            visit, page = self.visit(**wish)
            getattr(self, name)(page)
            self.take(name, page)
            if visit.complaints():
                raise AssertionError("\n".join(visit.complaints()))
            visit.close()

    def go(self, page, route):
        page.goto(f"{self.world.server.url}/{route}")

    def tab(self, page, box, tab):
        self.go(page, f"#/sandboxes/{box}/{tab}")
        expect(page.get_by_test_id(f"tab-{tab}")).to_be_visible()

    # --- one a picture

    def list(self, page):
        self.go(page, "")
        page.wait_for_function(DRAWN, arg=SAMPLES, timeout=120_000)

    def terminal(self, page):
        self.tab(page, self.world.tests, "terminal")
        expect(page.get_by_test_id("terminal-status")).to_have_attribute("data-status", "open")
        page.locator(".xterm-screen").click()
        screen = page.locator(".xterm-rows")
        # One after the other, as a person types: what a command says ends with the next prompt.
        for number, line in enumerate(LINES):
            page.keyboard.type(line)
            page.keyboard.press("Enter")
            expect(screen).to_have_text(re.compile(r"^" + r"/workspace\$ .*" * (number + 1), re.DOTALL))
        page.get_by_test_id("terminal-status").hover()

    def changes(self, page):
        self.tab(page, self.world.tests, "files")
        page.get_by_test_id("files-diff").click()
        kept = self.world.call("get", "/api/v1/snapshots")["snapshots"]
        first = next(one for one in kept if one["name"] == "first-draft")
        page.get_by_test_id("diff-from").select_option(f"snapshot:{first['id']}")
        change = page.get_by_test_id("change").filter(has_text="count.py")
        change.get_by_role("button").click()
        expect(page.get_by_test_id("patch")).to_be_visible()

    def snapshots(self, page):
        self.tab(page, self.world.agent, "snapshots")
        expect(page.get_by_test_id("family-snapshot").first).to_be_visible()

    def network(self, page):
        self.tab(page, self.world.agent, "network")
        expect(page.get_by_test_id("egress-allow").first).to_be_visible()

    def audit(self, page):
        self.go(page, "#/audit")
        page.get_by_test_id("verify").click()
        expect(page.get_by_test_id("verify-result")).to_have_attribute("data-intact", "true")

    def phone(self, page):
        self.go(page, "")
        expect(page.get_by_test_id("sandbox-row").first).to_be_visible()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    world = World()
    try:
        world.build()
        Camera(world, folder, sys.argv[2:]).every()
    finally:
        world.server.close()


if __name__ == "__main__":
    main()
