"""The client for threads against a real server: commands, processes, terminals, files, snapshots, policies, audit."""

import io
import os
import tarfile
import threading
import time

from client_case import ClientCase

import caisson
from caisson import Client, Limits, Network, NetworkRule, SandboxConfig
from harness import main, wait_for

UNKNOWN = "a" * 26
EVERY_BYTE = bytes(range(256))
WEB = "import http.server as h; h.HTTPServer(('127.0.0.1', 9000), h.SimpleHTTPRequestHandler).serve_forever()"


class Cagebox(ClientCase):
    def test_its_example(self):
        url, token = self.server.url, self.server.token
        with Client(url, token) as c:
            with c.sandbox(SandboxConfig(tools=["shell_exec", "file_read"], files={"main.py": "print(6 * 7)\n"})) as sb:
                r = sb.execute("shell_exec", command="python3 main.py || echo 42")
                self.assertEqual(r.stdout, "42\n")
                self.assertEqual(sb.execute("file_read", path="main.py").content, "print(6 * 7)\n")
                with self.assertRaises(caisson.DeniedError):
                    sb.execute("file_write", path="x", content="y")
            with self.assertRaises(caisson.NotFoundError):
                c.get(sb.id)

    def test_its_errors(self):
        sandbox = self.sandbox(name="taken", tools=["file_read"])
        with self.assertRaises(caisson.DeniedError) as denied:
            sandbox.execute("shell_exec", command="id")
        error = denied.exception
        self.assertEqual((error.code, error.field, error.status), ("Denied", "tool", 403))
        self.assertNotEqual(error.request_id, "")
        with self.assertRaises(caisson.NotFoundError):
            self.client.get(UNKNOWN)
        with self.assertRaises(caisson.AlreadyExistsError):
            self.client.create(name="taken")
        with self.assertRaises(caisson.InvalidArgumentError) as wrong:
            self.client.create(resource_limits=Limits(cpu=-1))
        self.assertEqual(wrong.exception.field, "resource_limits.cpu")
        with self.assertRaises(caisson.InvalidArgumentError):
            self.client.create(tier="nothing-of-the-kind")
        with self.assertRaises(caisson.UnauthenticatedError), Client(self.server.url, "cais_wrong") as stranger:
            stranger.sandboxes()
        with self.assertRaises(caisson.ServerUnavailableError), Client("http://127.0.0.1:1", retries=0) as nobody:
            nobody.health()


