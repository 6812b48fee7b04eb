"""The programs that bench/compare measures. Each peer is prepared in a folder of its own and removed afterwards; one
that does not work on this machine says why, and is left out of the table and not guessed.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

RUN_SECONDS_MAX = 60
ERROR_CHARACTERS_MAX = 160


def own_name(suffix):
    """A name for a container or a group that nobody else on this machine has."""
    return f"caisson-compare-{os.getpid()}-{suffix}"


class PeerError(Exception):
    """A peer that does not work here; the text says why."""


def last_line(text):
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[-1][:ERROR_CHARACTERS_MAX] if lines else "no message"


def call(command, env=None, cwd=None, is_detached=False):
    """Runs a command outside of any measurement; its last line of output is the reason when it fails."""
    # A detached container keeps the descriptors it was given: with a pipe, we would wait for its end.
    output = subprocess.DEVNULL if is_detached else subprocess.PIPE
    try:
        done = subprocess.run(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.DEVNULL if is_detached else subprocess.STDOUT,
                              timeout=RUN_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(str(error)[:ERROR_CHARACTERS_MAX]) from error
    text = (done.stdout or b"").decode(errors="replace")
    if done.returncode != 0:
        raise PeerError(f"{Path(command[0]).name} ended with {done.returncode}: {last_line(text)}")
    return text


def timed(command, env):
    """Milliseconds from the start of a command to its end. posix_spawn adds the least of its own."""
    null_in = (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)
    null_out = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_WRONLY, 0) for number in (1, 2)]
    start = time.perf_counter_ns()
    pid = os.posix_spawn(command[0], command, env, file_actions=[null_in, *null_out])
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(RUN_SECONDS_MAX * 1000):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        elapsed = time.perf_counter_ns() - start
    finally:
        os.close(pidfd)
    if status != 0:
        raise PeerError(f"{Path(command[0]).name} ended with {os.waitstatus_to_exitcode(status)} while it was measured")
    return elapsed / 1e6


class Peer:
    """A program that can run `true` in a new sandbox and, some of them, in one that lives."""

    name = ""
    note = ""
    every = 1  # measured in every n-th round: the heavy ones would otherwise take all the time
    program = ""

    def __init__(self, work, payloads):
        self.work = work / self.name.replace(" ", "-")
        self.payloads = payloads
        self.env = dict(os.environ)
        self.cwd = None
        self.path = ""

    def prepare(self):
        """Makes what the peer needs; the base class only finds the program."""
        self.path = shutil.which(self.program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") or ""
        if not self.path:
            raise PeerError(f"{self.program} is not installed")
        self.work.mkdir()

    def run_command(self):
        """Creates a sandbox, runs `true` in it, and removes it."""
        raise NotImplementedError

    def start_living(self):
        """Starts a sandbox that stays, and returns the command that runs `true` in it; None where there is none."""
        return None

    def clean(self):
        """Ends what prepare() and start_living() made."""


class Spawn(Peer):
    name, note = "spawn", "no sandbox"

    def prepare(self):
        self.path = str(self.payloads / "true")

    def run_command(self):
        return [self.path]


class Caisson(Peer):
    name = "caisson run"

    def __init__(self, work, payloads, path):
        super().__init__(work, payloads)
        self.path = str(path)

    def prepare(self):
        if not Path(self.path).is_file():
            raise PeerError(f"{self.path} is missing: ./dev build")
        self.work.mkdir()
        # The current folder appears in the sandbox at its own path, and with it the payload.
        shutil.copy(self.payloads / "true", self.work / "true")
        self.cwd = self.work

    def run_command(self):
        return [self.path, "run", "--", "./true"]


class Bubblewrap(Peer):
    name, note, program = "bwrap", "no seccomp, cgroup or Landlock", "bwrap"

    def run_command(self):
        return [self.path, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
                "--tmpfs", "/tmp", "--ro-bind", str(self.payloads / "true"), "/tmp/true", "/tmp/true"]


class Nsjail(Peer):
    name, note, program = "nsjail", "no seccomp or Landlock", "nsjail"

    def run_command(self):
        return [self.path, "--really_quiet", "--mode", "o", "--chroot", "/", "--tmpfsmount", "/tmp", "--bindmount_ro",
                f"{self.payloads / 'true'}:/tmp/true", "--", "/tmp/true"]


class Oci(Peer):
    """runc, crun and runsc: the same bundle, made here, and the same verbs."""

    flags = ()
    def prepare(self):
        super().prepare()
        self.base = [self.path, "--root", str(self.work / "state"), *self.flags]
        self.make_bundle("once", "/true")
        self.make_bundle("living", "/pause")

    def make_bundle(self, name, program):
        bundle = self.work / name
        (bundle / "rootfs/proc").mkdir(parents=True)
        (bundle / "rootfs/dev").mkdir()
        for payload in ("true", "pause"):
            shutil.copy(self.payloads / payload, bundle / "rootfs" / payload)
        kinds = ("pid", "network", "ipc", "uts", "mount")
        config = {
            "ociVersion": "1.0.2",
            "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": [program], "cwd": "/",
                        "env": ["PATH=/"], "noNewPrivileges": True},
            "root": {"path": "rootfs", "readonly": True},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": kind} for kind in kinds]},
        }
        (bundle / "config.json").write_text(json.dumps(config))

    def run_command(self):
        return [*self.base, "run", "--bundle", str(self.work / "once"), own_name("once")]

    def start_living(self):
        command = [*self.base, "run", *self.detach, "--bundle", str(self.work / "living"), own_name("living")]
        call(command, is_detached=True)
        return [*self.base, "exec", own_name("living"), "/true"]

    def clean(self):
        for name in (own_name("living"), own_name("once")):
            subprocess.run([*self.base, "delete", self.force, name], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=RUN_SECONDS_MAX, check=False)


class Runc(Oci):
    name, note, program, every = "runc", "no seccomp", "runc", 2
    detach, force = ("--detach",), "--force"


class Crun(Oci):
    name, note, program, every = "crun", "no seccomp", "crun", 2
    detach, force = ("--detach",), "--force"


class Runsc(Oci):
    name, note, program, every = "runsc", "gVisor, ptrace", "runsc", 5
    flags = ("--platform=ptrace", "--network=none", "--ignore-cgroups")
    detach, force = ("-detach",), "-force"


class Podman(Peer):
    name, program, every = "podman", "podman", 5
    image = "localhost/caisson-compare"

    def prepare(self):
        super().prepare()
        self.base = [self.path, "--root", str(self.work / "root"), "--runroot", str(self.work / "runroot"),
                     "--tmpdir", str(self.work / "tmp"), "--cgroup-manager", "cgroupfs", "--runtime", "runc",
                     "--events-backend", "none"]
        # Podman raises the limits of its containers to the host's maximum, which a host may refuse.
        config = self.work / "containers.conf"
        config.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n')
        self.env["CONTAINERS_CONF"] = str(config)
        archive = self.work / "image.tar"
        with tarfile.open(archive, "w") as tar:
            for payload in ("true", "pause"):
                tar.add(self.payloads / payload, arcname=payload)
        call([*self.base, "import", str(archive), self.image], env=self.env)

    def run_command(self):
        return [*self.base, "run", "--rm", *self.common(), self.image, "/true"]

    def common(self):
        # A parent group of our own, which remove_groups() can remove; podman would leave its usual one behind.
        return ["--network", "none", "--cgroup-parent", "/" + own_name("podman")]

    def start_living(self):
        call([*self.base, "run", "--detach", *self.common(), "--name", "living", self.image, "/pause"],
             env=self.env, is_detached=True)
        return [*self.base, "exec", "living", "/true"]

    def clean(self):
        subprocess.run([*self.base, "rm", "--all", "--force", "--time", "0"], env=self.env, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=RUN_SECONDS_MAX, check=False)


class Docker(Peer):
    """Only where a daemon runs already: a comparison does not start one."""

    name, program, every = "docker", "docker", 5
    living = ""

    def prepare(self):
        super().prepare()
        call([self.path, "info"])
        self.image = own_name("docker")
        archive = self.work / "image.tar"
        with tarfile.open(archive, "w") as tar:
            for payload in ("true", "pause"):
                tar.add(self.payloads / payload, arcname=payload)
        call([self.path, "import", str(archive), self.image])

    def run_command(self):
        return [self.path, "run", "--rm", "--network", "none", self.image, "/true"]

    def start_living(self):
        self.living = f"{self.image}-living"
        call([self.path, "run", "--detach", "--network", "none", "--name", self.living, self.image, "/pause"])
        return [self.path, "exec", self.living, "/true"]

    def clean(self):
        for command in (["rm", "--force", self.living], ["rmi", "--force", getattr(self, "image", "")]):
            if command[-1]:
                subprocess.run([self.path, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               timeout=RUN_SECONDS_MAX, check=False)


def remove_groups():
    """Removes the empty control groups that bear this process's name, in every hierarchy, the innermost first."""
    root = Path("/sys/fs/cgroup")
    for group in (*root.glob(own_name("*")), *root.glob("*/" + own_name("*"))):
        if not group.is_dir() or group.parent.is_symlink():
            continue
        inner = [path for path in group.rglob("*") if path.is_dir()]
        for path in [*sorted(inner, key=lambda path: len(path.parts), reverse=True), group]:
            try:
                path.rmdir()
            except OSError as error:
                print(f"compare: {path} is left behind: {error}", file=sys.stderr)


def detach_mounts(work):
    """Unmounts whatever a peer left mounted below our own folder, the innermost first."""
    points = []
    for line in Path("/proc/self/mountinfo").read_text().split("\n"):
        fields = line.split()
        if len(fields) > 4 and fields[4].startswith(f"{work}/"):
            points.append(fields[4])
    for point in sorted(points, key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False, stderr=subprocess.DEVNULL)
