"""Who dies when, and what goes on: the server, the launcher's worker, its keeper, the sandboxes."""

import ctypes
import fcntl
import http.client
import os
import re
import signal
import socket
import stat
import subprocess
import threading
import unittest

from harness import BIN, PATIENCE, Server, bytes_of, groups_named, main, path_of, wait_for


class Life(unittest.TestCase):
    def serve(self, *flags, **more):
        server = Server(*(flags or ("--open",)), **more)
        self.addCleanup(server.close)
        return server.start()

    def ids(self, server):
        return [one["id"] for one in server.get("/api/v1/sandboxes").json["sandboxes"]]

    def in_background(self, call):
        """A call that waits, and the list its answer will be in."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(call()))
        thread.start()
        self.addCleanup(thread.join, PATIENCE)
        return thread, answers

    def wait_for_exec(self, server, box, mark):
        """Until a command inside has said that it runs."""
        wait_for(lambda: server.get(path_of(box, f"stat//tmp/{mark}")).status == 200, f"{mark} inside")

    def ended(self, server, box):
        wait_for(lambda: server.get(path_of(box)).status == 404, "the end of the sandbox")

    def end_reason(self, server, box):
        """Nobody waits for this row: it comes a moment after the sandbox has gone."""
        path = f"/api/v1/audit?sandbox={box}&action=sandbox.end"
        return wait_for(lambda: server.get(path).json["rows"], f"the row about the end of {box}")[0]["object"]


class ServerDies(Life):
    def test_the_next_server_takes_everything_over(self):
        server = self.serve(config="sandbox: {timeout_seconds: 500}\n")
        boxes = [server.create(name=f"box{i}", labels={"n": str(i)}) for i in range(3)]
        before = [server.get(path_of(box)).json for box in boxes]
        wish = {"command": "i=0; echo first; while read line; do echo got $line; done; echo closed"}
        process = server.post(path_of(boxes[0], "processes"), wish).json["id"]
        output = path_of(boxes[0], "processes", process, "output")
        with server.events("GET", output) as events:
            self.assertEqual(bytes_of([next(events)]), b"first\n")
        server.post(path_of(boxes[2], "pause"))
        server.kill()
        self.assertTrue(server.processes(), "the sandboxes live without a server")
        server.start()
        self.assertEqual(sorted(self.ids(server)), sorted(boxes))
        after = [server.get(path_of(box)).json for box in boxes]
        for old, new in zip(before[:2], after[:2]):
            self.assertEqual(new, old)  # expires_at too, to the microsecond
        listed = server.get(path_of(boxes[0], "processes")).json["processes"]
        self.assertEqual([one["command"] for one in listed], [wish["command"]])
        self.assertEqual(after[2]["state"], "paused")
        self.assertEqual(server.post(path_of(boxes[2], "resume")).json["state"], "running")
        # The process goes on: it is fed by the new server, and what the old one had seen can be read again.
        answer = server.post(path_of(boxes[0], "processes", process, "input", close="true"), b"one\ntwo\n",
                             headers={"Content-Type": "application/octet-stream"})
        self.assertEqual(answer.status, 204, answer.body)
        with server.events("GET", output) as events:
            seen, end = events.until("exit")
        self.assertEqual(bytes_of(seen), b"first\ngot one\ngot two\nclosed\n")
        self.assertEqual(end.data["exit_code"], 0)
        for box in boxes:
            self.assertEqual(server.post(path_of(box, "exec"), {"command": "echo alive"}).json["stdout"], "alive\n")
        self.assertTrue(server.get("/api/v1/audit/verify").json["intact"])
        self.assertEqual(server.stop(), 0)
        server.wait_until_clean()

    def test_a_deadline_goes_on(self):
        server = self.serve()
        short = server.create(resource_limits={"timeout_seconds": 3})
        long = server.create()
        server.kill()
        server.start()
        self.ended(server, short)
        self.assertEqual(server.get(path_of(long)).status, 200)

    def test_a_second_server_is_refused(self):
        server = self.serve()
        box = server.create()
        command = [BIN / "caisson", "serve", "--open", "--state-dir", server.state, "--listen", "127.0.0.1:0"]
        again = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertNotEqual(again.returncode, 0)
        self.assertIn(str(server.state), again.stderr)
        self.assertNotIn("listening", again.stdout)
        self.assertEqual(server.post(path_of(box, "exec"), {"command": "true"}).json["exit_code"], 0)


class FailedStart(Life):
    """A start that comes to nothing leaves nothing, but never takes away what an earlier server left."""

    def fails(self, server, *flags, word="", **env):
        command = [BIN / "caisson", "serve", "--open", "--state-dir", server.state, "--listen", "127.0.0.1:0", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False,
                              env=os.environ | env)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("listening", done.stdout)
        self.assertIn(word, done.stderr)

    def broken(self):
        """A state directory whose record is no database."""
        server = Server("--open")
        self.addCleanup(server.close)
        own = server.state / "server"
        own.mkdir(parents=True)
        (own / "caisson.db").write_bytes(b"this is no database, but long enough to be looked at" * 100)
        (own / "caisson.db").chmod(0o666)
        return server

    def test_a_record_that_cannot_be_read(self):
        server = self.broken()
        self.fails(server, word="the record")
        wait_for(lambda: not server.launchers(), "the end of the launcher")
        server.wait_until_clean()

    def test_settings_that_only_root_can_read(self):
        server = Server("--open", config="sandbox: {max_concurrent: 3}\n")
        self.addCleanup(server.close)
        (server.folder / "caisson.yaml").chmod(0o600)
        self.fails(server, "--config", str(server.folder / "caisson.yaml"), word="caisson.yaml")
        wait_for(lambda: not server.launchers(), "the end of the launcher")

    def test_a_server_that_is_no_program(self):
        server = Server("--open")
        self.addCleanup(server.close)
        wrong = server.folder / "caissond"
        wrong.write_bytes(b"\x7fELF and then nothing of use")
        wrong.chmod(0o755)
        self.fails(server, word="caissond", CAISSON_SERVER_PROGRAM=str(wrong))
        wait_for(lambda: not server.launchers(), "the end of the launcher")
        self.fails(server, word="is not there", CAISSON_SERVER_PROGRAM=str(server.folder / "none"))
        self.assertEqual(server.launchers(), [])

    def test_sandboxes_of_an_earlier_server_outlive_it(self):
        server = self.serve()
        box = server.create()
        server.post(path_of(box, "exec"), {"command": "echo kept > kept"})
        server.kill()
        launchers = server.launchers()
        wrong = server.folder / "caissond"
        wrong.write_bytes(b"\x7fELF and then nothing of use")
        wrong.chmod(0o755)
        self.fails(server, word="caissond", CAISSON_SERVER_PROGRAM=str(wrong))
        record = server.state / "server" / "caisson.db"
        record.rename(record.with_suffix(".away"))
        record.mkdir()
        self.fails(server, word="the record")
        record.rmdir()
        record.with_suffix(".away").rename(record)
        self.assertEqual(sorted(server.launchers()), sorted(launchers))
        server.start()
        self.assertEqual(server.get(path_of(box, "files/kept")).body, b"kept\n")


class LauncherDies(Life):
    def test_the_worker(self):
        server = self.serve()
        boxes = [server.create() for _ in range(2)]
        wish = {"command": "touch /tmp/runs; sleep 1000"}
        thread, answers = self.in_background(lambda: server.post(path_of(boxes[0], "exec"), wish))
        self.wait_for_exec(server, boxes[0], "runs")
        server.look()
        os.kill(server.worker(), signal.SIGKILL)
        thread.join(PATIENCE)
        self.assertEqual(len(answers), 1, "the waiting call was not answered")
        self.assertIn(answers[0].status, (410, 503), answers[0].body)
        self.assertIn(answers[0].json["error"]["code"], ("Gone", "LauncherGone"))
        for box in boxes:
            self.ended(server, box)
        made = []
        wait_for(lambda: made.append(server.post("/api/v1/sandboxes", {})) or made[-1].status == 201, "a new sandbox")
        for answer in made[:-1]:
            self.assertEqual((answer.status, answer.json["error"]["code"]), (503, "LauncherGone"))
        box = made[-1].json["id"]
        self.assertEqual(server.post(path_of(box, "exec"), {"command": "echo new"}).json["stdout"], "new\n")
        server.stop()
        server.wait_until_clean()

    def test_only_the_connection(self):
        """What was written down as ended does not live on in a launcher that is still there."""
        server = self.serve()
        boxes = [server.create() for _ in range(2)]
        server.look()
        self.assertTrue(groups_named(boxes))
        pidfd_getfd = 438
        call = ctypes.CDLL(None, use_errno=True).syscall
        holder, cut = os.pidfd_open(server.process.pid), 0
        for number in os.listdir(f"/proc/{server.process.pid}/fd"):
            fd = call(pidfd_getfd, holder, int(number), 0)
            if fd < 0:
                continue
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.close(fd)
                continue
            with socket.socket(fileno=fd) as link:
                if link.family == socket.AF_UNIX and link.type == socket.SOCK_SEQPACKET:
                    link.shutdown(socket.SHUT_RDWR)
                    cut += 1
        os.close(holder)
        self.assertEqual(cut, 1, "want the one connection with the launcher")
        wait_for(lambda: not self.ids(server), "the end of both")
        wait_for(lambda: not groups_named(boxes), "an empty launcher")
        made = []
        wait_for(lambda: made.append(server.post("/api/v1/sandboxes", {})) or made[-1].status == 201, "a new sandbox")
        server.stop()
        server.wait_until_clean()

    def test_the_keeper_too(self):
        server = self.serve()
        box = server.create()
        server.look()
        keeper, worker = server.keeper(), server.worker()
        os.kill(keeper, signal.SIGKILL)
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: server.get("/readyz").status == 503, "the server to notice")
        for answer in (server.post("/api/v1/sandboxes", {}), server.get(path_of(box))):
            self.assertEqual((answer.status, answer.json["error"]["code"]), (503, "LauncherGone"))
        wait_for(lambda: self.ids(server) == [], "the end of its sandboxes")
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertEqual(server.stop(), 0)
        # What had no owner left is swept by the next one.
        server.start()
        box = server.create()
        self.assertEqual(server.post(path_of(box, "exec"), {"command": "true"}).json["exit_code"], 0)
        server.stop()
        server.wait_until_clean()


class Ending(Life):
    def test_the_next_one_may_start_at_once(self):
        """Its launcher ends a moment after a server that was stopped; whoever starts then waits for that."""
        server = self.serve()
        for _ in range(8):
            self.assertEqual(server.stop(), 0)
            server.start()
            server.create()

    def test_a_launcher_on_its_way_out_is_waited_for(self):
        # Its name is gone already, its lock is not: what its worker had started is still there.
        with Server("--open") as server:
            server.stop()
            wait_for(lambda: not server.processes(), "the end of the launcher")
            place = server.state / "launcher"
            with open(place / "lock", "r+", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                lock.truncate()
                lock.write(f"{os.getpid()}\n")
                lock.flush()
                (place / "log").unlink()
                starts = threading.Thread(target=server.start)
                starts.start()
                wait_for(lambda: (place / "log").exists() and "another launcher" in (place / "log").read_text(),
                         "a launcher that finds its place taken")
            starts.join(PATIENCE)
            self.assertEqual(server.get("/healthz").status, 200)

    def test_term_answers_who_waits_and_leaves_nothing(self):
        server = self.serve()
        boxes = [server.create() for _ in range(3)]
        wish = {"command": "touch /tmp/runs; sleep 1000 & sleep 1000"}
        thread, answers = self.in_background(lambda: server.post(path_of(boxes[0], "exec"), wish))
        server.post(path_of(boxes[1], "processes"), {"command": "sleep 1000"})
        server.post(path_of(boxes[2], "pause"))
        self.wait_for_exec(server, boxes[0], "runs")
        self.assertEqual(server.stop(), 0)
        thread.join(PATIENCE)
        self.assertEqual([answer.status for answer in answers], [410], answers)
        server.wait_until_clean()

    def test_drain_lets_a_command_finish(self):
        server = self.serve("--open", "--drain", "60")
        box = server.create()
        wish = {"command": "touch /tmp/runs; while [ ! -e /tmp/go ]; do sleep 0.01; done; echo done"}
        thread, answers = self.in_background(lambda: server.post(path_of(box, "exec"), wish))
        self.wait_for_exec(server, box, "runs")
        # An upload whose last byte comes after the signal: it was under way, so it is finished, too.
        upload = self.half_sent(server, "PUT", path_of(box, "files//tmp/go"), "Content-Length: 2\r\n\r\ng")
        wait_for(lambda: len(server.get(path_of(box, "list//tmp")).json["entries"]) > 1, "the upload inside")
        server.look()
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in server.log(), "the server's last words")
        self.assertIsNone(server.process.poll())
        upload.sendall(b"o")
        self.assertIn(b" 200 ", upload.recv(4096).split(b"\r\n")[0])
        thread.join(PATIENCE)
        self.assertEqual([(one.status, one.json["stdout"]) for one in answers], [(200, "done\n")])
        self.assertEqual(server.process.wait(PATIENCE), 0)
        server.process.stdout.close()
        server.wait_until_clean()

    def half_sent(self, server, method, path, rest):
        """A connection on which a request has begun."""
        link = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        self.addCleanup(link.close)
        link.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{rest}".encode())
        return link

    def test_nothing_new_begins_after_the_signal(self):
        server = self.serve("--open", "--drain", "600")
        box = server.create()
        wish = {"command": "touch /tmp/runs; sleep 1000"}
        thread, _ = self.in_background(lambda: server.post(path_of(box, "exec"), wish))
        self.wait_for_exec(server, box, "runs")
        kept, answer = server.open("GET", "/healthz")
        answer.read()
        late = self.half_sent(server, "POST", "/api/v1/sandboxes", "Content-Length: 2\r\n")
        wait_for(lambda: self.connections(server) >= 3, "the late request's connection")
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in server.log(), "the server's last words")
        late.sendall(b"Content-Type: application/json\r\n\r\n{}")
        head = late.recv(4096)
        self.assertTrue(head.startswith(b"HTTP/1.1 503 "), head)
        self.assertIn(b"\r\nRetry-After: ", head)
        with self.assertRaises(ConnectionRefusedError):
            server.get("/healthz")
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            kept.request("GET", "/healthz")
            kept.getresponse()
        self.assertIsNone(server.process.poll(), "the command still runs")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(PATIENCE), 0)
        server.process.stdout.close()
        thread.join(PATIENCE)

    def connections(self, server):
        found = re.search(r"^caisson_http_connections_open (\d+)", server.get("/metrics").body.decode(), re.MULTILINE)
        return int(found[1])

    def test_a_client_that_does_not_read_is_cut(self):
        """Its call waits for it, in the middle of an answer, when everything that the call uses goes away."""
        server = self.serve("--open", env={"GLIBC_TUNABLES": "glibc.malloc.perturb=165"})
        box = server.create()
        body = b'{"command": "yes"}'
        rest = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        for path in (path_of(box, "exec", stream="sse"), path_of(box, "exec", stream="sse")):
            link = socket.socket()
            self.addCleanup(link.close)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.connect(("127.0.0.1", server.port))
            link.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n".encode() + rest)
            self.assertIn(b" 200 ", link.recv(16))
        self.assertEqual(server.stop(), 0, server.log())
        server.wait_until_clean()

    def test_asked_twice_it_waits_no_longer(self):
        server = self.serve("--open", "--drain", "600")
        box = server.create()
        wish = {"command": "touch /tmp/runs; sleep 1000"}
        thread, answers = self.in_background(lambda: server.post(path_of(box, "exec"), wish))
        self.wait_for_exec(server, box, "runs")
        server.look()
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in server.log(), "the server's last words")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(PATIENCE), 0)
        server.process.stdout.close()
        thread.join(PATIENCE)
        self.assertEqual([one.status for one in answers], [410])

    def test_idle_and_timeout(self):
        server = self.serve()
        by_time = server.create(resource_limits={"timeout_seconds": 1})
        idle = server.create(resource_limits={"idle_seconds": 1})
        stays = server.create()
        wait_for(lambda: set(self.ids(server)) == {stays}, "both ends")
        self.assertIn("expired", self.end_reason(server, by_time))
        self.assertIn("idle", self.end_reason(server, idle))

    def test_a_running_command_is_not_idle(self):
        server = self.serve()
        box = server.create(resource_limits={"idle_seconds": 1})
        answer = server.post(path_of(box, "exec"), {"command": "sleep 2.5; echo through"})
        self.assertEqual((answer.status, answer.json.get("stdout")), (200, "through\n"), answer.body)
        self.ended(server, box)


class Settings(Life):
    def test_max_concurrent(self):
        server = self.serve(config="sandbox: {max_concurrent: 3}\n")
        boxes = [server.create() for _ in range(3)]
        answer = server.post("/api/v1/sandboxes", {})
        self.assertEqual((answer.status, answer.json["error"]["code"]), (429, "Exhausted"), answer.body)
        self.assertNotIn("3", answer.json["error"]["message"], "how many others have is not told")
        self.assertEqual(server.get("/readyz").status, 200, "full is not unready")
        self.assertEqual(server.delete(path_of(boxes[0])).status, 204)
        server.create()

    def test_reload(self):
        server = self.serve(config="profiles: {one: {tools: [file_read]}}\n")
        self.assertEqual(server.get(path_of(server.create(profile="one"))).json["tools"], ["file_read"])
        changed = "profiles: {one: {tools: [file_list]}, two: {}}\nsandbox: {resource_limits: {memory_mb: 99}}\n"
        server.configure(changed)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "settings read again" in server.log(), "the reload")
        self.assertEqual(server.get(path_of(server.create(profile="one"))).json["tools"], ["file_list"])
        limits = server.get(path_of(server.create(profile="two"))).json["resource_limits"]
        self.assertEqual(limits["memory_mb"], 99)
        server.configure("profiles: {one: {colour: red}}\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "settings stay as they are" in server.log(), "the refusal")
        self.assertEqual(server.get(path_of(server.create(profile="two"))).status, 200)

    def test_the_server_has_no_privileges(self):
        server = self.serve()
        status = open(f"/proc/{server.process.pid}/status", encoding="utf-8").read()
        fields = dict(line.split(":\t", 1) for line in status.split("\n") if ":\t" in line)
        self.assertNotIn("0", fields["Uid"].split())
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(int(fields[name], 16), 0, name)
        self.assertEqual(fields["NoNewPrivs"], "1")


if __name__ == "__main__":
    main()
