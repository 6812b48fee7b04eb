"""An image from its registry or its file to a running sandbox, and back into a file that other tools read."""

import io
import json
import pathlib
import stat
import subprocess
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "server")]
import harness  # noqa: E402
import kit  # noqa: E402
import layered  # noqa: E402
import layout  # noqa: E402
from harness import path_of  # noqa: E402
from registry import Registry  # noqa: E402
from store_case import StoreCase, need, outside, query, tar_of  # noqa: E402

SKOPEO = ("skopeo", "--insecure-policy", "copy", "--quiet")


def digest(name):
    return layout.tags(kit.image(name))["1"]["digest"]


class ImageCase(StoreCase):
    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry())
        cls.config = f"images:\n  insecure: ['{cls.registry.address}']\n"
        super().setUpClass()

    def setUp(self):
        need(self, "skopeo", "umoci", "docker-registry")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp")))

    def pushed(self, name):
        return self.registry.push(kit.image(name), f"kit/{name}:1")

    def tree(self, box, path):
        """name → (kind, mode, content or target) of a folder inside, as its archive has it."""
        answer = self.server.get(path_of(box, "archive", path))
        self.assertEqual(answer.status, 200, answer.body[:300])
        kinds = {tarfile.REGTYPE: stat.S_IFREG, tarfile.DIRTYPE: stat.S_IFDIR, tarfile.SYMTYPE: stat.S_IFLNK}
        found = {}
        with tarfile.open(fileobj=io.BytesIO(answer.body)) as tar:
            for info in tar:
                content = {tarfile.SYMTYPE: lambda: info.linkname.encode(), tarfile.DIRTYPE: lambda: None}.get(
                    info.type, lambda: tar.extractfile(info).read())()
                kind = stat.S_IFREG if info.type == tarfile.LNKTYPE else kinds[info.type]
                found[info.name.rstrip("/").removeprefix("./").removeprefix(".")] = (kind, info.mode & 0o7777, content)
        return found


