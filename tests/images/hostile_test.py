"""Registries that lie and images that attack: typed errors, nothing in the list, and nothing left behind."""

import io
import pathlib
import sys
import tarfile
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), str(HERE.parent / "server")]
import harness  # noqa: E402
import kit  # noqa: E402
import layout  # noqa: E402
import lying_registry as lies  # noqa: E402
from layout import Layer  # noqa: E402
from store_case import SLOW, StoreCase, query, tar_of  # noqa: E402

NAME = "kit/busybox"
SECRET = "do-not-tell"


def with_index(folder):
    """An index above the image of busybox, so that there are four levels."""
    base = kit.image("busybox")
    with layout.Layout(folder) as made:
        below = layout.layers_of(base)
        for one, _ in below:
            layout.blob_path(folder, one["digest"]).write_bytes(layout.blob_path(base, one["digest"]).read_bytes())
        manifest = made.manifest(below, layout.config_of(base))
        made.tag("1", made.index({f"linux/{layout.ARCHITECTURE}": manifest}))
    return folder


class LyingCase(StoreCase):
    """A registry beside the server, and another one that nobody listed."""

    @classmethod
    def setUpClass(cls):
        cls.registry = cls.enterClassContext(lies.LyingRegistry())
        cls.other = cls.enterClassContext(lies.LyingRegistry())
        cls.config = f"images:\n  insecure: ['{cls.registry.address}']\n"
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(dir="/var/tmp"))
        cls.folder = with_index(pathlib.Path(folder))
        super().setUpClass()

    def setUp(self):
        super().setUp()
        self.reference = self.registry.reference(f"{NAME}:1")
        for registry in (self.registry, self.other):
            registry.straighten()
            registry.forget()
            registry.hold(NAME, "1", self.folder)
        self.addCleanup(self.nothing_left)

    def nothing_left(self):
        """All that it pulled can be taken away again, and the store is empty then."""
        for image in list(self.images()):
            self.assertEqual(self.remove_image(image).status, 204)
        self.collect()
        self.assertEqual(self.images(), {})
        images = self.server.state / "server/images"
        self.assertEqual([str(one) for one in images.rglob("*") if one.is_file() and "sha256" in str(one)], [])

    def denied(self, answer, *codes):
        self.assertIn(answer.json["error"]["code"], codes, answer.body)
        self.assertNotIn(self.reference, self.images())

    def works(self):
        """And afterwards the truth is taken."""
        self.registry.straighten()
        self.pull(self.reference)
        self.assertEqual(self.shell(self.create(image=self.reference), "echo x"), "x\n")