class Commands(ClientCase):
    def test_collected(self):
        sandbox = self.sandbox()
        done = sandbox.exec("echo out; echo err >&2; exit 3")
        self.assertEqual((done.stdout, done.stderr, done.exit_code, done.ok), ("out\n", "err\n", 3, False))
        done = sandbox.exec(["cat"], stdin=EVERY_BYTE, encoding="base64")
        self.assertEqual(done.stdout_bytes, EVERY_BYTE)
        done = sandbox.exec("pwd; echo $A", workdir="/tmp", env={"A": "b"})
        self.assertEqual(done.stdout, "/tmp\nb\n")
        self.assertTrue(sandbox.exec("sleep 1000", timeout_seconds=0.2).timed_out)

    def test_a_command_with_a_sandbox_of_its_own(self):
        done = self.client.run(["cat", "a.txt", "-"], caisson.SandboxConfig(files={"a.txt": "file "}), stdin=b"input")
        self.assertEqual((done.stdout, done.exit_code), ("file input", 0))
        with self.assertRaises(caisson.NotFoundError):
            self.client.get(done.sandbox)

    def test_code(self):
        sandbox = self.sandbox(interpreters=caisson.Interpreters(python=caisson.Interpreter(imports=["math"])))
        told = sandbox.run_code("print('out')\n1 + 1")
        self.assertEqual((told.ok, told.value, told.stdout), (True, "2", "out\n"))
        self.assertEqual(sandbox.run_code("1 / 0").error.name, "ZeroDivisionError")
        picture = "class P:\n    def _repr_png_(self): return b'png'\nP()"
        self.assertEqual(sandbox.run_code(picture).pngs, [b"png"])
        with sandbox.contexts.create(imports=["math"]) as context:
            context.run("x = 40")
            self.assertEqual(context.run("x + math.floor(2.5)").value, "42")
            self.assertEqual([one.id for one in sandbox.contexts.list()], [context.id])
            context.interrupt()
            with context.run_stream("print(x)\nx") as stream:
                self.assertEqual([one.data for one in stream], [b"40\n"])
            self.assertEqual(stream.result.value, "40")
        with self.assertRaises(caisson.GoneError):
            context.run("x")
        with sandbox.run_code_stream("print('one')") as stream:
            self.assertEqual(stream.wait().exit_code, 0)

    def test_streamed(self):
        sandbox = self.sandbox()
        with sandbox.exec_stream("cat; echo err >&2; exit 5", stdin="given") as stream:
            seen = list(stream)
        self.assertEqual(b"".join(one.data for one in seen if one.stream == "stdout"), b"given")
        self.assertEqual("".join(one.text for one in seen if one.stream == "stderr"), "err\n")
        self.assertEqual(stream.exit.exit_code, 5)
        self.assertIsNotNone(stream.pid)
        self.assertEqual(sandbox.exec_stream("exit 4").wait().exit_code, 4)

    def test_who_leaves_early_kills_it(self):
        sandbox = self.sandbox()
        with sandbox.exec_stream("echo up; exec sleep 4321") as stream:
            self.assertEqual(next(stream).data, b"up\n")
        deadline = time.monotonic() + 30
        while "sleep" in sandbox.exec("cat /proc/[0-9]*/comm").stdout.split():
            self.assertLess(time.monotonic(), deadline)
        with self.assertRaises(caisson.DeniedError), sandbox.exec_stream("rm -rf /") as stream:
            list(stream)

    def test_interactive(self):
        sandbox = self.sandbox()
        with sandbox.exec_interactive("cat; echo err >&2; exit 7") as command:
            command.write(EVERY_BYTE * 4000)
            command.close_input()
            seen = list(command)
        self.assertEqual(b"".join(one.data for one in seen if one.stream == "stdout"), EVERY_BYTE * 4000)
        self.assertEqual(b"".join(one.data for one in seen if one.stream == "stderr"), b"err\n")
        self.assertEqual(command.exit.exit_code, 7)
        with sandbox.exec_interactive("trap 'exit 9' USR1; echo up; while :; do sleep 0.01; done") as command:
            self.assertEqual(next(command).text, "up\n")
            command.signal("USR1")
            self.assertEqual(command.wait().exit_code, 9)
        with self.assertRaises(caisson.InvalidArgumentError), sandbox.exec_interactive("") as command:
            list(command)

    def test_terminal(self):
        sandbox = self.sandbox()
        with sandbox.terminal(rows=10, cols=20, command="stty size; exec sh -i") as terminal:
            terminal.read_until(b"10 20")
            terminal.resize(30, 100)
            terminal.write("stty size; echo le''ft\n")
            self.assertIn(b"30 100", terminal.read_until(b"left"))
        with sandbox.terminal(process=terminal.process) as again:
            again.write("echo ba''ck; exit 6\n")
            again.read_until(b"back")
            self.assertEqual(again.wait().exit_code, 6)

    def test_processes(self):
        sandbox = self.sandbox()
        process = sandbox.processes.start("echo one; read x; echo got $x; exit 4")
        self.assertTrue(process.wait(0).running)
        process.write("it\n")
        with process.output() as output:
            self.assertEqual(b"".join(one.data for one in output), b"one\ngot it\n")
        self.assertEqual((output.exit.exit_code, process.wait().exit_code), (4, 4))
        with process.output(stdout_offset=4) as output:
            self.assertEqual(b"".join(one.data for one in output), b"got it\n")
        sleeper = sandbox.processes.start(["sleep", "1000"], timeout_seconds=900)
        self.assertEqual([one.id for one in sandbox.processes.list()], [process.id, sleeper.id])
        sleeper.signal("TERM", tree=True)
        self.assertEqual(sleeper.wait().signal, 15)
        process.remove()
        with self.assertRaises(caisson.NotFoundError):
            sandbox.processes.get(process.id)
        reader = sandbox.processes.start("cat")
        reader.close_input()
        self.assertEqual(reader.wait().exit_code, 0)

    def test_ports(self):
        sandbox = self.sandbox(files={"hello.txt": "from inside"})
        if sandbox.exec("command -v python3").exit_code != 0:
            self.skipTest("the host has no python3 in /usr")
        sandbox.processes.start(["python3", "-c", WEB])
        deadline = time.monotonic() + 30
        while 9000 not in sandbox.ports().listening:
            self.assertLess(time.monotonic(), deadline)
        answer = sandbox.http(9000, path="hello.txt")
        self.assertEqual((answer.status, answer.body), (200, b"from inside"))
        self.assertEqual(sandbox.http(9000, "HEAD", "hello.txt").body, b"")
        self.assertEqual(sandbox.http(9000, path="missing").status, 404)
        self.assertEqual(sandbox.http(9000, "POST", "x", body=b"y").status, 501)
        with self.assertRaises(caisson.ProtocolError):
            sandbox.http(9009)
        with self.assertRaises(caisson.BadAnswerError), sandbox.websocket(9000, "hello.txt"):
            pass


