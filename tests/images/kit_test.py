"""The kit itself: its images are what they claim to be, other tools read them, and the registries of the tests serve
them, truly or not as they were told."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import ssl
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "server")]
import harness  # noqa: E402
import kit  # noqa: E402
import layered  # noqa: E402
import layout  # noqa: E402
import lying_registry as lies  # noqa: E402
from registry import Registry  # noqa: E402
from upstream import Authority  # noqa: E402

PROGRAMS = ("skopeo", "umoci", "docker-registry", "zstd", "dpkg-deb")


def run(*words, code=0):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"{words}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


class Case(unittest.TestCase):
    def setUp(self):
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        self.assertEqual(missing, [], "these programs are not installed")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp")))

    def unpack(self, folder):
        """The root, as umoci makes it."""
        run("umoci", "unpack", "--image", f"{folder}:1", self.folder / "bundle")
        return self.folder / "bundle/rootfs"


class Images(Case):
    def test_every_digest_and_size_is_true(self):
        for name in kit.USUAL:
            folder = kit.image(name)
            with self.subTest(name):
                for blob in (folder / "blobs/sha256").iterdir():
                    self.assertEqual(layout.digest_of_file(blob), f"sha256:{blob.name}")
                for descriptor, diff_id in layout.layers_of(folder):
                    path = layout.blob_path(folder, descriptor["digest"])
                    self.assertEqual(path.stat().st_size, descriptor["size"])
                    unpacker = {"gzip": ["gzip", "-dc"], "zstd": ["zstd", "-dqc"]}.get(
                        descriptor["mediaType"].partition("+")[2], ["cat"])
                    with open(path, "rb") as packed:
                        plain = subprocess.run(unpacker, stdin=packed, capture_output=True, check=True).stdout
                    self.assertEqual(layout.digest_of(plain), diff_id)

    def test_sizes_and_layers(self):
        for name, count, most in (("busybox", 1, 3e6), ("debian", 2, 40e6), ("python", 4, 60e6), ("layered", 20, 3e6)):
            layers = layout.layers_of(kit.image(name))
            self.assertEqual(len(layers), count, name)
            self.assertLess(sum(layer["size"] for layer, _ in layers), most, name)
        kinds = {layer["mediaType"].partition("+")[2] for layer, _ in layout.layers_of(kit.image("debian"))}
        self.assertEqual(kinds, {"gzip", "zstd"})

    def test_the_same_input_gives_the_same_bytes(self):
        made = []
        for name in ("one", "two"):
            with layout.Layout(self.folder / name) as new:
                made.append(new.image(layered.layers())["digest"])
        self.assertEqual(made[0], made[1])

    def test_busybox_runs(self):
        root = self.unpack(kit.image("busybox"))
        self.assertEqual(run("chroot", root, "/bin/sh", "-c", "echo $((6 * 7)) | cat"), "42\n")

    def test_python_runs_as_its_config_says(self):
        # umoci knows no zstd: skopeo writes its layers again.
        run("skopeo", "--insecure-policy", "copy", "--quiet", "--dest-compress", "--dest-compress-format", "gzip",
            f"oci:{kit.image('python')}:1", f"dir:{self.folder}/dir")
        run("skopeo", "--insecure-policy", "copy", "--quiet", f"dir:{self.folder}/dir", f"oci:{self.folder}/again:1")
        root = self.unpack(self.folder / "again")
        said = run("chroot", "--userspec=1000:1000", root, "/usr/bin/python3", "-c",
                   "import json, ssl, sqlite3, pwd, os; print(json.dumps([pwd.getpwuid(os.getuid()).pw_name, 1]))")
        self.assertEqual(json.loads(said), ["app", 1])
        self.assertEqual(run("chroot", root, "/bin/bash", "-c", "awk 'BEGIN { print 1 }' | sed s/1/2/"), "2\n")
        self.assertEqual(layout.config_of(kit.image("python"))["WorkingDir"], "/app")

    def test_derived(self):
        made = layout.derive(kit.image("busybox"), self.folder / "derived", [layout.Layer().file("extra", b"x")],
                             User="nobody")
        self.assertEqual(layout.config_of(made)["User"], "nobody")
        self.assertEqual((self.unpack(made) / "extra").read_bytes(), b"x")

    def test_layered_as_umoci_unpacks_it(self):
        root = self.unpack(kit.image("layered"))
        found = {}
        for folder, folders, files in os.walk(root / "tree"):
            for path in (folder, *(os.path.join(folder, name) for name in folders + files)):
                seen = os.lstat(path)
                kind = stat.S_IFMT(seen.st_mode)
                content = {stat.S_IFREG: lambda p: pathlib.Path(p).read_bytes(),
                           stat.S_IFLNK: lambda p: os.readlink(p).encode()}.get(kind, lambda _: None)(path)
                found[os.path.relpath(path, root)] = (kind, stat.S_IMODE(seen.st_mode), content)
        self.assertEqual(found, layered.EXPECTED)
        self.assertEqual(len({(root / name).stat().st_ino for name in layered.SAME_FILE}), 1)
        for name, owner in layered.OWNERS.items():
            self.assertEqual(((root / name).stat().st_uid, (root / name).stat().st_gid), owner)
        for name, when in layered.TIMES.items():
            self.assertEqual((root / name).stat().st_mtime, when)
        for name, marks in layered.XATTRS.items():
            self.assertEqual({key: os.getxattr(root / name, key) for key in marks}, marks)


class Registries(Case):
    def copy(self, reference, *flags, code=0):
        return run("skopeo", "--insecure-policy", "copy", "--quiet", *flags, f"docker://{reference}",
                   f"oci:{self.folder}/copy:1", code=code)

    def test_push_and_pull(self):
        with Registry() as registry:
            reference = registry.push(kit.image("debian"), "kit/debian:1")
            self.copy(reference, "--src-tls-verify=false", "--preserve-digests")
            self.assertEqual(layout.tags(self.folder / "copy")["1"]["digest"],
                             layout.tags(kit.image("debian"))["1"]["digest"])
            port = registry.port
            registry.stop()
            self.assertEqual(registry.start().port, port)
            self.copy(reference, "--src-tls-verify=false")
        self.assertIsNotNone(registry.process.poll())
        self.assertFalse(registry.folder.exists())

    def test_passwords(self):
        with Registry(users={"me": "secret"}) as registry:
            reference = registry.push(kit.image("busybox"), "kit/busybox:1")
            self.copy(reference, "--src-tls-verify=false", code=1)
            self.copy(reference, "--src-tls-verify=false", "--src-creds", "me:wrong", code=1)
            self.copy(reference, "--src-tls-verify=false", "--src-creds", "me:secret")

    def test_tls(self):
        authority = Authority(self.folder)
        trusted = self.folder / "trusted"
        trusted.mkdir()
        shutil.copy(authority.certificate, trusted / "ca.crt")
        with Registry(authority=authority) as registry:
            reference = registry.push(kit.image("busybox"), "kit/busybox:1")
            self.copy(reference, code=1)
            self.copy(reference, "--src-cert-dir", trusted)


    def test_an_index_with_its_platforms(self):
        with layout.Layout(self.folder / "many") as made:
            images = {f"linux/{name}": made.image([layout.Layer().file("name", name.encode())], architecture=name)
                      for name in ("amd64", "arm64")}
            made.tag("1", made.index(images))
        with Registry() as registry:
            reference = registry.push(self.folder / "many", "kit/many:1")
            for name in ("amd64", "arm64"):
                said = run("skopeo", "--override-arch", name, "inspect", "--config", "--tls-verify=false",
                           f"docker://{reference}")
                self.assertEqual(json.loads(said)["architecture"], name)


class Lies(Case):
    def setUp(self):
        super().setUp()
        self.image = kit.image("busybox")
        self.registry = self.enterContext(lies.LyingRegistry())
        self.digest = self.registry.hold("kit/busybox", "1", self.image)
        self.layer = layout.layers_of(self.image)[0][0]

    def get(self, path, method="GET", **headers):
        """(status, headers, body); the body is None where it did not come whole."""
        link = http.client.HTTPConnection("127.0.0.1", self.registry.port, timeout=harness.PATIENCE)
        with contextlib.closing(link):
            link.request(method, path, headers=headers)
            answer = link.getresponse()
            try:
                return answer.status, answer.headers, answer.read()
            except http.client.IncompleteRead:
                return answer.status, answer.headers, None

    def blob(self, **headers):
        return self.get(f"/v2/kit/busybox/blobs/{self.layer['digest']}", **headers)

    def manifest(self):
        return self.get("/v2/kit/busybox/manifests/1")

    def skopeo(self, which=":1", code=0):
        return run("skopeo", "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false",
                   f"docker://{self.registry.reference('kit/busybox')}{which}", f"oci:{self.folder}/copy:1", code=code)

    def test_it_tells_the_truth_at_first(self):
        self.skopeo()
        self.assertEqual(len(self.registry.asked("layer")), 1)
        self.assertEqual(len(self.registry.asked("config")), 1)

    def test_skopeo_believes_no_lie(self):
        for what in ("manifest", "config", "layer"):
            for how in (lies.flipped(at=20), lies.shorter(50), lies.shorter(50, honest_length=False)):
                self.registry.bend(what, how)
                self.skopeo(code=1)
                self.registry.straighten()
                shutil.rmtree(self.folder / "copy", ignore_errors=True)
        self.skopeo()

    def test_lengths(self):
        whole = self.blob()[2]
        self.assertEqual(len(whole), self.layer["size"])
        for how, wanted in ((lies.longer(b"xy"), whole + b"xy"), (lies.longer(b"x", honest_length=False), whole + b"x"),
                            (lies.shorter(7), whole[:7]), (lies.shorter(7, honest_length=False), None),
                            (lies.replaced(b"other"), b"other"), (lies.endless(b"ab", times=3), b"ababab"),
                            (lies.dripping(0, 1000), whole)):
            self.registry.straighten()
            self.registry.bend("layer", how)
            self.assertEqual(self.blob()[2], wanted)

    def test_ranges(self):
        status, headers, body = self.blob(Range="bytes=10-19")
        self.assertEqual((status, len(body), headers["Content-Range"]), (206, 10, f"bytes 10-19/{self.layer['size']}"))
        self.assertEqual(self.blob(Range=f"bytes={self.layer['size']}-")[0], 416)
        self.registry.ranges = False
        status, _, body = self.blob(Range="bytes=10-19")
        self.assertEqual((status, len(body)), (200, self.layer["size"]))

    def test_times_and_after(self):
        self.registry.bend("manifest", lies.status(503, retry_after=1), times=2, after=1)
        self.assertEqual([self.manifest()[0] for _ in range(4)], [200, 503, 503, 200])
        self.registry.bend("manifest", lies.status(429, retry_after=7))
        self.assertEqual(self.manifest()[1]["Retry-After"], "7")

    def test_a_tag_that_changes(self):
        self.registry.hold("kit/turning", "1", self.image, kit.image("layered"))
        said = [self.get("/v2/kit/turning/manifests/1")[1]["Docker-Content-Digest"] for _ in range(3)]
        self.assertEqual(said[0], self.digest)
        self.assertEqual(said[1], layout.tags(kit.image("layered"))["1"]["digest"])
        self.assertEqual(said[1], said[2])

    def test_the_types_of_docker(self):
        with layout.Layout(self.folder / "docker", layout.DOCKER) as made:
            made.tag("1", made.image([layout.Layer().file("one", b"1")]))
        self.registry.hold("kit/busybox", "1", self.folder / "docker")
        self.assertEqual(self.manifest()[1]["Content-Type"], layout.DOCKER["manifest"])
        self.skopeo()

    def test_bytes_under_a_digest_that_is_not_theirs(self):
        digest = self.registry.put(b"{}", "manifest", layout.OCI["manifest"], digest="sha256:" + "0" * 64)
        self.registry.point("kit/busybox", "1", digest)
        self.assertEqual(self.manifest()[2], b"{}")
        self.skopeo(f"@{digest}", code=1)

    def test_redirects(self):
        with lies.LyingRegistry() as other:
            other.hold("kit/busybox", "1", self.image)
            self.registry.bend("layer", lies.redirected(f"{other.url}{{path}}"))
            self.skopeo()
            self.assertEqual(len(other.asked("layer")), 1)

    def test_types_and_headers(self):
        self.registry.bend("manifest", lies.typed("text/plain"))
        self.registry.bend("manifest", lies.headed(docker_content_digest="sha256:00"))
        _, headers, body = self.manifest()
        self.assertEqual((headers["Content-Type"], headers["Docker-Content-Digest"]), ("text/plain", "sha256:00"))
        self.assertEqual("sha256:" + hashlib.sha256(body).hexdigest(), self.digest)

    def test_stall(self):
        self.registry.bend("layer", lies.stalled(after=5))
        link = http.client.HTTPConnection("127.0.0.1", self.registry.port, timeout=harness.PATIENCE)
        link.request("GET", f"/v2/kit/busybox/blobs/{self.layer['digest']}")
        answer = link.getresponse()
        self.assertEqual(len(answer.read(5)), 5)
        self.assertTrue(self.registry.held.acquire(timeout=harness.PATIENCE))
        answer.close()
        link.close()
        self.assertTrue(self.registry.left.acquire(timeout=harness.PATIENCE))

    def test_tokens(self):
        self.registry.require_token(users={"me": "secret"})
        self.skopeo(code=1)
        run("skopeo", "--insecure-policy", "copy", "--quiet", "--src-tls-verify=false", "--src-creds", "me:secret",
            f"docker://{self.registry.reference('kit/busybox:1')}", f"oci:{self.folder}/copy:1")
        self.assertTrue(self.registry.asked("token"))
        self.registry.straighten()
        self.registry.require_token(realm="http://127.0.0.1:1/elsewhere")
        self.assertIn('realm="http://127.0.0.1:1/elsewhere"', self.manifest()[1]["Www-Authenticate"])

    def test_basic(self):
        self.registry.require_basic("me", "secret")
        self.assertEqual(self.manifest()[0], 401)
        self.assertEqual(self.get("/v2/", Authorization="Basic bWU6c2VjcmV0")[0], 200)

    def test_tls(self):
        authority = Authority(self.folder)
        with lies.LyingRegistry(authority) as registry:
            trusting = ssl.create_default_context(cafile=authority.certificate)
            for name in ("127.0.0.1", "localhost"):
                link = http.client.HTTPSConnection(name, registry.port, context=trusting, timeout=harness.PATIENCE)
                with contextlib.closing(link):
                    link.request("GET", "/v2/")
                    self.assertEqual(link.getresponse().status, 200)


if __name__ == "__main__":
    harness.main()