class Pulled(ImageCase):
    env = {"CAISSON_IMAGES_PULL_ON_CREATE": "true"}

    def test_by_tag_it_is_listed_and_runs(self):
        reference = self.pushed("python")
        made = self.pull(reference)
        self.assertEqual((made["reference"], made["digest"], made["source"]), (reference, digest("python"), "pull"))
        self.assertEqual(made["platform"], f"linux/{layout.ARCHITECTURE}")
        self.assertEqual(made["layers"], [diff_id for _, diff_id in layout.layers_of(kit.image("python"))])
        self.assertEqual(made["packed_bytes"], sum(one["size"] for one, _ in layout.layers_of(kit.image("python"))))
        self.assertGreater(made["bytes"], 0)
        self.assertEqual(self.images()[reference], made)
        self.assertEqual(self.told(self.image(reference)), made)
        box = self.create(image=reference)
        self.assertEqual(self.shell(box, "python3 -c 'import json; print(json.dumps([1]))'"), "[1]\n")

    def test_its_config_is_honoured(self):
        reference = self.pushed("python")
        config = self.pull(reference)["config"]
        self.assertEqual((config["user"], config["uid"], config["gid"], config["workdir"]),
                         ("1000:1000", 1000, 1000, "/app"))
        self.assertEqual((config["command"], config["entrypoint"], config["ports"]), (["python3"], [], ["8000/tcp"]))
        self.assertEqual(config["labels"], {"org.opencontainers.image.title": "python kit"})
        box = self.create(image=reference, env={"LANG": "C", "MINE": "1"})
        seen = self.told(self.server.get(path_of(box)))
        self.assertEqual((seen["user"], seen["workdir"], seen["image"]), (1000, "/app", reference))
        said = self.shell(box, "id -u; id -g; pwd; echo $PYTHONDONTWRITEBYTECODE $LANG $MINE; python3 hello.py")
        self.assertEqual(said, "1000\n1000\n/app\n1 C 1\nhello\n")
        self.shell(box, "echo mine >/app/new && test -w /app/new")
        other = self.create(image=reference, user=0, workdir="/tmp")
        self.assertEqual(self.shell(other, "id -u; pwd"), "0\n/tmp\n")
        self.fails(other, "test -e /app/new")

    def test_the_root_can_be_written_unless_it_says_otherwise(self):
        reference = self.pushed("debian")
        self.pull(reference)
        box = self.create(image=reference)
        self.shell(box, "echo x >/etc/mine && rm /usr/bin/tar && cat /etc/mine")
        self.fails(self.create(image=reference), "cat /etc/mine")
        closed = self.create(image=reference, filesystem={"root": "read_only"})
        self.fails(closed, "echo x >/etc/mine")
        self.shell(closed, "echo x >/workspace/mine && test -x /usr/bin/tar")

    def test_by_digest(self):
        self.pushed("busybox")
        reference = f"{self.registry.reference('kit/busybox')}@{digest('busybox')}"
        made = self.pull(reference)
        self.assertEqual((made["reference"], made["digest"]), (reference, digest("busybox")))
        self.assertEqual(self.shell(self.create(image=reference), "echo $((6 * 7))"), "42\n")
        wrong = f"{self.registry.reference('kit/busybox')}@sha256:{'0' * 64}"
        self.refused(self.try_pull(wrong), 404, "NotFound")

    def test_the_layered_one_is_what_the_specification_says(self):
        reference = self.pushed("layered")
        self.assertEqual(len(self.pull(reference)["layers"]), 20)
        box = self.create(image=reference)
        # An archive has no sticky bit. What another user owns is not read by a root without privileges: it is read as
        # its owner.
        theirs = self.create(image=reference, user=1000, workdir="/tmp")
        mode = int(self.shell(theirs, "stat -c %a /tree/private"), 8)
        private = (stat.S_IFREG, mode, self.shell(theirs, "cat /tree/private").encode())
        for name, owner in layered.OWNERS.items():
            self.assertEqual(self.shell(box, f"stat -c '%u %g' /{name}"), "{} {}\n".format(*owner))
        self.shell(box, "rm -f /tree/private")
        found = {f"tree/{name}" if name else "tree": one for name, one in self.tree(box, "/tree").items()}
        found["tree/private"] = private
        found["tree/sticky"] = (stat.S_IFDIR, int(self.shell(box, "stat -c %a /tree/sticky"), 8), None)
        self.assertEqual(found, layered.EXPECTED)
        first, second = self.shell(box, "stat -c %i /tree/one /tree/two").split()
        self.assertEqual(first, second)
        for name, when in layered.TIMES.items():
            self.assertEqual(self.shell(box, f"stat -c %Y /{name}"), f"{when}\n")

    def test_a_second_pull_downloads_nothing(self):
        reference = self.pushed("debian")
        self.pull(reference)
        blobs = lambda: self.registry.log().count("/blobs/sha256")  # noqa: E731
        before = blobs()
        path = "/api/v1/images/pull?stream=true"
        with self.server.events("POST", path, {"reference": reference}, timeout=harness.PATIENCE) as events:
            told, last = events.until("image")
        self.assertEqual(last.data["digest"], digest("debian"))
        self.assertEqual([one for one in told if one.data["stage"] == "unpack"], [])
        self.assertEqual(blobs(), before)
        # --keep: not even the registry is asked.
        asked = len(self.registry.log())
        self.pull(reference, refresh=False)
        self.assertEqual(len(self.registry.log()), asked)

    def test_progress_is_told(self):
        reference = self.registry.push(kit.image("python"), "kit/told:1")
        self.remove_image(self.pushed("python"))
        self.collect()
        path = "/api/v1/images/pull?stream=true"
        with self.server.events("POST", path, {"reference": reference}, timeout=harness.PATIENCE) as events:
            told, last = events.until("image")
        self.assertEqual(last.data["reference"], reference)
        self.assertLessEqual({one.data["stage"] for one in told}, {"resolve", "download", "unpack"})
        self.assertIn("download", {one.data["stage"] for one in told})
        for one in told:
            self.assertLessEqual(one.data["done"], one.data["total"])

    def test_a_create_pulls_what_is_not_here(self):
        reference = self.registry.push(kit.image("busybox"), "kit/on-create:1")
        self.assertEqual(self.shell(self.create(image=reference), "echo here"), "here\n")
        self.assertIn(reference, self.images())
        answer = self.server.post("/api/v1/sandboxes", {"image": self.registry.reference("kit/none:1")})
        self.refused(answer, 404, "NotFound", "base_image")

    def test_another_platform(self):
        with layout.Layout(self.folder / "many") as made:
            images = {f"linux/{name}": made.image([layout.Layer().file("name", name.encode())], architecture=name)
                      for name in ("amd64", "arm64")}
            made.tag("1", made.index(images))
        reference = self.registry.push(self.folder / "many", "kit/many:1")
        for name in ("amd64", "arm64"):
            made = self.pull(reference, platform=f"linux/{name}")
            self.assertEqual((made["platform"], made["digest"]), (f"linux/{name}", images[f"linux/{name}"]["digest"]))
        self.refused(self.try_pull(reference, platform="linux/s390x"), 404, "NotFound")

    def test_removed_it_goes_on_where_it_is_used(self):
        reference = self.registry.push(kit.image("busybox"), "kit/removed:1")
        self.pull(reference)
        box = self.create(image=reference, storage="disk")
        self.assertEqual(self.remove_image(reference).status, 204)
        self.refused(self.remove_image(reference), 404, "NotFound")
        self.refused(self.image(reference), 404, "NotFound")
        self.assertNotIn(reference, self.images())
        for image in list(self.images()):
            self.remove_image(image)
        self.collect()
        self.assertEqual(self.shell(box, "echo still here"), "still here\n")
        self.shell(box, "echo x >/kept")
        fork = self.fork(box)["id"]
        self.assertEqual(self.shell(fork, "cat /kept"), "x\n")

    def test_garbage_is_what_nobody_needs(self):
        for image in list(self.images()):
            self.remove_image(image)
        self.collect()
        kept = self.registry.push(kit.image("busybox"), "kit/kept:1")
        gone = self.registry.push(kit.image("debian"), "kit/gone:1")
        self.pull(kept), self.pull(gone)
        self.assertEqual(self.remove_image(gone).status, 204)
        done = self.collect()
        self.assertEqual((done["layers"], done["blobs"] >= 2, done["bytes"] > 0), (2, True, True), done)
        again = self.collect()
        self.assertEqual((again["layers"], again["blobs"]), (0, 0))
        self.assertEqual(self.shell(self.create(image=kept), "echo x"), "x\n")
        self.pull(gone)
        self.assertEqual(self.shell(self.create(image=gone), "tar --version | head -c 3"), "tar")
        token = self.tenant("others")
        self.refused(self.server.post("/api/v1/images/gc", token=token), 403, "Denied")

    def test_another_tenant_sees_nothing_of_it(self):
        reference = self.pushed("busybox")
        self.pull(reference)
        token = self.tenant("others")
        self.assertEqual(self.images(token=token), {})
        self.refused(self.image(reference, token=token), 404, "NotFound")
        self.refused(self.server.get(query("/api/v1/images/export", reference=reference), token=token), 404,
                     "NotFound")
        answer = self.server.delete(query("/api/v1/images", reference=reference), token=token)
        self.refused(answer, 404, "NotFound")
        self.assertIn(reference, self.images())