class Files(ClientCase):
    def test_up_and_down(self):
        files = self.sandbox().files
        content = EVERY_BYTE * 1000
        written = files.write("in/deep/data.bin", content, mode="0640")
        self.assertEqual(written.size, len(content))
        self.assertEqual(files.read("in/deep/data.bin"), content)
        self.assertEqual(files.read("/workspace/in/deep/data.bin", offset=10, length=5), content[10:15])
        head = files.head("in/deep/data.bin")
        self.assertEqual((head.size, head.etag), (len(content), written.etag))
        with files.download("in/deep/data.bin") as download:
            self.assertEqual((b"".join(download), download.size), (content, len(content)))
        self.assertEqual(files.stat("in/deep/data.bin").mode, "0640")
        pieces = (b"piece %d\n" % at for at in range(1000))
        self.assertEqual(files.write("pieces", pieces).size, len(b"".join(b"piece %d\n" % at for at in range(1000))))
        with self.assertRaises(caisson.PreconditionFailedError):
            files.write("pieces", "x", if_none_match="*")
        with self.assertRaises(caisson.RangeNotSatisfiableError):
            files.read("pieces", offset=10**9)
        with self.assertRaises(caisson.NotFoundError):
            files.head("missing")
        with self.assertRaises(caisson.DeniedError):
            files.read("../etc/passwd")

    def test_folders(self):
        files = self.sandbox().files
        files.mkdir("a/b")
        files.write("a/b/ü c.txt", "text")
        self.assertEqual([(one.path, one.type) for one in files.list("a", recursive=True)],
                         [("/workspace/a/b", "folder"), ("/workspace/a/b/ü c.txt", "file")])
        files.move("a/b/ü c.txt", "moved.txt")
        self.assertEqual(files.read_text("moved.txt"), "text")
        self.assertEqual(files.remove("a", recursive=True).removed, 2)
        self.assertEqual([one.name for one in files.list()], ["moved.txt"])

    def test_archives(self):
        files = self.sandbox(files={"src/one.txt": "1", "src/two.txt": "2"}).files
        archive = files.archive("src")
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            self.assertEqual(sorted(one.name.split("/")[-1] for one in tar if one.isfile()), ["one.txt", "two.txt"])
        with files.download_archive("src") as download:
            unpacked = files.unpack(list(download), "copy")
        self.assertGreaterEqual(unpacked.entries, 2)
        self.assertEqual(files.read_text("copy/two.txt"), "2")

    def test_watch(self):
        files = self.sandbox().files
        with files.watch(recursive=True) as changes:
            files.write("new.txt", "x")
            seen = next(one for one in changes if one.path.endswith("new.txt"))
            self.assertTrue(set(seen.changes) & {"created", "moved_to", "changed"})