class Lies(LyingCase):
    def test_one_wrong_byte_at_each_level(self):
        for level in ("index", "manifest", "config", "layer"):
            for at in (0, 100, -1):
                with self.subTest(level, at=at):
                    self.registry.straighten()
                    self.registry.bend(level, lies.flipped(at))
                    self.denied(self.try_pull(self.reference), "Protocol")
        self.works()

    def test_by_digest_the_index_is_judged_too(self):
        digest = layout.tags(self.folder)["1"]["digest"]
        self.registry.bend("index", lies.flipped(10))
        self.denied(self.try_pull(f"{self.registry.reference(NAME)}@{digest}"), "Protocol")

    def test_too_short_and_too_long(self):
        for level in ("index", "manifest", "config", "layer"):
            for name, lie in {"short": lies.shorter(50), "long": lies.longer(), "cut": lies.shorter(50, False),
                              "open end": lies.longer(b"x" * 100, honest_length=False)}.items():
                if name == "cut" and level in ("config", "layer"):
                    continue  # it is asked for again, from where it ended
                with self.subTest(level, lie=name):
                    self.collect()  # what was whole before would not be asked for again
                    self.registry.straighten()
                    self.registry.bend(level, lie)
                    self.denied(self.try_pull(self.reference), "Protocol", "Gone", "TimedOut")
        self.works()

    def test_endless(self):
        for level in ("index", "manifest", "config", "layer"):
            with self.subTest(level):
                self.registry.straighten()
                self.registry.bend(level, lies.endless())
                self.denied(self.try_pull(self.reference), "Protocol", "TooLarge")
        self.works()

    def test_a_layer_that_breaks_off_goes_on_where_it_was(self):
        self.registry.bend("layer", lies.shorter(500_000, honest_length=False), times=2)
        self.pull(self.reference)
        ranges = [one.header("Range") for one in self.registry.asked("layer")]
        self.assertIn("bytes=500000-", ranges)

    def test_errors_are_tried_again_and_not_for_ever(self):
        self.registry.bend("*", lies.status(503), times=2)
        self.pull(self.reference)
        self.registry.bend("*", lies.status(500))
        self.registry.forget()
        answer = self.try_pull(self.reference)
        self.assertIn(answer.json["error"]["code"], ("Protocol", "Gone", "TimedOut", "Busy"), answer.body)
        self.assertLess(len(self.registry.asked()), 20)

    def test_who_hangs_up_gives_a_stalled_pull_up(self):
        self.registry.bend("layer", lies.stalled(after=1000))
        path = "/api/v1/images/pull?stream=true"
        events = self.server.events("POST", path, {"reference": self.reference}, timeout=SLOW)
        self.assertTrue(self.registry.held.acquire(timeout=harness.PATIENCE))
        events.close()
        self.assertTrue(self.registry.left.acquire(timeout=harness.PATIENCE), "the pull goes on without its caller")
        self.assertNotIn(self.reference, self.images())
        self.works()

    def test_another_type_than_the_one_it_has(self):
        for kind in ("text/html", layout.OCI["manifest"], layout.DOCKER["index"]):
            with self.subTest(kind):
                self.registry.straighten()
                self.registry.bend("index", lies.typed(kind))
                self.denied(self.try_pull(self.reference), "Protocol")

    def test_a_digest_that_it_only_says(self):
        self.registry.bend("index", lies.headed(docker_content_digest="sha256:" + "0" * 64))
        self.denied(self.try_pull(self.reference), "Protocol")

    def test_a_tag_that_changes_is_looked_up_once(self):
        one, two = (layout.derive(kit.image("busybox"), pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(dir="/var/tmp"))), [Layer().file("which", name)]) for name in (b"1", b"2"))
        self.registry.hold(NAME, "moving", one, two)
        reference = self.registry.reference(f"{NAME}:moving")
        first = self.pull(reference)
        self.assertEqual(first["digest"], layout.tags(one)["1"]["digest"])
        self.assertEqual(len([asked for asked in self.registry.asked() if asked.tag == "moving"]), 1)
        box = self.create(image=reference)
        self.assertEqual(self.pull(reference)["digest"], layout.tags(two)["1"]["digest"])
        self.assertEqual(self.shell(box, "cat /which"), "1")
        self.assertEqual(self.shell(self.create(image=reference), "cat /which"), "2")
        self.pull(reference, refresh=False)


