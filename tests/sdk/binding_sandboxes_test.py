"""Python without a server: sandboxes, from one thread and from many, interrupted, forked and left behind."""

import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import PATIENCE, main, wait_for  # noqa: E402

from caisson import (  # noqa: E402
    CapabilityDeclaration,
    FilesystemConfig,
    FilesystemMode,
    NetworkEgressRule,
    ResourceLimits,
    SandboxError,
    SandboxManager,
    SandboxStatus,
    SandboxTier,
)

IDLE = ["/usr/bin/tail", "-f", "/dev/null"]
SPAWN = CapabilityDeclaration(permissions=["spawn_subprocess"])


def writing_to(folder):
    return CapabilityDeclaration(permissions=["spawn_subprocess"], filesystem_config=FilesystemConfig(
        mode=FilesystemMode.read_write, writable_paths=[str(folder)]))


def endless(out):
    return ["sh", "-c", f"echo > {out}/now; exec tail -f /dev/null"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
        os.environ["CAISSON_STATE_DIR"] = str(cls.folder / "state")
        cls.job = Path(tempfile.mkdtemp(dir="/srv"))
        cls.addClassCleanup(os.rmdir, cls.job)
        cls.manager = cls.enterClassContext(SandboxManager(current_folder=cls.job))

    def box(self, capability=SPAWN):
        sandbox = self.manager.create_sandbox(capability)
        self.addCleanup(self.manager.destroy, sandbox)
        return sandbox

    def began(self):
        """A folder in which a command says that it has begun."""
        out = Path(tempfile.mkdtemp(dir=self.job))
        self.addCleanup(shutil.rmtree, out)
        return out

    def refused(self, code, call, *arguments, **more):
        with self.assertRaises(SandboxError) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return str(caught.exception)


class Commands(Case):
    def test_create_execute_destroy(self):
        declared = CapabilityDeclaration(resource_limits=ResourceLimits(max_cpu_seconds=5.0))
        sandbox = self.manager.create_sandbox(declared)
        result = self.manager.execute(sandbox, ["python", "-c", "print('hello from inside')"])
        self.assertEqual((result.exit_code, result.stdout, result.stderr), (0, "hello from inside\n", ""))
        self.assertGreater(result.duration_ms, 0)
        self.assertEqual(sorted(result.resource_usage),
                         ["cost_usd", "cpu_seconds", "elapsed_seconds", "peak_memory_mb", "tokens_used"])
        self.assertGreater(result.resource_usage["peak_memory_mb"], 0)
        self.manager.destroy(sandbox)
        self.refused("NotFound", self.manager.execute, sandbox, ["/bin/true"])
        self.refused("NotFound", self.manager.destroy, sandbox)
        self.refused("NotFound", self.manager.status, sandbox)

    def test_a_declaration_with_everything_holds(self):
        out = self.job / "out"
        out.mkdir()
        self.addCleanup(os.rmdir, out)
        os.environ["CAISSON_TEST_WORD"], os.environ["CAISSON_TEST_TOKEN"] = "passes", "never passes"
        sandbox = self.box(CapabilityDeclaration(
            sandbox_tier=SandboxTier.seccomp, resource_limits=ResourceLimits(max_memory_mb=256, max_tokens=1000),
            filesystem_config=FilesystemConfig(mode=FilesystemMode.read_write, writable_paths=["out", "/tmp"]),
            network_egress_rules=[NetworkEgressRule(domain="api.example.com", ports=[443], rate_limit_per_min=30)],
            permissions=["read_env", "spawn_subprocess"],
            env_allowlist=["CAISSON_TEST_WORD", "CAISSON_TEST_TOKEN", "PATH"]))
        result = self.manager.execute(sandbox, ["sh", "-c", (
            "pwd; echo $CAISSON_TEST_WORD $CAISSON_TEST_TOKEN; echo 42 > out/answer; echo x > lost || true; "
            "curl -s http://elsewhere.example/ | head -1")])
        self.assertEqual(result.stdout, f"{self.job}\npasses\nHost not allowed: elsewhere.example\n", result.stderr)
        self.assertIn("Read-only file system", result.stderr)
        self.assertEqual((out / "answer").read_text(), "42\n")
        (out / "answer").unlink()

    def test_options_of_a_command(self):
        sandbox = self.box()
        result = self.manager.execute(sandbox, ["/bin/sh", "-c", "pwd; printenv A HOME; cat"],
                                      env={"A": "2", "HOME": "/else"}, input="from the caller", workdir="/usr")
        self.assertEqual(result.stdout, "/usr\n2\n/else\nfrom the caller")
        result = self.manager.execute(sandbox, ["/usr/bin/head", "-c", "100000", "/dev/zero"], output_bytes_max=4096)
        self.assertEqual(len(result.stdout) + result.stdout_lost, 100000)
        self.assertGreater(result.stdout_lost, 0)
        result = self.manager.execute(sandbox, ["/usr/bin/printf", r"\377"])
        self.assertEqual(result.stdout, "\ufffd")

    def test_mistakes_are_typed(self):
        sandbox = self.box()
        for code, command in (("InvalidArgument", []), ("InvalidArgument", "ls -l"), ("InvalidArgument", ["ls; id"]),
                              ("NotFound", ["/no/such"]), ("Denied", ["/etc/passwd"])):
            self.refused(code, self.manager.execute, sandbox, command)
        self.refused("InvalidArgument", self.manager.execute, sandbox, ["/bin/true"], timeout=0)
        self.refused("NotFound", self.manager.execute, "no-such-sandbox", ["python", "-V"])
        elsewhere = CapabilityDeclaration(sandbox_tier=SandboxTier.firecracker)
        self.refused("Unsupported", self.manager.create_sandbox, elsewhere)
        changed = CapabilityDeclaration()
        changed.resource_limits.max_memory_mb = -1
        self.assertIn("max_memory_mb", self.refused("InvalidArgument", self.manager.create_sandbox, changed))

    def test_a_limit_that_ends_a_command_is_a_result_with_a_reason(self):
        result = self.manager.execute(self.box(), IDLE, timeout=0.2)
        self.assertEqual((result.exit_code, result.timed_out), (-1, True))
        self.assertEqual(result.breach, "Time limit exceeded: limit is 0.2 s")
        self.assertEqual(result.stderr, "[sandbox] killed: Time limit exceeded: limit is 0.2 s\n")
        small = self.box(CapabilityDeclaration(resource_limits=ResourceLimits(max_memory_mb=40)))
        result = self.manager.execute(small, ["/usr/bin/python3", "-Ic", "held = bytearray(b'x') * (200 << 20)"])
        self.assertEqual((result.exit_code, result.oom_killed), (-1, True))
        self.assertEqual(result.breach, "Memory limit exceeded: limit is 40.0 MiB")
        brief = self.box(CapabilityDeclaration(resource_limits=ResourceLimits(max_cpu_seconds=0.2)))
        result = self.manager.execute(brief, ["/bin/sh", "-c", "while :; do :; done"])
        self.assertEqual((result.exit_code, result.breach), (-1, "CPU limit exceeded: 0.2 s used, limit is 0.2 s"))
        self.assertEqual(self.manager.status(brief), SandboxStatus.failed)

    def test_status_list_and_account(self):
        sandbox = self.box(CapabilityDeclaration(resource_limits=ResourceLimits(max_tokens=1000)))
        self.assertEqual(self.manager.status(sandbox), SandboxStatus.created)
        self.manager.monitor(sandbox).record_tokens(1150)
        self.assertEqual(self.manager.monitor(sandbox).check_limits(),
                         (False, "Token limit exceeded: 1150 tokens used, limit is 1000"))
        self.assertEqual(self.manager.execute(sandbox, ["/bin/true"]).resource_usage["tokens_used"], 1150)
        self.assertEqual(self.manager.status(sandbox), SandboxStatus.stopped)
        self.assertIn({"sandbox_id": sandbox, "status": "stopped", "tier": "seccomp"}, self.manager.list_sandboxes())


class Threads(Case):
    def test_eight_threads_with_twenty_commands_each(self):
        shared, right = self.box(), []

        def work(number):
            for round_number in range(20):
                sandbox = shared if round_number % 2 else self.manager.create_sandbox(SPAWN)
                word = f"{number}.{round_number}"
                result = self.manager.execute(sandbox, ["/bin/echo", word])
                right.append(result.stdout == word + "\n")
                if sandbox != shared:
                    self.manager.destroy(sandbox)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(right, [True] * 160)

    def execute_until_destroyed(self):
        """Waits for a command that has no end. Another thread counts meanwhile, and then takes the sandbox away."""
        out = self.began()
        sandbox = self.manager.create_sandbox(writing_to(out))
        counted = 0

        def count():
            nonlocal counted
            wait_for((out / "now").exists, "the command")
            while counted < 100_000:
                counted += 1
            self.manager.destroy(sandbox)

        other = threading.Thread(target=count)
        other.start()
        self.refused("Gone", self.manager.execute, sandbox, endless(out), timeout=None)
        other.join()
        self.assertEqual(counted, 100_000)

    def test_others_run_while_the_main_thread_waits(self):
        self.execute_until_destroyed()

    def test_others_run_while_another_thread_waits(self):
        failures = []

        def run():
            try:
                self.execute_until_destroyed()
            except BaseException as error:  # noqa: BLE001: told below
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        self.assertEqual(failures, [])

    def test_ctrl_c_ends_the_command_and_nothing_else(self):
        out = self.began()
        sandbox = self.box(writing_to(out))

        def interrupt():
            wait_for((out / "now").exists, "the command")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            self.manager.execute(sandbox, endless(out), timeout=None)
        thread.join()
        result = self.manager.execute(sandbox, ["sh", "-c", "cat /proc/[0-9]*/comm"])
        self.assertNotIn("tail", result.stdout.split())
        self.assertEqual(self.manager.status(sandbox), SandboxStatus.stopped)


class Ends(Case):
    def ended(self, pidfd):
        self.addCleanup(os.close, pidfd)
        return bool(select.select([pidfd], [], [], PATIENCE)[0])

    def test_close_ends_everything_even_a_command_that_is_awaited(self):
        manager = SandboxManager(current_folder=None)
        launcher = os.pidfd_open(manager._manager.launcher_pid())
        sandbox = manager.create_sandbox(SPAWN)
        self.assertEqual(manager.execute(sandbox, ["/bin/pwd"]).stdout, "/workspace\n")

        def close():
            wait_for(lambda: manager.status(sandbox) == SandboxStatus.running, "the command")
            manager.close()

        thread = threading.Thread(target=close)
        thread.start()
        self.refused("Gone", manager.execute, sandbox, IDLE, timeout=None)
        thread.join()
        self.assertTrue(self.ended(launcher))
        self.assertIn("is closed", self.refused("Gone", manager.create_sandbox))
        self.assertEqual(manager.list_sandboxes(), [])
        manager.close()

    def test_a_manager_that_nobody_holds_is_closed(self):
        manager = SandboxManager(current_folder=None)
        launcher = os.pidfd_open(manager._manager.launcher_pid())
        manager.create_sandbox()
        del manager
        self.assertTrue(self.ended(launcher))

    def test_a_killed_launcher_is_an_error_and_not_a_hang(self):
        with SandboxManager(current_folder=None) as manager:
            sandbox = manager.create_sandbox()
            launcher = os.pidfd_open(manager._manager.launcher_pid())
            os.kill(manager._manager.launcher_pid(), signal.SIGKILL)
            self.assertTrue(self.ended(launcher))
            self.refused("Gone", manager.execute, sandbox, ["/bin/true"])
            self.refused("Gone", manager.create_sandbox)

    def test_a_forked_child_does_not_touch_its_parents_sandboxes(self):
        sandbox = self.box()
        child = os.fork()
        if child == 0:
            verdict = 1
            try:
                manager, type(self).manager = self.manager, None
                try:
                    manager.execute(sandbox, ["/bin/true"])
                except SandboxError as error:
                    verdict = 0 if "a forked process makes one of its own" in str(error) else 2
                manager.close()
                del manager
            finally:
                os._exit(verdict)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.manager.execute(sandbox, ["/bin/echo", "here"]).stdout, "here\n")

    def test_a_folder_that_is_never_shown_is_said(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with SandboxManager(current_folder="/etc") as manager:
                sandbox = manager.create_sandbox()
                self.assertEqual(manager.execute(sandbox, ["/bin/pwd"]).stdout, "/workspace\n")
        self.assertIn("the current folder is not shown inside: /etc lies in /etc", str(said[0].message))


if __name__ == "__main__":
    main()
