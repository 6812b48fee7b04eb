"""P49: a broken server is not a broken host. What the server's process has, and what somebody who took it over could
ask of the launcher: sandboxes within the ceiling, and nothing else."""

import json
import os
import socket
import stat
import struct

import live_server
from live_server import Attack, wait_until

VERSION = 9
(HELLO, LAUNCH, CONNECT, DESTROY, FREEZE, THAW, SET_LIMITS, STATUS, LIST, LIVING, WATCH, INSIDE, GATE, STOP_ONE, POOL, SEAL,
 RESTACK, COMMIT_LAYER, DROP, STORED, SET_VOLUME, SYNC_STORE, SAVE_MEMORY, GO_ON, MEASURE, RECLAIM, STOP,
 ENDED) = range(1, 29)
VIEW, LAYER, UPPER, VOLUME, TARGET = range(5)  # what of the store is shown in a sandbox
MIB = 1 << 20


def as_user(uid, function):
    """What `function` returns (JSON) when a process of this uid, without any group or capability, calls it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writer, json.dumps(function()).encode())
            os._exit(0)
        except BaseException as problem:  # the parent hears of it
            os.write(writer, json.dumps(f"{type(problem).__name__}: {problem}").encode())
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def limits(memory=64 * MIB, processes=32, cpu=500, disk=16 * MIB):
    return struct.pack("<QIIQQQQI", memory, processes, cpu, 0, 60_000_000, disk, 1000, 256)


def stack(layers=(), host=True):
    return bytes([host]) + struct.pack("<I", len(layers)) + b"".join(map(string, layers))


def store_mount(kind, at="/data", name="", layers=()):
    return bytes([kind]) + string(at) + string(name) + stack(layers) + struct.pack("<BQ", 0, 0)


def memory_of(words):
    """Whose processes go on: name, digest, runtime, and whether it is the same sandbox."""
    return [*map(string, words), bytes([0])]


def launch(box="", hostname="caisson", folders=(), writable=(), aliases=(), bounds=None, uid=1000, gid=1000, profile=0,
           trust="", layers=(), mounts=(), memory=("", "", "")):
    return b"".join([
        string(box), string(hostname), bytes([0, 0, 0]),
        struct.pack("<I", len(folders)), *(string(at) + bytes([mode]) for at, mode in folders),
        struct.pack("<I", len(writable)), *map(string, writable),
        struct.pack("<I", len(aliases)), *(string(at) + string(of) for at, of in aliases),
        bounds or limits(), struct.pack("<IIIBBBIH", uid, gid, profile, 1, 0, 0, 0, 0),
        stack(layers), bytes([0, 0, 0, 0, 0]), struct.pack("<I", len(mounts)), *mounts,
        string(trust), string(""), *memory_of(memory)])


class Launcher:
    """The launcher's wire, spoken by hand."""

    def __init__(self, path):
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.connect(str(path))
        self.link.settimeout(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def ask(self, message, fds=()):
        """(failed, the rest as text), or None when the connection is closed."""
        try:
            if fds:
                socket.send_fds(self.link, [message], list(fds))
            else:
                self.link.send(message)
            reply, handed, _, _ = socket.recv_fds(self.link, 1 << 17, 16)
        except (ConnectionResetError, BrokenPipeError):
            return None
        for fd in handed:
            os.close(fd)
        if len(reply) < 16:
            return None
        return bool(struct.unpack("<IIII", reply[:16])[3]), reply[16:].decode("latin-1")


def message_of(kind, body=b"", version=VERSION):
    return struct.pack("<IIII", version, kind, 7, 0) + body


def ask_once(path, message, fds=()):
    with Launcher(path) as launcher:
        return launcher.ask(message, fds)


class TakenOverServer(Attack):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uid = os.stat(cls.server.state / "server").st_uid
        cls.socket = cls.server.state / "run" / "launcher.sock"

    def setUp(self):
        (self.server.state / "launcher" / "ceiling").unlink(missing_ok=True)

    def as_server(self, function):
        return as_user(self.uid, function)

    def ask(self, kind, body=b"", open_folders=(), version=VERSION):
        """One request of a process with the server's uid."""
        def talk():
            fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in open_folders]
            return ask_once(self.socket, message_of(kind, body, version), fds)
        return self.as_server(talk)

    def refused(self, kind, body=b"", word="", **more):
        reply = self.ask(kind, body, **more)
        self.assertTrue(reply is None or reply[0] is True, reply)
        if word:
            self.assertIn(word, reply[1])
        self.assertFalse(self.ask(HELLO)[0])

    # ------------------------------------------------------------------------------------------ the process

    def test_the_process_has_no_privilege(self):
        status = self.server.status()
        self.assertNotEqual(self.uid, 0)
        self.assertEqual(status["Uid"], [str(self.uid)] * 4)
        self.assertEqual(set(status["Gid"]) - {str(self.uid)}, set())
        self.assertEqual(status["Groups"], [])
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(status[name][0], 16), 0, name)
        self.assertEqual(status["NoNewPrivs"], ["1"])
        for thread in os.listdir(f"/proc/{self.server.pid}/task"):
            with open(f"/proc/{self.server.pid}/task/{thread}/status", encoding="ascii") as file:
                text = file.read()
            self.assertIn("CapEff:\t0000000000000000", text)
            self.assertIn(f"Uid:\t{self.uid}\t{self.uid}\t{self.uid}\t{self.uid}", text)

    def test_its_memory_is_closed_to_its_own_user(self):
        """Not dumpable: its files in /proc are root's, and another process of the same user cannot read them."""
        self.assertEqual(os.stat(f"/proc/{self.server.pid}/environ").st_uid, 0)
        for name in ("environ", "mem", "maps", "auxv"):
            with self.subTest(name=name):
                answer = self.as_server(lambda: len(open(f"/proc/{self.server.pid}/{name}", "rb").read(1)))
                self.assertIn("PermissionError", str(answer))
        self.assertIn("PermissionError", str(self.as_server(lambda: os.listdir(f"/proc/{self.server.pid}/fd"))))

    def test_it_holds_no_folder_and_no_file_of_the_host(self):
        own = str(self.server.state / "server") + "/"
        given = {"/dev/null", str(self.server.out), str(self.server.err), str(self.server.state / "run" / "lock")}
        for number in os.listdir(f"/proc/{self.server.pid}/fd"):
            target = os.readlink(f"/proc/{self.server.pid}/fd/{number}")
            mode = os.stat(f"/proc/{self.server.pid}/fd/{number}").st_mode
            # Its own blobs of images, which nobody else can open, and no other folder.
            self.assertTrue(not stat.S_ISDIR(mode) or target.startswith(own), target)
            self.assertTrue(target.startswith(("socket:", "pipe:", "anon_inode:", own)) or target in given, target)

    def test_its_user_cannot_look_into_the_rest_of_the_state(self):
        state = self.server.state
        for folder in ("launcher", "layers", "sandboxes", "trash", "volumes", "run", "."):
            with self.subTest(folder=folder):
                self.assertIn("PermissionError", str(self.as_server(lambda: os.listdir(state / folder))))
                self.assertIn("PermissionError",
                              str(self.as_server(lambda: open(state / folder / "new", "w").write("x"))))
        for name in ("launcher/slots", "launcher/lock", "launcher/log", "launcher/ceiling", "run/lock"):
            with self.subTest(name=name):
                self.assertIn("PermissionError", str(self.as_server(lambda: open(state / name).read())))
        self.assertIsInstance(self.as_server(lambda: os.listdir(state / "server")), list)

    # ------------------------------------------------------------------------------------------ the launcher

    def test_a_sandbox_within_the_ceiling_is_made(self):
        """Otherwise the refusals below would say nothing."""
        box = "e" * 26
        self.assertFalse(self.ask(LAUNCH, launch(box))[0])
        self.assertFalse(self.ask(STATUS, string(box))[0])
        self.assertFalse(self.ask(DESTROY, string(box))[0])

    def test_folders_of_the_host_are_refused(self):
        for folder in ("/", "/usr", "/etc", "/tmp", str(self.server.state / "server")):
            for mode in (0, 1, 2, 255):
                self.refused(LAUNCH, launch(folders=[("/mnt", mode)]), "folders", open_folders=[folder])
        self.refused(LAUNCH, launch(folders=[("/mnt", 2)]))  # promised and not sent
        self.refused(LAUNCH, launch(), open_folders=["/usr"])  # sent and not named

    def test_what_a_sandbox_trusts_is_certificates_and_nothing_else(self):
        begin, end = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
        for trust in ("x", "/etc/shadow", begin + "$(id)\n" + end, begin + "AA==\n" + end + "#\n", "\n" + begin + end):
            self.refused(LAUNCH, launch(trust=trust), "trust")

    def test_no_filter_is_relaxed_unless_root_says_so(self):
        """The bit that lets processes of a sandbox trace each other."""
        debug, no_spawn = 1, 2
        for profile in (debug, debug | no_spawn):
            self.refused(LAUNCH, launch(profile=profile), "debug")
        ceiling = self.server.state / "launcher" / "ceiling"
        ceiling.write_text("debug yes\n", encoding="ascii")
        ceiling.chmod(0o600)
        box = "o" * 26
        self.assertFalse(self.ask(LAUNCH, launch(box, profile=debug))[0])
        self.assertFalse(self.ask(DESTROY, string(box))[0])
        ceiling.unlink()
        self.assertFalse(self.ask(LAUNCH, launch(box, profile=no_spawn))[0])
        self.assertFalse(self.ask(DESTROY, string(box))[0])

    def test_no_limit_beyond_the_ceiling(self):
        ceiling = self.server.state / "launcher" / "ceiling"
        ceiling.write_text(f"memory_bytes_max {128 * MIB}\nprocesses_max 64\ncpu_millis_max 1000\n"
                           f"disk_bytes_max {32 * MIB}\n", encoding="ascii")
        ceiling.chmod(0o600)
        box = "i" * 26
        self.assertFalse(self.ask(LAUNCH, launch(box))[0])
        beyond = {"memory_bytes_max": {"memory": 129 * MIB}, "processes_max": {"processes": 65},
                  "cpu_millis_max": {"cpu": 1001}, "disk_bytes_max": {"disk": 33 * MIB}}
        for key, wish in beyond.items():
            none_at_all = {name: 0 for name in wish}
            for bounds in (limits(**wish), limits(**none_at_all), limits(**{name: (1 << 32) - 1 for name in wish})):
                self.refused(LAUNCH, launch(bounds=bounds), "" if bounds == limits(**none_at_all) else key)
                self.refused(SET_LIMITS, string(box) + bounds)
        self.assertFalse(self.ask(DESTROY, string(box))[0])
        ceiling.write_text("sandboxes_max 1\n", encoding="ascii")
        self.assertFalse(self.ask(LAUNCH, launch(box))[0])
        self.refused(LAUNCH, launch(), "sandboxes_max")
        self.assertFalse(self.ask(DESTROY, string(box))[0])

    def test_a_ceiling_that_others_could_write_stops_everything(self):
        ceiling = self.server.state / "launcher" / "ceiling"
        ceiling.write_text("processes_max 64\n", encoding="ascii")
        ceiling.chmod(0o666)
        self.refused(LAUNCH, launch())
        ceiling.chmod(0o600)
        os.chown(ceiling, self.uid, -1)
        self.refused(LAUNCH, launch())
        ceiling.unlink()
        ceiling.symlink_to("/dev/null")
        self.refused(LAUNCH, launch())

    def test_odd_values_are_refused(self):
        for request in (launch("../../../etc"), launch("a/b"), launch("A" * 26), launch("x" * 4096),
                        launch(hostname="a\nb"), launch(hostname="a/b"), launch(hostname="x" * 64),
                        launch(uid=65535), launch(uid=2**32 - 1), launch(gid=65535), launch(gid=65536),
                        launch(writable=["relative"]), launch(writable=["/../etc"]), launch(writable=["/a\0b"]),
                        launch(writable=["/proc/x"]), launch(writable=["/"]), launch(writable=["/a"] * 65),
                        launch(aliases=[("/b", "/etc")]), launch(writable=["/a"], aliases=[("/proc/x", "/a")]),
                        launch(writable=["/a"], aliases=[("/a/b", "/a")]),
                        launch(writable=["/a"], aliases=[("/b", "/a")] * 17)):
            self.refused(LAUNCH, request)
        for kind in (CONNECT, DESTROY, FREEZE, THAW, STATUS):
            for box in ("", "../run", "a" * 26, "/etc", "a" * 27, b"\xff" * 26):
                self.refused(kind, string(box))

    def test_unknown_kinds_and_versions_are_refused(self):
        for kind in (0, ENDED, ENDED + 1, 99, 2**31, 2**32 - 1):
            self.refused(kind)
            self.refused(kind, string("a" * 26))
        for version in (0, VERSION - 1, VERSION + 1, 2**32 - 1):
            for kind in (LAUNCH, STOP, WATCH, LIST):
                self.refused(kind, launch() if kind == LAUNCH else b"", version=version)

    def test_names_in_the_store_lead_nowhere_else(self):
        bad = ("", ".", "..", "../server", "a/b", "/etc", ".hidden", "A", "a\0b", "a" * 81, b"\xff", "-a")
        for name in bad:
            self.refused(LAUNCH, launch(layers=[name]))
            for kind in (VIEW, LAYER, UPPER, VOLUME):
                self.refused(LAUNCH, launch(mounts=[store_mount(kind, name=name, layers=[name])]))
            if name:  # none is a launch without
                self.refused(LAUNCH, launch(memory=(name, "", "")))
            self.refused(SAVE_MEMORY, string("a" * 26) + string(name) + b"\0")
            self.refused(MEASURE, string(name))
            for what in range(4):
                self.refused(DROP, bytes([what]) + string(name))
            self.refused(SET_VOLUME, string(name) + struct.pack("<Q", 1 << 30))
            self.refused(SEAL, string("a" * 26) + string(name))
            self.refused(COMMIT_LAYER, string("a" * 26) + string(name))
        for at in ("/", "/proc", "/dev/x", "relative", "/../etc"):
            self.refused(LAUNCH, launch(mounts=[store_mount(VOLUME, at=at, name="a")]))
        # A target is a layer program's alone, and nobody else's process gets to write one.
        self.refused(LAUNCH, launch(mounts=[store_mount(TARGET)]))
        self.refused(LAUNCH, launch(layers=["a"] * 129))
        self.refused(RESTACK, string("a" * 26) + stack(["a"]) + b"\0")

    def test_wrong_lengths_are_refused(self):
        whole = launch()
        for request in [whole[:size] for size in range(0, len(whole), 3)] + [whole + b"x", whole + whole,
                        struct.pack("<I", 2**32 - 1), struct.pack("<I", 4097) + b"a" * 4097,
                        string("") + string("caisson") + bytes(3) + struct.pack("<I", 2**32 - 1)]:
            self.refused(LAUNCH, request)
        for kind in (HELLO, LIST, WATCH, STOP):
            self.refused(kind, b"x")
        for message in (b"", b"x", b"x" * 15, b"x" * 16, os.urandom(4096),
                        b"\0" * 65536, b"\xff" * 65537, b"a" * 100_000):
            answer = self.as_server(lambda: ask_once(self.socket, message))
            self.assertTrue(answer is None or answer[0] is True or "Error" in str(answer), answer)
        self.assertFalse(self.ask(HELLO)[0])

    def test_others_are_not_heard(self):
        for stranger in (12345, 1_000_000, 2_000_000, 65534):
            self.assertIn("PermissionError", str(as_user(stranger, lambda: ask_once(self.socket, message_of(HELLO)))))
        # The second wall: the kernel says who connects, whatever the mode of the socket.
        mode = stat.S_IMODE(os.stat(self.socket).st_mode)
        os.chmod(self.socket, 0o777)
        try:
            for stranger in (12345, 1_000_000, 2_000_000, 65534):
                for kind, body in ((HELLO, b""), (LAUNCH, launch()), (LIST, b""), (STOP, b"")):
                    self.assertIsNone(as_user(
                        stranger, lambda: ask_once(self.socket, message_of(kind, body))))
            self.assertFalse(self.ask(HELLO)[0])
        finally:
            os.chmod(self.socket, mode)

    def test_many_silent_connections_do_not_deafen_it(self):
        """A place is free again as soon as a silent connection goes."""
        def crowd():
            silent = [Launcher(self.socket) for _ in range(64)]
            answers = [link.ask(message_of(HELLO)) for link in silent]
            for link in silent:
                link.link.close()
            return sum(answer is not None and answer[0] is False for answer in answers)
        served = self.as_server(crowd)
        self.assertIsInstance(served, int)
        self.assertLessEqual(served, 16)
        wait_until("it answers again", lambda: (self.ask(HELLO) or [True])[0] is False)
        box = self.server.sandbox(self.server.admin)
        self.assertEqual(self.server.call("DELETE", f"/api/v1/sandboxes/{box}", token=self.server.admin).status, 204)


if __name__ == "__main__":
    live_server.main()