class Inward(LyingCase):
    def test_redirects_inward_are_refused(self):
        for to in ("http://169.254.169.254/latest/meta-data/", "https://10.0.0.1/x", "https://[::1]:1/x",
                   "http://[::ffff:127.0.0.1]:1/x", f"{self.other.url}{{path}}", "file:///etc/passwd",
                   "https://2130706433/x", "gopher://127.0.0.1/x", "//127.0.0.1:1/x", "http://0.0.0.0:1/x"):
            for level in ("layer", "manifest"):
                with self.subTest(to, level=level):
                    self.registry.straighten()
                    self.registry.bend(level, lies.redirected(to))
                    self.denied(self.try_pull(self.reference), "Denied", "Protocol", "InvalidArgument")
        self.assertEqual(self.other.asked(), [])
        self.works()

    def test_redirects_have_an_end(self):
        self.registry.bend("layer", lies.redirected("{path}"))
        self.denied(self.try_pull(self.reference), "Protocol")
        self.assertLess(len(self.registry.asked("layer")), 20)

    def test_a_registry_inside_is_not_asked(self):
        for name in (self.other.address, "10.0.0.1", "169.254.169.254", f"localhost:{self.other.port}", "[::1]:5000",
                     f"127.1:{self.other.port}"):
            with self.subTest(name):
                answer = self.try_pull(f"{name}/{NAME}:1")
                self.assertIn(answer.json["error"]["code"], ("Denied", "InvalidArgument", "Gone", "NotFound"),
                              answer.body)
        self.assertEqual(self.other.asked(), [])

    def test_a_realm_elsewhere_gets_nothing(self):
        self.registry.require_token(realm=f"{self.other.url}/token")
        answer = self.try_pull(self.reference, username="me", password=SECRET)
        self.denied(answer, "Denied", "Protocol")
        self.registry.require_token(realm="http://169.254.169.254/token")
        self.denied(self.try_pull(self.reference, username="me", password=SECRET), "Denied", "Protocol")
        self.assertEqual(self.other.asked(), [])
        self.assertNotIn(SECRET, self.server.log())

    def test_tokens_of_its_own_service(self):
        self.registry.require_token(users={"me": SECRET})
        self.denied(self.try_pull(self.reference), "Unauthenticated")
        self.denied(self.try_pull(self.reference, username="me", password="wrong"), "Unauthenticated")
        self.pull(self.reference, username="me", password=SECRET)
        self.assertNotIn(SECRET, self.server.log())

    def test_a_password_is_not_kept(self):
        self.registry.require_basic("me", SECRET)
        self.pull(self.reference, username="me", password=SECRET)
        self.denied_again = self.try_pull(self.reference)
        self.assertEqual(self.denied_again.json["error"]["code"], "Unauthenticated")
        for file in (self.server.state / "server").rglob("*"):
            if file.is_file():
                self.assertNotIn(SECRET.encode(), file.read_bytes(), file)


class Made(StoreCase):
    """Images whose bytes are what their digests say, and whose content is the attack."""

    def setUp(self):
        super().setUp()
        self.temporary = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
        self.count = 0
        self.remove_image("evil:1")

    def folder(self):
        self.count += 1
        return self.temporary / str(self.count)

    def attempt(self, *layers, **config):
        """busybox with these layers on top, and the answer of its import."""
        made = layout.derive(kit.image("busybox"), self.folder(), layers, **config)
        return self.try_import(tar_of(made), "evil:1")

    def refused_image(self, *layers, codes=("InvalidArgument", "Protocol", "TooLarge", "Exhausted"), **config):
        answer = self.attempt(*layers, **config)
        self.assertGreaterEqual(answer.status, 400, answer.body)
        self.assertIn(answer.json["error"]["code"], codes, answer.body)
        self.assertEqual([one for one in self.images() if "evil" in one], [])

    def box_of(self, *layers, user=0, **config):
        self.told(self.attempt(*layers, **config), 201)
        return self.create(image="evil:1", **({} if user is None else {"user": user}))