class Life(ClientCase):
    def test_snapshots_forks_and_merges(self):
        sandbox = self.sandbox(files={"a.txt": "one\n"})
        kept = sandbox.snapshot("first")
        self.addCleanup(self.client.snapshots.remove, kept.id)
        self.assertEqual(self.client.snapshots.get("first").id, kept.id)
        self.assertIn(kept.id, [one.id for one in self.client.snapshots.list()])
        self.assertEqual([one.id for one in sandbox.snapshots()], [kept.id])
        with sandbox.fork("try") as fork:
            fork.files.write("b.txt", "two\n")
            self.assertEqual(fork.info.parent, sandbox.id)
            self.assertEqual([one.path for one in fork.diff("snapshot:first").changes], ["/workspace/b.txt"])
            self.assertIn(b"+two", self.client.patch("snapshot:first", f"sandbox:{fork.id}"))
            merged = sandbox.merge(f"sandbox:{fork.id}")
            self.assertEqual([one.path for one in merged.applied], ["/workspace/b.txt"])
            fork.files.write("a.txt", "theirs\n")
            sandbox.files.write("a.txt", "ours\n")
            with self.assertRaises(caisson.ConflictError) as conflict:
                sandbox.merge(f"sandbox:{fork.id}")
            self.assertEqual(conflict.exception.conflicts, ["/workspace/a.txt"])
        undone = sandbox.undo(snapshot="first")
        self.assertEqual((undone.snapshot, sandbox.files.read_text("a.txt")), (kept.id, "one\n"))
        with self.assertRaises(caisson.InvalidArgumentError):
            sandbox.promote("native", end_processes=True)  # it is there already
        self.assertEqual(self.client.diff("snapshot:first", f"sandbox:{sandbox.id}").changes, [])

    def test_policies_and_usage(self):
        sandbox = self.sandbox(resource_limits=Limits(memory_mb=64))
        self.assertEqual(sandbox.set_limits(Limits(memory_mb=96)).resource_limits.memory_mb, 96)
        rule = NetworkRule(domain="example.com", ports=[443])
        self.assertEqual(sandbox.set_network(Network(rules=[rule])).network.rules[0].domain, "example.com")
        self.assertEqual(sandbox.set_network(Network()).network.mode, "none")
        self.assertEqual(sandbox.set_labels({"team": "red"}).labels, {"team": "red"})
        self.assertTrue(sandbox.set_public(True).public)
        self.assertEqual(sandbox.pause().state, "paused")
        self.assertEqual(sandbox.resume().state, "running")
        self.assertEqual(sandbox.refresh().state, "running")
        self.assertEqual(sandbox.record_usage(tokens=7, cost_usd=0.5).tokens, 7)
        sandbox.exec("true")
        self.assertGreaterEqual(sandbox.usage().execs, 1)
        self.assertEqual(self.client.usage([sandbox.id])[sandbox.id].tokens, 7)
        with self.assertRaises(caisson.BusyError):
            sandbox.stop()

    def test_events_and_the_audit(self):
        with self.client.events() as events:
            sandbox = self.sandbox()
            seen = next(one for one in events if one.sandbox == sandbox.id)
            self.assertEqual(seen.type, "sandbox.created")
        sandbox.exec("echo logged")
        self.assertEqual([row.action for row in sandbox.logs().rows], ["sandbox.create", "exec"])
        page = self.client.audit(sandbox=sandbox.id, limit=1)
        self.assertEqual(len(page.rows), 1)
        rows = list(self.client.audit_rows(sandbox=sandbox.id, outcome="allowed"))
        self.assertEqual(rows[-1].object, "echo logged")
        self.assertTrue(self.client.verify_audit().intact)

    def test_the_server_itself(self):
        self.assertEqual(self.client.health().status, "ok")
        self.assertTrue(self.client.ready())
        self.assertIn("native", self.client.server().tiers)
        self.assertIn("shell_exec", [tool.name for tool in self.client.tools()])
        self.assertIn("caisson_", self.client.metrics())
        self.assertEqual(self.client.openapi()["info"]["title"], "caisson")
        self.assertIn("<html", self.client.docs())
        self.assertEqual(self.client.images.list(), [])
        self.assertIsInstance(self.client.volumes.storage().limits, bool)
        with self.assertRaises(caisson.NotFoundError):
            self.client.images.get("nothing:here")
        self.assertEqual(self.client.images.collect_garbage().layers, 0)

    def test_who_may_call(self):
        token = self.client.tokens.create(["read"], tenant="guests", label="for a look")
        with Client(self.server.url, token.token) as guest:
            self.assertEqual(guest.server().caller.tenant, "guests")
            with self.assertRaises(caisson.DeniedError):
                guest.create()
        self.assertIn(token.id, [one.id for one in self.client.tokens.list()])
        self.assertEqual(self.client.users.put("guests", name="Guests").name, "Guests")
        self.assertIn("guests", [one.tenant for one in self.client.users.list()])
        self.client.tokens.revoke(token.id)
        self.client.users.remove("guests")
        self.client.secrets.put("key", "hush")
        self.assertEqual(self.client.secrets.list(), ["key"])
        self.client.secrets.remove("key")


