"""Clients that give up or vanish, many at once, and the end of the server."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import grpc

from agentbox_case import PATIENCE, AgentboxCase, AgentboxServer, Api, main
from harness import wait_for

COUNT = 20


class GiveUp(AgentboxCase):
    def setUp(self):
        self.session_id = self.session()

    def test_a_deadline_ends_the_process(self):
        tree = "(sleep 1414.1 &) ; setsid sleep 1414.2 & sleep 1414.3"
        self.assertEqual(self.status_of(lambda: self.execute(self.session_id, tree, deadline=2))[0],
                         grpc.StatusCode.DEADLINE_EXCEEDED)
        self.wait_until_ended(self.session_id, "sleep 1414")
        self.assertEqual(self.says(self.session_id, "echo alive"), "alive\n")

    def test_a_cancel_ends_the_process(self):
        call = self.api.channel.unary_unary("/sandbox.v1.SandboxService/Exec")
        message = b"\x0a" + bytes([len(self.session_id)]) + self.session_id.encode() + b"\x12\x0csleep 1414.4"
        future = call.future(message)
        self.wait_until_running(self.session_id, "sleep 1414.4")
        future.cancel()
        self.wait_until_ended(self.session_id, "sleep 1414.4")

    def test_a_pip_that_is_given_up_ends_too(self):
        self.says(self.session_id, "printf '#!/bin/sh\\nexec sleep 1414.5\\n' > /usr/local/bin/pip; chmod 755 /usr/local/bin/pip")
        self.assertEqual(self.status_of(lambda: self.api.PipInstall(session_id=self.session_id, packages=["x"], deadline=2))[0],
                         grpc.StatusCode.DEADLINE_EXCEEDED)
        self.wait_until_ended(self.session_id, "sleep 1414.5")

    def test_what_was_left_running_before_is_spared(self):
        self.says(self.session_id, "sleep 1414.6 </dev/null >/dev/null 2>&1 &")
        self.status_of(lambda: self.execute(self.session_id, "sleep 1414.7", deadline=2))
        self.wait_until_ended(self.session_id, "sleep 1414.7")
        self.assertTrue(self.running(self.session_id, "sleep 1414.6"))

    def test_a_creation_that_nobody_waits_for(self):
        """It is there under its name, or it is not; it is never half there."""
        for i in range(10):
            try:
                self.api.CreateSession(session_id=f"hasty{i}", deadline=0.001)
            except grpc.RpcError:
                pass
        for i in range(10):
            made = self.info(session_id=f"hasty{i}")
            self.assertEqual(self.says(made.session_id, "hostname"), made.container_id + "\n")
        self.assertEqual(len(self.api.ListSessions().sessions), 11)


class Many(AgentboxCase):
    def test_twenty_sessions_on_one_channel(self):
        with ThreadPoolExecutor(COUNT) as pool:
            made = list(pool.map(lambda i: self.info(session_id=f"p{i}"), range(COUNT)))
            for _ in range(5):
                said = list(pool.map(lambda one: self.says(one.session_id, "hostname"), made))
                self.assertEqual(said, [one.container_id + "\n" for one in made])
            self.assertEqual(len(self.api.ListSessions().sessions), COUNT)

    def test_all_run_at_the_same_time(self):
        """Each waits until a word came from the test, which speaks only once all have begun."""
        sessions = [self.session() for _ in range(COUNT)]
        for one in sessions:
            self.says(one, "mkfifo fifo")
        with ThreadPoolExecutor(COUNT) as pool:
            waiting = [pool.submit(self.says, one, "read x < fifo; echo $x") for one in sessions]
            for one in sessions:
                self.wait_until_running(one, "read x < fifo")
            self.assertEqual(len(self.api.ListSessions().sessions), COUNT)
            for i, one in enumerate(sessions):
                self.says(one, f"echo {i} > fifo")
            self.assertEqual([one.result() for one in waiting], [f"{i}\n" for i in range(COUNT)])

    def test_sessions_come_and_go_while_they_are_listed(self):
        stop = []

        def churn():
            for _ in range(15):
                session = self.api.CreateSession().session.session_id
                assert self.api.Exec(session_id=session, command="true").exit_code == 0
                assert self.api.DestroySession(session_id=session).success
            stop.append(1)

        with ThreadPoolExecutor(4) as pool:
            workers = [pool.submit(churn) for _ in range(3)]
            while len(stop) < 3 and not any(one.done() and one.exception() for one in workers):
                for one in self.api.ListSessions().sessions:
                    self.assertTrue(one.session_id and one.container_id)
            for one in workers:
                one.result()
        self.assertEqual(list(self.api.ListSessions().sessions), [])

    def test_connections_that_only_stand_there(self):
        links = [socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE) for _ in range(50)]
        session = self.session()
        self.assertEqual(self.says(session, "echo in"), "in\n")
        for link in links:
            link.close()


class End(AgentboxCase):
    def serve(self):
        server = AgentboxServer("--open")
        self.addCleanup(server.close)
        server.start()
        api = Api(server.grpc)
        self.addCleanup(api.close)
        return server, api

    def test_sigterm_leaves_nothing_behind(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server, api = self.serve()
            sessions = [api.CreateSession(tenant_id="t" if i else "").session.session_id for i in range(3)]
            for one in sessions:
                api.Exec(session_id=one, command="sleep 1000 </dev/null >/dev/null 2>&1 &")
            call = api.ExecStream(session_id=sessions[0], command="echo up; sleep 1000")
            self.assertEqual(next(call).data, "up\n")
            thread, answers = self.in_background(lambda: api.Exec(session_id=sessions[1], command="sleep 999"))
            server.look()
            os.kill(server.process.pid, number)
            self.assertEqual(server.process.wait(PATIENCE), 0)
            server.wait_until_clean()
            thread.join()
            self.assertEqual(len(answers), 1)
            with self.assertRaises((grpc.RpcError, AssertionError)):
                rest = list(call)
                self.assertNotEqual([one.type for one in rest][-1:], ["exit"])
                raise AssertionError("told by a last message")

    def test_after_a_crash_nothing_stays(self):
        server, api = self.serve()
        session = api.CreateSession().session.session_id
        api.Exec(session_id=session, command="sleep 1000 </dev/null >/dev/null 2>&1 &")
        server.kill()
        server.start()
        with Api(server.grpc) as api:
            for one in api.ListSessions().sessions:  # one that was adopted works as before
                self.assertEqual(one.session_id, session)
                self.assertEqual(api.Exec(session_id=session, command="hostname").stdout, one.container_id + "\n")
            self.assertEqual(api.Exec(session_id=api.CreateSession().session.session_id, command="echo hi").stdout, "hi\n")
        self.assertEqual(server.stop(), 0)
        wait_for(lambda: not server.left_behind(), "a clean host")


if __name__ == "__main__":
    main()