class Archives(Made):
    def test_names_that_lead_out(self):
        for name in ("../evil", "a/../../evil", "/../evil", "a/.."):
            with self.subTest(name):
                self.refused_image(Layer().file(name, b"x"))

    def test_hard_links_that_lead_out(self):
        for target in ("../../etc/passwd", "/etc/passwd", "etc/passwd", "none"):
            with self.subTest(target):
                self.refused_image(Layer().hard_link("hard", target))

    def test_a_file_through_a_link(self):
        host = pathlib.Path("/tmp/caisson-escaped")
        for target in (str(host), f"../../../../../..{host}", "/proc/self/root" + str(host)):
            with self.subTest(target):
                self.attempt(Layer().link("link", target), Layer().file("link/x", b"x"))
                self.attempt(Layer().link("link", target).file("link", b"x"))
                self.attempt(Layer().link("out", "/tmp").file("out/caisson-escaped", b"x"))
                self.assertFalse(host.exists())

    def test_a_link_in_one_layer_and_a_file_in_the_next(self):
        box = self.box_of(Layer().link("way", "/etc"), Layer().folder("way").file("way/passwd", b"evil"))
        self.assertNotIn("evil", self.shell(box, "cat /etc/passwd"))

    def test_a_root_that_is_a_link(self):
        self.refused_image(Layer().link(".", "/etc"))
        self.refused_image(Layer().link("./", "/"))

    def test_no_devices_no_setuid_no_attributes(self):
        layer = Layer().entry("disk", tarfile.BLKTYPE, devmajor=254, devminor=0, mode=0o666)
        layer.entry("mem", tarfile.CHRTYPE, devmajor=1, devminor=1, mode=0o666)
        layer.file("suid", b"#!/bin/sh\n", mode=0o6755)
        layer.file("marked", b"x", xattrs={"security.capability": "x", "trusted.overlay.opaque": "y",
                                           "user.overlay.opaque": "y", "trusted.overlay.redirect": "/etc"})
        box = self.box_of(layer)
        self.assertEqual(self.shell(box, "ls / | grep -E '^(disk|mem)$' || echo none"), "none\n")
        self.assertEqual(self.shell(box, "stat -c %a /suid"), "755\n")

    def test_a_whiteout_as_a_device_is_refused(self):
        self.refused_image(Layer().entry("etc/passwd", tarfile.CHRTYPE, devmajor=0, devminor=0))

    def test_owners_beyond_the_range(self):
        for owner in (65536, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40):
            with self.subTest(owner):
                self.refused_image(Layer().file("x", b"x", uid=owner))
                self.refused_image(Layer().file("x", b"x", gid=owner))

    def test_whiteouts_stay_in_the_layers(self):
        self.refused_image(Layer().link("way", "/etc").file("way/.wh.passwd"))
        # A link leads to the root of its layer: what is hidden there is the image's own.
        box = self.box_of(Layer().link("way", "/").file("way/.wh.root"))
        self.assertEqual(self.shell(box, "ls -a / /way | grep -F .wh. || echo none"), "none\n")
        self.fails(box, "test -e /root")
        self.assertTrue(pathlib.Path("/root").is_dir())
        for name in (".wh.", ".wh..", ".wh...", "d/.wh."):
            with self.subTest(name):
                answer = self.attempt(Layer().folder("d").file(name, b""))
                if answer.status == 201:
                    box = self.create(image="evil:1")
                    self.assertEqual(self.shell(box, "find / -xdev -name '.wh.*' | head -1; test -d /etc"), "")

    def test_file_to_folder_and_back(self):
        box = self.box_of(Layer().file("t", b"1"), Layer().folder("t").file("t/a", b"2"), Layer().file("t", b"3"),
                          Layer().folder("t").file("t/b", b"4"))
        self.assertEqual(self.shell(box, "ls /t; cat /t/b"), "b\n4")

    def test_what_lies_at_places_that_a_sandbox_needs(self):
        """Links and files where the sandbox mounts: nothing of the host is touched, and it starts or says why not."""
        for name in ("proc", "dev", "tmp", "run", "sys", "workspace"):
            for layer in (Layer().remove(name).link(name, "/etc"), Layer().remove(name).file(name, b"x"),
                          Layer().remove(name).link(name, "../../../../../tmp")):
                with self.subTest(name):
                    answer = self.attempt(layer)
                    if answer.status != 201:
                        continue
                    made_box = self.server.post("/api/v1/sandboxes", {"image": "evil:1"})
                    self.assertIn(made_box.status, (201, 400, 409, 501, 502), made_box.body)
                    if made_box.status == 201:
                        box = made_box.json["id"]
                        self.assertIn("root:", self.shell(box, "cat /etc/passwd"))
                        self.server.delete(f"/api/v1/sandboxes/{box}")

    def test_bombs(self):
        self.refused_image(layout.RawLayer(b"\0" * (2 << 30)))
        self.refused_image(Layer().file("a" * 300, b""))
        self.refused_image(Layer().file("/".join(["d"] * 3000), b""))
        self.refused_image(layout.RawLayer(b"no tar at all" * 1000))

    def test_a_layer_that_unpacks_to_something_else(self):
        folder = self.folder()
        with layout.Layout(folder) as made:
            one = made.layer(Layer().file("a", b"a"))[0]
            made.tag("1", made.manifest([(one, "sha256:" + "0" * 64)]))
        answer = self.try_import(tar_of(folder), "evil:1")
        self.assertEqual(answer.json["error"]["code"], "Protocol", answer.body)

    def test_manifests_that_are_two_things(self):
        for bent in ({"manifests": []}, {"mediaType": layout.OCI["index"]}, {"schemaVersion": 1},
                     {"mediaType": "text/html"}):
            with self.subTest(str(bent)):
                folder = self.folder()
                with layout.Layout(folder) as made:
                    made.tag("1", made.image([Layer().file("a", b"a")], **bent))
                answer = self.try_import(tar_of(folder), "evil:1")
                self.assertIn(answer.json["error"]["code"], ("Protocol", "InvalidArgument"), answer.body)

    def test_archives_that_attack_the_import_itself(self):
        """The outer archive: a link instead of a blob, and names that lead out of it."""
        good, escaped = kit.image("busybox"), pathlib.Path("/tmp/caisson-escaped")
        layer = layout.layers_of(good)[0][0]["digest"].replace(":", "/")
        tricks = {
            "a link": {"kind": tarfile.SYMTYPE, "linkname": str(good / "blobs" / layer)},
            "a hard link": {"kind": tarfile.LNKTYPE, "linkname": str(good / "blobs" / layer)},
            "a link upward": {"kind": tarfile.SYMTYPE, "linkname": "../../index.json"},
        }
        for name, fields in tricks.items():
            with self.subTest(name):
                out = io.BytesIO()
                with tarfile.open(fileobj=out, mode="w") as tar:
                    for file in sorted(good.rglob("*")):
                        if file.is_file() and not str(file).endswith(layer):
                            tar.add(file, str(file.relative_to(good)))
                    self.add(tar, f"blobs/{layer}", **fields)
                answer = self.try_import(out.getvalue(), "evil:1")
                self.assertIn(answer.json.get("error", {}).get("code"), ("Protocol", "InvalidArgument", "NotFound"),
                              answer.body)
        for name in (f"../..{escaped}", str(escaped), f"blobs/../../../../../../..{escaped}"):
            with self.subTest(name):
                out = io.BytesIO(tar_of(good))
                with tarfile.open(fileobj=out, mode="a") as tar:
                    self.add(tar, name, content=b"x")
                self.try_import(out.getvalue(), "evil:1")
                self.assertFalse(escaped.exists())

    @staticmethod
    def add(tar, name, kind=tarfile.REGTYPE, content=b"", **fields):
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, len(content)
        for key, value in fields.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(content))


