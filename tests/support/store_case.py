"""What the tests of images and of file state have in common: a server with a small store of its own, and short words
for what is asked of it.

    class Snapshots(StoreCase):
        def test_one(self):
            box = self.create(storage="disk")
            self.shell(box, "echo one >a")
            self.snapshot(box, name="first")
"""

import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import urllib.parse

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "server"))
from api_case import ApiCase  # noqa: E402
from harness import PATIENCE, Server, path_of, wait_for  # noqa: E402

STORE_BYTES = 1 << 30
SLOW = PATIENCE * 4  # seconds for a call that moves many bytes


def need(case, *programs):
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        case.skipTest(f"needs {' '.join(missing)}, which is not installed")


def outside(*words, **more):
    """A program of the test's own side: what it says, once it has succeeded."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=SLOW,
                          **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


def tar_of(folder, names=None):
    """A folder as one tar archive; its content at the top."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for one in sorted(pathlib.Path(folder).iterdir()):
            if names is None or one.name in names:
                tar.add(one, one.name)
    return out.getvalue()


def query(path, /, **words):
    return path + "?" + urllib.parse.urlencode(words)


class StoreServer(Server):
    """With a small store. Its end is that of the launcher, too, which first puts the store away."""

    def __init__(self, *flags, **more):
        super().__init__("--store-bytes", str(STORE_BYTES), *flags, **more)

    def stop(self):
        status = super().stop()
        wait_for(lambda: not self.processes(), "the end of the launcher")
        return status

    def keeper(self):
        """The launcher has children that come and go: one that goes while it is looked at is no keeper."""
        return wait_for(lambda: self.one_of(super(StoreServer, self).keeper), "one keeper")

    def worker(self):
        return wait_for(lambda: self.one_of(super(StoreServer, self).worker), "one worker")

    @staticmethod
    def one_of(look):
        try:
            return look()
        except AssertionError:
            return None


class StoreCase(ApiCase):
    """The server asks for a token, and `self.server.token` is an admin's."""

    flags = ()
    before_start = None  # gets the server
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = StoreServer(*cls.flags, config=cls.config, env=cls.env)
        cls.addClassCleanup(cls.server.close)
        if cls.before_start:
            cls.before_start(cls.server)
        cls.server.start()

    # --- commands

    def run_in(self, box, command, **more):
        answer = self.server.post(path_of(box, "exec"), {"command": command, **more})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def shell(self, box, command, **more):
        """What it says, once it has succeeded."""
        done = self.run_in(box, command, **more)
        self.assertEqual(done["exit_code"], 0, done)
        return done["stdout"]

    def fails(self, box, command, **more):
        done = self.run_in(box, command, **more)
        self.assertNotEqual(done["exit_code"], 0, done)
        return done

    def background(self, box, command="echo up; sleep 1000"):
        """A process that runs on; it says `up` when it has begun."""
        answer = self.server.post(path_of(box, "processes"), {"command": command})
        self.assertEqual(answer.status, 201, answer.body)
        process = answer.json["id"]
        path = path_of(box, f"processes/{process}")
        wait_for(lambda: self.server.get(path).json["stdout"]["end"] >= 3, "a process inside")
        return process

    # --- answers

    def told(self, answer, status=200):
        self.assertEqual(answer.status, status, answer.body)
        return answer.json

    def tenant(self, name, *scopes):
        """A token of another tenant."""
        wish = {"tenant": name, "scopes": list(scopes or ("read", "use", "create"))}
        return self.told(self.server.post("/api/v1/tokens", wish), 201)["token"]

    # --- file state

    def snapshot(self, box, **wish):
        return self.told(self.server.post(path_of(box, "snapshots"), wish), 201)

    def snapshots(self, box=None):
        path = path_of(box, "snapshots") if box else "/api/v1/snapshots"
        return self.told(self.server.get(path))["snapshots"]

    def fork(self, box, **wish):
        made = self.told(self.server.post(path_of(box, "fork"), wish), 201)
        self.server.ids.add(made["id"])
        self.addCleanup(self.server.delete, path_of(made["id"]))
        return made

    def undo(self, box, **wish):
        return self.told(self.server.post(path_of(box, "undo"), wish))

    def diff(self, a, b, path="/"):
        """path → kind"""
        said = self.told(self.server.get(query("/api/v1/diff", **{"from": a, "to": b, "path": path})))
        self.assertFalse(said["truncated"])
        return {one["path"]: one["kind"] for one in said["changes"]}

    def storage(self):
        return self.told(self.server.get("/api/v1/storage"))

    # --- images

    def images(self, **more):
        return {one["reference"]: one for one in self.told(self.server.get("/api/v1/images", **more))["images"]}

    def image(self, reference, **more):
        return self.server.get(query("/api/v1/images/inspect", reference=reference), **more)

    def try_pull(self, reference, **wish):
        return self.server.post("/api/v1/images/pull", {"reference": reference, **wish}, timeout=SLOW)

    def pull(self, reference, **wish):
        return self.told(self.try_pull(reference, **wish))

    def try_import(self, content, reference, **words):
        path = query("/api/v1/images/import", reference=reference, **words)
        return self.server.post(path, content, headers={"Content-Type": "application/x-tar"}, timeout=SLOW)

    def import_image(self, content, reference, **words):
        return self.told(self.try_import(content, reference, **words), 201)

    def remove_image(self, reference):
        return self.server.delete(query("/api/v1/images", reference=reference))

    def export(self, reference, file):
        answer = self.server.get(query("/api/v1/images/export", reference=reference), timeout=SLOW)
        self.assertEqual(answer.status, 200, answer.body[:300])
        pathlib.Path(file).write_bytes(answer.body)
        return file

    def collect(self):
        return self.told(self.server.post("/api/v1/images/gc", timeout=SLOW))
