"""Sessions: what they say of themselves, whose they are, how many there may be, and when they end."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from agentbox_case import DEFAULT_HOSTS, AgentboxCase, Api, main
from harness import all_processes, read_proc, wait_for

UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
INVALID, DENIED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED


class Create(AgentboxCase):
    def test_without_an_id_it_is_a_uuid(self):
        for wish in ({}, {"session_id": ""}):
            self.assertRegex(self.session(**wish), f"^{UUID4}$")
        self.assertNotEqual(self.session(), self.session())

    def test_a_given_id_is_used_as_it_is(self):
        for name in ("a", "A.b_c-9", "x" * 128, "-", "_", "...", "42", "custom-session-1", "custom-session-2"):
            self.assertEqual(self.session(session_id=name), name)
        self.assertEqual(self.says("custom-session-1", "echo one"), "one\n")
        self.assertEqual(self.says("custom-session-2", "echo two"), "two\n")

    def test_other_ids_are_refused(self):
        for name in ("x" * 129, "a/b", "../x", "a b", " a", "a\n", "ä", "a\0", "a:b", "a@b", "a%2f", "a\\b", "😀"):
            words = self.refused(INVALID, lambda name=name: self.api.CreateSession(session_id=name))
            self.assertIn("session_id", words, name)
        self.assertEqual(list(self.api.ListSessions().sessions), [])

    def test_tenants_have_the_same_alphabet_and_no_dots(self):
        for name in ("..", ".", "../x", "/abs", "a/b", "x" * 129, "a b", "ä", "a\n", "a\0b"):
            words = self.refused(INVALID, lambda name=name: self.api.CreateSession(tenant_id=name))
            self.assertIn("tenant_id", words, name)
        self.assertEqual(list(self.api.ListSessions().sessions), [])
        for name in ("a", "A.b_c-9", "x" * 128, "..."):
            self.assertEqual(self.info(tenant_id=name).tenant_id, name)

    def test_no_tenant_is_an_absent_field(self):
        for wish in ({}, {"tenant_id": ""}):
            self.assertFalse(self.info(**wish).HasField("tenant_id"))
        self.assertTrue(self.info(tenant_id="t").HasField("tenant_id"))

    def test_hosts(self):
        for wish in ({}, {"allowed_hosts": []}):
            self.assertEqual(list(self.info(**wish).allowed_hosts), DEFAULT_HOSTS)
        for hosts in (["example.com"], ["localhost"], ["b.example", "A.Example", "b.example", "*.z.example"],
                      ["*", "*example.com", "example.com:80", "example.com.", "10.0.0.1", "[::1]", "exa mple", "", "ä"]):
            made = self.info(allowed_hosts=hosts)
            self.assertEqual(list(made.allowed_hosts), hosts)
            self.assertEqual(list(self.listed(made.session_id).allowed_hosts), hosts)
            self.assertEqual(self.says(made.session_id, "echo ready"), "ready\n")

    def test_a_live_id_gives_the_session_that_lives(self):
        first = self.info(session_id="again", tenant_id="t", allowed_hosts=["a.example"])
        self.says("again", "echo kept > kept")
        second = self.api.CreateSession(session_id="again", tenant_id="t", allowed_hosts=["b.example"]).session
        self.assertGreater(second.last_activity, first.last_activity)
        second.last_activity = first.last_activity
        self.assertEqual(second, first)
        self.assertEqual(self.says("again", "cat kept"), "kept\n")
        self.assertEqual(len(self.api.ListSessions().sessions), 1)

    def test_a_live_id_is_not_another_tenants(self):
        self.info(session_id="mine", tenant_id="t")
        self.info(session_id="nobodys")
        for name in ("mine", "nobodys"):
            words = self.refused(DENIED, lambda name=name: self.api.CreateSession(session_id=name, tenant_id="u"))
            self.assertNotIn("'t'", words)
        self.assertEqual([one.tenant_id for one in self.api.ListSessions().sessions], ["t", ""])

    def test_an_id_is_free_again_and_its_files_are_gone(self):
        first = self.info(session_id="name")
        self.says("name", "echo old > old; echo old > /tmp/old; echo old > /mnt/user-data/outputs/old; echo x > /root/old")
        self.assertTrue(self.api.DestroySession(session_id="name").success)
        second = self.info(session_id="name")
        self.assertNotEqual(second.container_id, first.container_id)
        self.assertEqual(self.says("name", "ls -A . /tmp /mnt/user-data/outputs | grep old; ls /root/old 2>&- ; :"), "")

    def test_many_at_once(self):
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: self.info(), range(8)))
            self.assertEqual(len({one.session_id for one in made}), 8)
            said = list(pool.map(lambda one: self.says(one.session_id, "hostname"), made))
        self.assertEqual(said, [one.container_id + "\n" for one in made])

    def test_one_id_at_once_is_one_session(self):
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: self.info(session_id="race"), range(8)))
        self.assertEqual(len({one.container_id for one in made}), 1)
        self.assertEqual(len(self.api.ListSessions().sessions), 1)


class Info(AgentboxCase):
    def test_container_id_is_the_host_name(self):
        made = self.info()
        self.assertRegex(made.container_id, r"^[0-9a-f]{12}$")
        self.assertEqual(self.says(made.session_id, "hostname; echo $HOSTNAME; cat /proc/sys/kernel/hostname"),
                         f"{made.container_id}\n" * 3)
        self.assertEqual(self.api.GetSession(session_id=made.session_id).session.container_id, made.container_id)
        self.assertEqual(self.listed(made.session_id).container_id, made.container_id)

    def test_times_and_status(self):
        before = time.time()
        made = self.info()
        after = time.time()
        self.assertTrue(before <= made.created_at <= made.last_activity <= after, made)
        self.assertEqual(made.status, "running")

    def test_what_counts_as_activity(self):
        session = self.session(allowed_hosts=["localhost"])
        created = self.listed(session).created_at
        calls = {
            "CreateSession": lambda: self.api.CreateSession(session_id=session),
            "GetSession": lambda: self.api.GetSession(session_id=session),
            "Exec": lambda: self.execute(session, "true"),
            "ExecStream": lambda: list(self.stream(session, "true")),
            "WriteFile": lambda: self.api.WriteFile(session_id=session, path="a"),
            "ReadFile": lambda: self.api.ReadFile(session_id=session, path="a"),
            "PipInstall": lambda: self.api.PipInstall(session_id=session, packages=["x"]),
        }
        for name, call in calls.items():
            before = self.listed(session).last_activity
            self.assertEqual(self.listed(session).last_activity, before, "looking at the list touches nothing")
            call()
            now = self.listed(session)
            self.assertGreater(now.last_activity, before, name)
            self.assertEqual(now.created_at, created)

    def test_activity_is_set_at_the_start(self):
        session = self.session()
        self.says(session, "mkfifo fifo")
        before = self.listed(session).last_activity
        call = self.stream(session, "echo up; read x < fifo")
        self.assertEqual(next(call).data, "up\n")
        self.assertGreater(self.listed(session).last_activity, before)
        self.says(session, "echo > fifo")
        self.assertEqual([one.type for one in call], ["exit"])

    def test_get_session(self):
        made = self.info(tenant_id="t", allowed_hosts=["a.example"])
        seen = self.api.GetSession(session_id=made.session_id).session
        seen.last_activity = made.last_activity
        self.assertEqual(seen, made)
        self.assertTrue(self.api.DestroySession(session_id=made.session_id).success)
        for name in (made.session_id, "nope", "", "a/b", "x" * 5000, "\n"):
            self.assertEqual(self.status_of(lambda name=name: self.api.GetSession(session_id=name)),
                             (grpc.StatusCode.NOT_FOUND, "Session not found"))

    def test_the_list_is_in_order_of_creation(self):
        names = ["z", "a", "m", "b", "y"]
        for name in names:
            self.info(session_id=name, tenant_id=f"tenant-{name}")
        for name in ("z", "y", "a"):
            self.execute(name, "true")  # activity changes nothing
        self.assertEqual([one.session_id for one in self.api.ListSessions().sessions], names)
        self.api.DestroySession(session_id="m")
        self.info(session_id="m")
        self.assertEqual([one.session_id for one in self.api.ListSessions().sessions], ["z", "a", "b", "y", "m"])

    def test_what_is_made_elsewhere_is_no_session(self):
        box = self.create(name="victim")
        for name in (box, "victim", box[:12]):
            self.assertEqual(self.execute(name, "id").stderr, "Session not found")
            self.assertFalse(self.api.DestroySession(session_id=name).success)
        self.assertEqual(list(self.api.ListSessions().sessions), [])


class Ends(AgentboxCase):
    def test_destroy(self):
        session = self.session()
        self.assertTrue(self.api.DestroySession(session_id=session).success)
        for name in (session, "nope", "", "a/b", "x" * 5000):
            self.assertFalse(self.api.DestroySession(session_id=name).success)

    def test_a_destroyed_session_is_unknown_everywhere(self):
        session = self.session()
        self.api.DestroySession(session_id=session)
        self.assertIsNone(self.listed(session))
        pip = self.api.PipInstall(session_id=session, packages=["x"])
        self.assertEqual((pip.exit_code, pip.stdout, pip.stderr, pip.timed_out), (-1, "", "Session not found", False))
        self.assertEqual(self.execute(session, "true").stderr, "Session not found")
        self.assertEqual(self.api.WriteFile(session_id=session, path="a").error, "Session not found")
        read = self.api.ReadFile(session_id=session, path="a")
        self.assertEqual((read.success, read.HasField("content"), read.error), (False, False, "Session not found"))
        self.assertEqual([(one.type, one.data) for one in self.stream(session, "true")],
                         [("error", "Session not found")])

    def test_destroy_ends_what_runs(self):
        session = self.session()
        thread, answers = self.in_background(lambda: self.execute(session, "sleep 5772.1"))
        self.wait_until_running(session, "sleep 5772.1")
        mine = lambda: [pid for pid in all_processes() if b"5772.1" in read_proc(pid, "cmdline")]
        self.assertTrue(mine())
        self.assertTrue(self.api.DestroySession(session_id=session).success)
        wait_for(lambda: not mine(), "the end of its processes")
        thread.join()
        self.assertEqual(len(answers), 1)

    def test_a_sandbox_that_died(self):
        """Its init is killed from outside: the session says so, and every call answers at once."""
        session = self.session()
        self.says(session, "sleep 5772.2 </dev/null >/dev/null 2>&1 &")
        inner = wait_for(lambda: [pid for pid in all_processes() if b"sleep\x005772.2" in read_proc(pid, "cmdline")],
                         "a process inside")
        init = all_processes()[inner[0]][0]
        os.kill(init, signal.SIGKILL)
        wait_for(lambda: self.listed(session) is None or self.listed(session).status == "exited", "its end")
        self.assertIsNotNone(self.listed(session), "it stays until somebody ends it")
        self.assertEqual(self.api.GetSession(session_id=session).session.status, "exited")
        gone = "All connection attempts failed"
        done = self.execute(session, "true")
        self.assertEqual((done.exit_code, done.stdout, done.stderr, done.timed_out), (-1, "", gone, False))
        self.assertEqual(self.api.WriteFile(session_id=session, path="a").error, gone)
        self.assertEqual(self.api.ReadFile(session_id=session, path="a").error, gone)
        self.assertEqual([(one.type, one.data) for one in self.stream(session, "true")], [("error", gone)])
        self.assertTrue(self.api.DestroySession(session_id=session).success)


class Expiry(AgentboxCase):
    settings = {"session_timeout_seconds": 1, "sweep_seconds": 1}

    def test_an_idle_session_ends(self):
        session = self.api.CreateSession().session.session_id
        wait_for(lambda: self.listed(session) is None, "its end")
        self.assertEqual(self.execute(session, "true").stderr, "Session not found")

    def test_a_running_command_counts_as_activity(self):
        """A session that began later and was idle is swept; the one with a command is not, and ends when it is idle."""
        busy = self.api.CreateSession().session.session_id
        self.says(busy, "mkfifo fifo")
        call = self.stream(busy, "echo up; read x < fifo; echo over")
        self.assertEqual(next(call).data, "up\n")
        for _ in range(2):
            idle = self.api.CreateSession().session.session_id
            wait_for(lambda: self.listed(idle) is None, "the sweep")
            self.assertIsNotNone(self.listed(busy))
        self.says(busy, "echo > fifo")
        self.assertEqual([one.data for one in call], ["over\n", ""])
        wait_for(lambda: self.listed(busy) is None, "the end of the other")

    def test_an_exec_counts_too(self):
        busy = self.api.CreateSession().session.session_id
        self.says(busy, "mkfifo fifo")
        thread, answers = self.in_background(lambda: self.execute(busy, "read x < fifo; echo over"))
        self.wait_until_running(busy, "read x")
        idle = self.api.CreateSession().session.session_id
        wait_for(lambda: self.listed(idle) is None, "the sweep")
        self.says(busy, "echo > fifo")
        thread.join()
        self.assertEqual((answers[0].exit_code, answers[0].stdout), (0, "over\n"))


class Bounds(AgentboxCase):
    settings = {"max_sessions": 3}

    def test_the_limit(self):
        for i in range(3):
            self.info(session_id=f"s{i}")
        words = self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, self.api.CreateSession)
        self.assertIn("3", words)
        self.assertEqual(self.api.CreateSession(session_id="s1").session.session_id, "s1")
        self.api.DestroySession(session_id="s0")
        self.assertEqual(self.says(self.session(), "echo in"), "in\n")


class NoImage(AgentboxCase):
    settings = {"image": "127.0.0.1:1/none:1"}

    def test_it_is_told_and_nothing_stays(self):
        code, words = self.status_of(self.api.CreateSession)
        self.assertIn(code, (grpc.StatusCode.UNKNOWN, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION,
                             grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAVAILABLE))
        self.assertIn("none", words)
        self.assertEqual(list(self.api.ListSessions().sessions), [])


class Tokens(AgentboxCase):
    """With tokens, those of one tenant of the server never meet those of another."""

    flags = ()

    def test_without_a_token(self):
        with Api(self.server.grpc) as nobody:
            for call in (nobody.ListSessions, nobody.CreateSession, lambda: list(nobody.ExecStream(session_id="a")),
                         lambda: nobody.Exec(session_id="a", command="true")):
                self.refused(grpc.StatusCode.UNAUTHENTICATED, call)
            for wrong in ("Bearer wrong", "Bearer ", "Basic x", ""):
                self.refused(grpc.StatusCode.UNAUTHENTICATED,
                             lambda wrong=wrong: nobody.ListSessions(metadata=(("authorization", wrong),)))

    def test_both_words(self):
        with Api(self.server.grpc) as client:
            for name, value in (("authorization", f"Bearer {self.server.token}"), ("x-api-key", self.server.token)):
                client.ListSessions(metadata=((name, value),))

    def test_tenants_of_the_server(self):
        mine = self.session(session_id="mine")
        other = Api(self.server.grpc, metadata=(("authorization", f"Bearer {self.tenant('blue')}"),))
        self.addCleanup(other.close)
        self.assertEqual(list(other.ListSessions().sessions), [])
        self.assertEqual(other.Exec(session_id=mine, command="id").stderr, "Session not found")
        self.assertFalse(other.DestroySession(session_id=mine).success)
        self.assertEqual(self.status_of(lambda: other.GetSession(session_id=mine))[0], grpc.StatusCode.NOT_FOUND)
        theirs = self.info(other, session_id="mine")
        self.assertNotEqual(theirs.container_id, self.listed(mine).container_id)
        self.assertEqual(other.Exec(session_id="mine", command="hostname").stdout, theirs.container_id + "\n")

    def test_scopes(self):
        reader = Api(self.server.grpc, metadata=(("authorization", f"Bearer {self.tenant('red', 'read')}"),))
        self.addCleanup(reader.close)
        self.assertEqual(list(reader.ListSessions().sessions), [])
        self.refused(DENIED, reader.CreateSession)


if __name__ == "__main__":
    main()