class Configs(Made):
    def test_users_that_are_no_numbers_of_ours(self):
        codes = ("InvalidArgument", "Protocol", "NotFound", "Unsupported", "TooLarge")
        for user in ("4294967296", "4294967295", "2147483648", "65536", "99999999999", "-1", "0x0", "1e3",
                     "18446744073709551616", "0:4294967296", ":", "a:b:c", "root:none", "nobody-here", " 0", "0 ", "../etc", "a" * 300):
            with self.subTest(user):
                self.refused_image(User=user, codes=codes)

    def test_a_number_too_large_is_no_name(self):
        passwd = "root:x:0:0::/:/bin/sh\n99999999999:x:0:0::/:/bin/sh\n4294967296:x:0:0::/:/bin/sh\n"
        for user in ("99999999999", "4294967296"):
            self.refused_image(Layer().file("etc/passwd", passwd.encode()), User=user,
                               codes=("InvalidArgument", "Protocol", "NotFound"))

    def test_names_come_from_the_images_own_files(self):
        passwd = b"root:x:0:0::/:/bin/sh\nme:x:1234:1235::/home/me:/bin/sh\n"
        files = Layer().file("etc/passwd", passwd).file("etc/group", b"root:x:0:\nus:x:77:\n")
        for user, want in (("me", "1234 1235"), ("me:us", "1234 77"), ("1234", "1234 1235"), ("5:6", "5 6"), ("5", "5 0"),
                           ("", "0 0")):
            with self.subTest(user):
                box = self.box_of(files, user=None, User=user)
                self.assertEqual(self.shell(box, "echo $(id -u) $(id -g)"), want + "\n")

    def test_user_files_that_are_no_files(self):
        for name, layer in {"a link out": Layer().remove("etc/passwd").link("etc/passwd", "/proc/1/environ"),
                            "a fifo": Layer().entry("etc/passwd", tarfile.FIFOTYPE),
                            "a folder": Layer().remove("etc/passwd").folder("etc/passwd"),
                            "a large one": Layer().file("etc/passwd", b"x:x:1:1:::\n" * 200_000)}.items():
            with self.subTest(name):
                self.refused_image(layer, User="me", codes=("InvalidArgument", "Protocol", "NotFound", "TooLarge"))

    def test_working_folders(self):
        for path in ("../..", "relative", "/a/../../b", "/" + "x/" * 3000):
            with self.subTest(path[:20]):
                answer = self.attempt(WorkingDir=path)
                if answer.status != 201:
                    self.assertIn(answer.json["error"]["code"], ("InvalidArgument", "Protocol", "TooLarge"))
                    continue
                made = self.server.post("/api/v1/sandboxes", {"image": "evil:1"})
                self.assertIn(made.status, (201, 400), made.body)
        box = self.box_of(WorkingDir="/new/deep", user=None)
        self.assertEqual(self.shell(box, "pwd"), "/new/deep\n")
        box = self.box_of(Layer().link("way", "/etc"), WorkingDir="/way/made", user=None)
        self.assertIn(self.shell(box, "pwd -P"), ("/etc/made\n", "/way/made\n"))
        self.assertFalse(pathlib.Path("/etc/made").exists())

    def test_environments(self):
        self.refused_image(Env=["A=" + "x" * (10 << 20)])
        self.refused_image(Env=[f"A{n}=x" for n in range(100_000)])
        answer = self.attempt(Env=["NOEQUALS", "=x", "A=1", "A=2", "LD_PRELOAD=/x", "B=\nC=3"])
        if answer.status == 201:
            self.assertIn("A=2", self.shell(self.create(image="evil:1", env={"LD_PRELOAD": ""}), "env"))

    def test_text_that_is_shown(self):
        labels = {"a": "\x1b[2J\x00\n", "b": "<script>"}
        answer = self.attempt(Labels=labels, Cmd=["\x1b]0;x\x07", "x" * 100], Entrypoint=["\n"])
        self.assertIn(answer.status, (201, 400, 502))
        if answer.status == 201:
            seen = self.told(self.server.get(query("/api/v1/images/inspect", reference="evil:1")))
            self.assertEqual(seen["config"]["labels"]["b"], "<script>")
        self.assertNotIn("\x1b", self.server.log())

    def test_deep_and_large_json(self):
        deep = []
        for _ in range(500):
            deep = [deep]
        for name, whole in {"deep": {"x": deep}, "large": {"x": "y" * (9 << 20)},
                            "layers": {"rootfs": {"type": "layers", "diff_ids": []}}}.items():
            with self.subTest(name):
                folder = self.folder()
                with layout.Layout(folder) as made:
                    made.tag("1", made.image([Layer().file("a", b"a")], whole_config=whole))
                answer = self.try_import(tar_of(folder), "evil:1")
                self.assertIn(answer.json.get("error", {}).get("code"), ("Protocol", "InvalidArgument", "TooLarge"),
                              answer.body)


if __name__ == "__main__":
    harness.main()