class Locked(StoreCase):
    """A registry that wants a password."""

    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(Registry(users={"me": "secret"}))
        cls.config = f"images:\n  insecure: ['{cls.registry.address}']\n"
        super().setUpClass()

    def test_with_credentials_only(self):
        reference = self.registry.push(kit.image("busybox"), "kit/busybox:1")
        self.refused(self.try_pull(reference), 401, "Unauthenticated")
        self.refused(self.try_pull(reference, username="me", password="wrong"), 401, "Unauthenticated")
        self.assertEqual(self.images(), {})
        self.pull(reference, username="me", password="secret")
        self.refused(self.try_pull(reference), 401, "Unauthenticated")
        self.assertNotIn("secret", self.server.log())


class Imported(ImageCase):
    def works(self, reference, command="echo $((6 * 7))", says="42\n"):
        self.assertEqual(self.shell(self.create(image=reference), command), says)

    def test_an_oci_layout(self):
        made = self.import_image(tar_of(kit.image("busybox")), "local/busybox:1")
        self.assertEqual((made["digest"], made["source"]), (digest("busybox"), "import"))
        self.assertEqual(list(self.images()).count(made["reference"]), 1)
        self.works("local/busybox:1")

    def test_an_oci_archive_of_skopeo(self):
        file = self.folder / "python.tar"
        outside(*SKOPEO, f"oci:{kit.image('python')}:1", f"oci-archive:{file}:python")
        made = self.import_image(file.read_bytes(), "local/python:1")
        self.assertEqual((made["config"]["uid"], made["config"]["workdir"]), (1000, "/app"))
        self.works("local/python:1", "python3 hello.py", "hello\n")

    def test_a_docker_archive_of_skopeo(self):
        file = self.folder / "docker.tar"
        outside(*SKOPEO, f"oci:{kit.image('layered')}:1", f"docker-archive:{file}:some/name:2")
        self.import_image(file.read_bytes(), "local/docker:1")
        self.works("local/docker:1", "cat /tree/last /tree/both/y; ls /tree/emptied", "lasty")

    def test_one_of_several(self):
        with layout.Layout(self.folder / "two") as made:
            below = layout.layers_of(kit.image("busybox"))
            for one, _ in below:
                target = layout.blob_path(self.folder / "two", one["digest"])
                target.write_bytes(layout.blob_path(kit.image("busybox"), one["digest"]).read_bytes())
            for name in ("red", "blue"):
                own = made.layer(layout.Layer().file("colour", name.encode()))
                made.tag(name, made.manifest([*below, own]))
        content = tar_of(self.folder / "two")
        self.refused(self.try_import(content, "local/two:1"), 400, "InvalidArgument")
        self.assertNotIn("local/two:1", str(self.images()))
        self.import_image(content, "local/two:1", pick="blue")
        self.works("local/two:1", "cat /colour", "blue")

    def test_a_root_file_system_as_tar(self):
        outside("umoci", "unpack", "--image", f"{kit.image('busybox')}:1", self.folder / "bundle")
        content = tar_of(self.folder / "bundle/rootfs")
        for name, words in {"plain": None, "gzip": ["gzip", "-c"], "zstd": ["zstd", "-qc"]}.items():
            with self.subTest(name):
                packed = content if words is None else self.packed(words, content)
                self.import_image(packed, f"local/root:{name}")
                self.works(f"local/root:{name}")

    @staticmethod
    def packed(words, content):
        return subprocess.run(words, input=content, capture_output=True, check=True).stdout

    def command(self, *words, code=0):
        env = {"PATH": "/usr/bin:/bin", "CAISSON_URL": self.server.url, "CAISSON_TOKEN": self.server.token}
        done = subprocess.run([str(harness.BIN / "caisson"), *map(str, words)], capture_output=True, text=True, env=env,
                              check=False, timeout=harness.PATIENCE * 4)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_folders_by_the_command(self):
        outside("umoci", "unpack", "--image", f"{kit.image('busybox')}:1", self.folder / "bundle")
        self.command("image", "import", self.folder / "bundle/rootfs", "--name", "local/folder:1")
        self.works("local/folder:1")
        self.command("image", "import", kit.image("busybox"), "--name", "local/layout:1")
        self.assertEqual(self.told(self.image("local/layout:1"))["digest"], digest("busybox"))
        listed = self.command("image", "ls").stdout
        self.assertIn("local/folder:1", listed)
        self.assertIn("local/layout:1", listed)
        self.command("image", "inspect", "local/folder:1")
        self.command("image", "rm", "local/folder:1")
        self.command("image", "gc")
        self.command("image", "inspect", "local/folder:1", code=1)

    def test_what_is_no_archive(self):
        whole = tar_of(kit.image("busybox"))
        for name, content in {"empty": b"", "text": b"hello" * 1000, "half": whole[: len(whole) // 2]}.items():
            with self.subTest(name):
                answer = self.try_import(content, f"local/bad:{name}")
                self.assertIn(answer.status, (400, 502), answer.body)
                self.assertIn(answer.json["error"]["code"], ("InvalidArgument", "Protocol"))
                self.assertNotIn("local/bad", str(self.images()))


class Exported(ImageCase):
    def test_skopeo_reads_it_byte_for_byte(self):
        reference = self.pushed("python")
        self.pull(reference)
        file = self.export(reference, self.folder / "out.tar")
        (self.folder / "out").mkdir()
        outside("tar", "-xf", file, "-C", self.folder / "out")
        listed = json.loads((self.folder / "out/index.json").read_text())["manifests"]
        self.assertEqual([one["digest"] for one in listed], [digest("python")])
        outside(*SKOPEO, "--preserve-digests", f"oci-archive:{file}", f"oci:{self.folder}/copy:1")
        self.assertEqual(layout.tags(self.folder / "copy")["1"]["digest"], digest("python"))

    def test_podman_loads_it(self):
        need(self, "podman")
        self.pull(self.pushed("busybox"))
        file = self.export(self.pushed("busybox"), self.folder / "out.tar")
        podman = ("podman", "--root", self.folder / "podman", "--runroot", self.folder / "run", "--storage-driver",
                  "vfs")
        outside(*podman, "load", "-i", file)
        self.assertEqual(len(json.loads(outside(*podman, "images", "--format", "json"))), 1)

    def test_imported_again_it_is_the_same(self):
        self.pull(self.pushed("layered"))
        file = self.export(self.pushed("layered"), self.folder / "out.tar")
        made = self.import_image(file.read_bytes(), "local/again:1")
        self.assertEqual(made["digest"], digest("layered"))


class Built(ImageCase):
    def build(self, **wish):
        answer = self.server.post("/api/v1/images/build", wish, timeout=harness.PATIENCE * 4)
        return self.told(answer, 201)

    def test_an_image_of_a_snapshot(self):
        base = self.pushed("busybox")
        self.pull(base)
        box = self.create(image=base, storage="disk", user=0)
        self.shell(box, "mkdir -p /app && echo one >/app/a && rm /etc/group && ln -s a /app/link && chmod 750 /app/a")
        self.snapshot(box, name="built-1")
        self.shell(box, "echo two >/app/a && mkfifo /app/pipe; echo b >/app/b")
        self.snapshot(box, name="built-2")
        made = self.build(reference="local/built:1", snapshot="built-2", workdir="/app", command=["cat", "a"],
                          user="65534", labels={"a": "b"})
        config = made["config"]
        self.assertEqual((made["source"], config["workdir"], config["command"], config["uid"], config["labels"]),
                         ("build", "/app", ["cat", "a"], 65534, {"a": "b"}))
        self.assertEqual(made["layers"][0], layout.layers_of(kit.image("busybox"))[0][1])
        self.assertEqual(len(made["layers"]), 3)
        again = self.create(image="local/built:1")
        self.assertEqual(self.shell(again, "pwd; id -u; readlink link; cat b"), "/app\n65534\na\nb\n")
        self.fails(again, "test -e /etc/group")
        self.assertEqual(self.shell(self.create(image="local/built:1", user=0), "cat a"), "two\n")

    def test_what_is_built_other_tools_read(self):
        base = self.pushed("busybox")
        self.pull(base)
        box = self.create(image=base, storage="disk", user=0)
        self.shell(box, "mkdir /app && echo one >/app/a && rm /etc/group && rm -r /var && mkdir /var && echo v >/var/v")
        kept = self.snapshot(box)["id"]
        self.build(reference="local/built:2", snapshot=kept)
        file = self.export("local/built:2", self.folder / "out.tar")
        outside(*SKOPEO, f"oci-archive:{file}", f"oci:{self.folder}/copy:1")
        outside("umoci", "unpack", "--image", f"{self.folder}/copy:1", self.folder / "bundle")
        root = self.folder / "bundle/rootfs"
        self.assertEqual((root / "app/a").read_text(), "one\n")
        self.assertFalse((root / "etc/group").exists())
        self.assertTrue((root / "etc/passwd").exists())
        self.assertEqual([one.name for one in (root / "var").iterdir()], ["v"])
        self.assertEqual(outside("chroot", root, "/bin/cat", "/app/a"), "one\n")

    def test_above_the_hosts_programs_it_is_what_was_written_alone(self):
        box = self.create(storage="disk")
        self.shell(box, "echo one >a")
        made = self.build(reference="local/host:1", snapshot=self.snapshot(box)["id"])
        self.assertEqual(len(made["layers"]), 1)
        file = self.export("local/host:1", self.folder / "out.tar")
        outside(*SKOPEO, f"oci-archive:{file}", f"oci:{self.folder}/copy:1")
        outside("umoci", "unpack", "--image", f"{self.folder}/copy:1", self.folder / "bundle")
        root = self.folder / "bundle/rootfs"
        self.assertEqual((root / "workspace/a").read_text(), "one\n")
        self.assertFalse((root / "usr/bin").exists(), "the host's own files are not given away")

    def test_of_what_is_not_there(self):
        answer = self.server.post("/api/v1/images/build", {"reference": "local/x:1", "snapshot": "none"})
        self.refused(answer, 404, "NotFound")
        self.assertNotIn("local/x", str(self.images()))


if __name__ == "__main__":
    harness.main()
