"""P47: runsc is configured, not merely started. Its processes have no right on the host, stand in the sandbox's groups
and namespaces, see nothing of the host, and when one of them is killed nothing is left."""

import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from live_server import SKIPPED, LiveServer, wait_until  # noqa: E402

SLOTS = 2_000_000  # the first id of the first slot


def words(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def status(pid):
    lines = words(pid, "status").decode().splitlines()
    return {line.split(":")[0]: line.split(":")[1].split() for line in lines}


def namespace(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def members(box):
    """Every process of the sandbox, by its group."""
    found = set()
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        if f"caisson-{box}" in folder and "cgroup.procs" in files:
            found |= set(pathlib.Path(folder, "cgroup.procs").read_text(encoding="ascii").split())
    return {int(pid) for pid in found}


def of_runsc(box):
    return [pid for pid in members(box) if words(pid, "cmdline").startswith(b"runsc")]


class Walls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LiveServer()
        cls.addClassCleanup(cls.server.close)
        cls.token = cls.server.new_token("red", "read", "use", "create")["token"]

    def make(self, **wishes):
        return self.server.sandbox(self.token, tier="gvisor", **wishes)

    def shell(self, box, command):
        return self.server.run(self.token, box, command)

    def test_no_process_of_it_has_a_right_on_the_host(self):
        box = self.make()
        self.shell(box, "true")
        runsc = of_runsc(box)
        self.assertGreaterEqual(len(runsc), 2, "the kernel and the one that opens files for it")
        for pid in members(box):
            seen = status(pid)
            self.assertTrue(all(int(one) >= SLOTS for one in seen["Uid"] + seen["Gid"]), (pid, seen["Uid"]))
            self.assertEqual(seen["Groups"], [], pid)
            self.assertEqual(seen["NoNewPrivs"], ["1"], pid)
            self.assertEqual(seen["Seccomp"], ["2"], (pid, words(pid, "cmdline")))
            for kind in ("user", "net", "mnt", "pid", "ipc", "uts"):
                self.assertNotEqual(namespace(pid, kind), namespace("self", kind), (pid, kind))

    def test_what_it_was_told(self):
        box = self.make()
        said = b" ".join(words(pid, "cmdline") for pid in of_runsc(box)).replace(b"\0", b" ").decode()
        self.assertIn("--network=none", said)
        for never in ("debug", "strace", "profile", "net-raw=true", "host-uds=all", "host-uds=open", "host-uds=create",
                      "network=host", "allow-flag-override"):
            self.assertNotIn(never, said)

    def test_it_sees_nothing_of_the_host(self):
        box = self.make()
        for pid in of_runsc(box):
            table = words(pid, "mountinfo").decode()
            for line in table.splitlines():
                place = line.split(" - ")[0].split()[4]
                self.assertFalse(place.startswith(("/home", "/etc", "/var", "/boot")), line)
            self.assertNotIn(str(self.server.folder), os.readlink(f"/proc/{pid}/cwd"))
            for name in os.listdir(f"/proc/{pid}/fd"):
                try:
                    target = os.readlink(f"/proc/{pid}/fd/{name}")
                except OSError:
                    continue
                self.assertNotRegex(target, r"\.(db|sock|key)$|/launcher|/server", (pid, name))

    def test_inside_there_is_another_kernel_and_no_way_out(self):
        box = self.make()
        own = os.uname()
        self.assertNotIn(own.release, self.shell(box, "uname -r; cat /proc/version")["stdout"])
        reach = ("import socket\n"
                 "for kind in (socket.SOCK_RAW, socket.SOCK_STREAM):\n"
                 "  try:\n"
                 "    one = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP if kind == socket.SOCK_RAW else 0)\n"
                 "    one.settimeout(2)\n"
                 "    one.connect(('127.0.0.1', %d) if kind == socket.SOCK_STREAM else ('10.0.0.1', 0))\n"
                 "    print('reached')\n"
                 "  except OSError as error:\n"
                 "    print('refused', error.errno)\n") % self.server.port
        said = self.shell(box, f"python3 -c \"{reach}\"")["stdout"]
        self.assertEqual(re.findall(r"\w+(?= )", said), ["refused", "refused"], said)
        done = self.shell(box, "grep -E 'Cap(Prm|Eff|Bnd)|Seccomp' /proc/self/status")["stdout"]
        self.assertEqual(re.findall(r"Cap\w+:\s+(\w+)", done), ["0" * 16] * 3)
        self.assertIn("2", done.split("Seccomp")[1])

    def test_even_root_inside_has_no_power_over_that_kernel(self):
        box = self.make(user=0, filesystem={"root": "writable"})
        for attempt in ("mount -t tmpfs none /mnt", "ip addr add 10.0.0.1/8 dev lo", "hostname other",
                        # A node of that kernel's own memory leads to no device.
                        "mknod /tmp/n b 8 0 && head -c 1 /tmp/n", "mknod /tmp/m c 1 1 && head -c 1 /tmp/m",
                        "mknod /workspace/n b 8 0", "kill -9 1", "chroot / true", "unshare -U true"):
            self.assertNotEqual(self.shell(box, attempt)["exit_code"], 0, attempt)
        self.assertEqual(self.shell(box, "echo alive")["stdout"], "alive\n")

    def test_a_killed_kernel_leaves_a_clean_state(self):
        for _ in range(3):
            box = self.make()
            self.shell(box, "sleep 1000 >/dev/null 2>&1 & echo up")
            every = members(box)
            victim = next(pid for pid in of_runsc(box) if b"boot" in words(pid, "cmdline"))
            os.kill(victim, signal.SIGKILL)
            wait_until("the sandbox is gone",
                       lambda: self.server.call("GET", f"/api/v1/sandboxes/{box}", token=self.token).status == 404)
            wait_until("every process is gone", lambda: not members(box) and not any(
                status(pid).get("State", ["Z"])[0] not in "ZX" and f"caisson-{box}" in words(pid, "cgroup").decode()
                for pid in every))

    def test_the_record_says_what_holds(self):
        box = self.make()
        shown = self.server.call("GET", f"/api/v1/sandboxes/{box}", token=self.token).json()
        self.assertEqual(shown["record"]["tier"], "gvisor")
        self.assertRegex(shown["record"]["kernel"], r"^gVisor \S+ \((ptrace|systrap)\) on Linux ")
        self.assertEqual(shown["record"]["landlock_abi"], 0)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("runsc"):
        print("SKIPPED: needs root and runsc")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