class Connections(ClientCase):
    """What lies between: a relay that loses answers, so that only the server knows what was done; TLS; threads."""

    def test_nothing_is_done_twice(self):
        relay = self.relay()
        with Client(relay.url, self.server.token) as client:
            for lost in (1, 2):
                with self.subTest(lost=lost):
                    before = len(client.sandboxes())
                    relay.to_lose = lost
                    sandbox = client.create()
                    self.addCleanup(self.client.get(sandbox.id).destroy)
                    self.assertEqual(len(client.sandboxes()), before + 1)
            relay.to_lose = 1
            self.assertEqual(sandbox.execute("shell_exec", command="echo x >> log; cat log").stdout, "x\n")
            relay.to_lose = 1
            with sandbox.fork() as fork:
                self.assertEqual(fork.files.read("log"), b"x\n")
                relay.to_lose = 1
            with self.assertRaises(caisson.NotFoundError):
                client.get(fork.id)
            self.assertEqual(relay.lost, 6)

    def test_a_command_that_lost_its_caller_does_not_run_again(self):
        relay = self.relay()
        sandbox = self.sandbox()

        def cut_it_off():
            wait_for(lambda: sandbox.exec("cat log").stdout, "the command to begin")
            relay.cut()

        cutter = threading.Thread(target=cut_it_off)
        with Client(relay.url, self.server.token, retries=20) as client:
            far = client.get(sandbox.id)
            cutter.start()
            with self.assertRaises(caisson.GoneError):
                far.exec("echo once >> log; exec sleep 1000")
        cutter.join()
        self.assertEqual(sandbox.files.read("log"), b"once\n")

    def test_a_forked_process_has_connections_of_its_own(self):
        relay = self.relay()
        with Client(relay.url, self.server.token) as client:
            client.health()
            child = os.fork()
            if child == 0:
                try:
                    client.health()
                    client.close()
                    os._exit(0)
                finally:
                    os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(relay.connections, 2)
            client.health()
            self.assertEqual(relay.connections, 2)

    def test_what_cannot_be_repeated_is_not(self):
        relay = self.relay()
        sandbox = self.sandbox()
        with Client(relay.url, self.server.token) as client:
            process = client.get(sandbox.id).processes.start("read x; echo $x; read y; echo $y")
            relay.to_lose = 1
            with self.assertRaises(caisson.ConnectionLostError):
                process.write("once\n")
            process.write("twice\n")
            with process.output() as output:
                self.assertEqual(b"".join(one.data for one in output), b"once\ntwice\n")
            relay.to_lose = 3
            with self.assertRaises(caisson.ConnectionLostError):
                client.health()

    def test_output_goes_on_where_it_was(self):
        relay = self.relay()
        sandbox = self.sandbox()
        process = sandbox.processes.start("echo one; read x; echo two; read x; echo three")
        with Client(relay.url, self.server.token) as client:
            with client.get(sandbox.id).processes.list()[0].output() as output:
                seen = [next(output).data]
                relay.cut()
                process.write("go\n")
                seen.append(next(output).data)
                relay.cut()
                process.write("go\n")
                seen += [one.data for one in output]
        self.assertEqual(b"".join(seen), b"one\ntwo\nthree\n")
        self.assertEqual(output.exit.exit_code, 0)

    def test_patience_ends(self):
        sandbox = self.sandbox()
        process = sandbox.processes.start("sleep 1000")
        with Client(self.server.url, self.server.token, timeout=0.3) as hasty:
            terminal = hasty.get(sandbox.id).terminal(command="exec sleep 1000")
            with terminal, self.assertRaises(TimeoutError):
                terminal.read(timeout=0.2)
            self.assertTrue(hasty.get(sandbox.id).processes.list()[0].wait(0).running)
        with Client(self.server.url, self.server.token, connections_max=1, timeout=0.3) as narrow:
            with narrow.events(), self.assertRaises(caisson.CallTimedOutError):
                narrow.health()
            narrow.health()
        process.remove()

    def test_over_tls(self):
        relay, trust = self.tls_relay()
        with Client(relay.url, self.server.token, tls=trust) as client, client.sandbox() as sandbox:
            content = EVERY_BYTE * 20000
            sandbox.files.write("large.bin", content)
            self.assertEqual(sandbox.files.read("large.bin"), content)
            self.echo_in_two_threads(sandbox)
        with self.assertRaises(caisson.ConnectionFailedError), Client(relay.url, retries=0) as stranger:
            stranger.health()

    def echo_in_two_threads(self, sandbox):
        lines = 200
        with sandbox.terminal(command="stty -echo; echo up; exec cat") as terminal:
            terminal.read_until(b"up")
            writer = threading.Thread(target=lambda: [terminal.write(f"line {at}\n") for at in range(lines)])
            writer.start()
            seen = terminal.read_until(f"line {lines - 1}\r\n".encode())
            writer.join()
        self.assertEqual(seen.count(b"line"), lines)

    def test_a_terminal_for_two_threads(self):
        self.echo_in_two_threads(self.sandbox())

    def test_many_threads_share_a_client(self):
        relay = self.relay()
        failures = []

        def work(at):
            try:
                with client.sandbox() as sandbox:
                    for number in range(10):
                        if sandbox.exec(f"echo {at} {number}").stdout != f"{at} {number}\n":
                            failures.append((at, number))
            except Exception as error:  # noqa: BLE001 - a thread's failure must reach the test
                failures.append(error)

        with Client(relay.url, self.server.token) as client:
            threads = [threading.Thread(target=work, args=(at,)) for at in range(8)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
        self.assertEqual(failures, [])
        self.assertLessEqual(relay.connections, 8)


if __name__ == "__main__":
    main()
