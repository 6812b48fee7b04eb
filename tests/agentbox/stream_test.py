"""ExecStream: what comes, in which order, how soon, and what ends it."""

import grpc

from agentbox_case import AgentboxCase, Api, main
from harness import wait_for

CHUNK_BYTES_MAX = 4096
TAIL_BYTES_MAX = 3  # of a character whose end had not come


class Table(AgentboxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session_id = cls.api.CreateSession().session.session_id

    def all(self, command, session=None, **more):
        """(type, data, exit code or None) of each message; the stream has to end well."""
        call = self.stream(self.session_id if session is None else session, command, **more)
        seen = [(one.type, one.data, one.exit_code if one.HasField("exit_code") else None) for one in call]
        self.assertEqual(call.code(), grpc.StatusCode.OK)
        return seen

    def test_types(self):
        self.assertEqual(self.all("echo out"), [("stdout", "out\n", None), ("exit", "", 0)])
        self.assertEqual(self.all("echo err >&2; exit 3"), [("stderr", "err\n", None), ("exit", "", 3)])
        self.assertEqual(self.all("true"), [("exit", "", 0)])
        self.assertEqual(self.all(" \n"), [("exit", "", 0)])

    def test_a_signal(self):
        self.assertEqual(self.all("kill -9 $$"), [("exit", "", -9)])

    def test_empty_command(self):
        self.assertEqual(self.all(""), [])

    def test_errors(self):
        for session in ("nope", "", "x" * 5000):
            self.assertEqual(self.all("true", session=session), [("error", "Session not found", None)])
        self.assertEqual(self.all("true", workdir="/nope"),
                         [("error", "[Errno 2] No such file or directory: '/nope'", None)])
        self.assertEqual(self.all("true", workdir="/etc/passwd"),
                         [("error", "[Errno 20] Not a directory: '/etc/passwd'", None)])
        self.assertEqual(self.all("a\0b"), [("error", "embedded null byte", None)])
        self.assertEqual(self.all("x" * 131072), [("error", "[Errno 7] Argument list too long: '/bin/sh'", None)])

    def test_where_it_stands(self):
        self.assertEqual(self.whole(self.session_id, "pwd; id -u; cat"), ("/workspace\n0\n", "", 0))
        self.assertEqual(self.whole(self.session_id, "pwd", workdir="/tmp"), ("/tmp\n", "", 0))
        self.says(self.session_id, "mkdir -p sub")
        self.assertEqual(self.whole(self.session_id, "pwd", workdir="sub"), ("/workspace/sub\n", "", 0))

    def test_order_within_each_pipe(self):
        command = "i=0; while [ $i -lt 5000 ]; do echo $i; echo $i >&2; i=$((i+1)); done"
        wanted = "".join(f"{i}\n" for i in range(5000))
        self.assertEqual(self.whole(self.session_id, command), (wanted, wanted, 0))

    def test_the_size_of_a_chunk(self):
        total = 0
        for one in self.stream(self.session_id, "head -c 1000000 /dev/zero | tr '\\0' x"):
            self.assertLessEqual(len(one.data), CHUNK_BYTES_MAX)
            total += len(one.data)
        self.assertEqual(total, 1000000)

    def test_a_character_is_not_cut(self):
        """Of every length, at every place of a chunk's end."""
        for letter in ("é", "€", "😀"):
            for shift in range(4):
                text = "a" * shift + letter * 20000
                octal = "".join(f"\\{byte:03o}" for byte in letter.encode())
                command = f"printf '{'a' * shift}'; yes \"$(printf '{octal}')\" | head -n 20000 | tr -d '\\n'"
                for one in self.stream(self.session_id, command):
                    self.assertLessEqual(len(one.data.encode()), CHUNK_BYTES_MAX + TAIL_BYTES_MAX)
                out, err, code = self.whole(self.session_id, command)
                self.assertEqual((out == text, err, code), (True, "", 0), (letter, shift))

    def test_a_character_that_comes_in_two_writes(self):
        # Two of them: a pipe that is opened again before its last writer has left it reads an end at once.
        self.says(self.session_id, "rm -f one two; mkfifo one two")
        call = self.stream(self.session_id, r"printf 'a\342\202'; read x < one; printf '\254b'; read x < two; printf '\342'")
        first = next(call)
        self.assertEqual((first.type, first.data), ("stdout", "a"))
        self.says(self.session_id, "echo > one")
        second = next(call)
        self.assertEqual((second.type, second.data), ("stdout", "€b"))
        self.says(self.session_id, "echo > two")
        self.assertEqual([(one.type, one.data) for one in call], [("stdout", "\ufffd"), ("exit", "")])

    def test_much(self):
        count = 50_000_000
        seen = 0
        for one in self.stream(self.session_id, f"head -c {count} /dev/zero"):
            self.assertIn(one.type, ("stdout", "exit"))
            seen += len(one.data)
        self.assertEqual(seen, count)


class Soon(AgentboxCase):
    def setUp(self):
        self.session_id = self.session()

    def test_what_is_printed_comes_while_the_command_runs(self):
        """It can only end after we have answered what it said."""
        # One for each: who opens one that its last writer has not closed yet reads an end at once.
        self.says(self.session_id, "mkfifo fifo1 fifo2 fifo3")
        call = self.stream(self.session_id, "for i in 1 2 3; do echo ask $i; read x < fifo$i; done; echo over")
        for i in (1, 2, 3):
            one = next(call)
            self.assertEqual((one.type, one.data), ("stdout", f"ask {i}\n"))
            self.says(self.session_id, f"echo > fifo{i}")
        self.assertEqual([(one.type, one.data) for one in call], [("stdout", "over\n"), ("exit", "")])

    def test_exit_comes_after_both_pipes_are_closed(self):
        self.says(self.session_id, "mkfifo fifo")
        call = self.stream(self.session_id, "(read x < fifo; echo late >&2) & echo early")
        self.assertEqual(next(call).data, "early\n")
        self.says(self.session_id, "echo > fifo")
        self.assertEqual([(one.type, one.data) for one in call], [("stderr", "late\n"), ("exit", "")])

    def test_a_child_with_redirected_output_goes_on(self):
        out = self.whole(self.session_id, "sleep 1618.1 </dev/null >/dev/null 2>&1 & echo x")
        self.assertEqual(out, ("x\n", "", 0))
        self.assertTrue(self.running(self.session_id, "sleep 1618.1"))

    def test_many_at_once_on_one_channel(self):
        self.says(self.session_id, " && ".join(f"mkfifo gate{i}" for i in range(30)))
        calls = [self.stream(self.session_id, f"echo {i}; read x < gate{i}; echo end {i}") for i in range(30)]
        for i, call in enumerate(calls):
            self.assertEqual(next(call).data, f"{i}\n")
        self.says(self.session_id, "; ".join(f"echo > gate{i}" for i in range(30)))
        for i, call in enumerate(calls):
            self.assertEqual([one.data for one in call], [f"end {i}\n", ""])


class Ends(AgentboxCase):
    def setUp(self):
        self.session_id = self.session()

    def begin(self, api=None, **more):
        call = (api or self.api).ExecStream(
            session_id=self.session_id, command="echo up; (sleep 1618.3 &); setsid sleep 1618.4 & sleep 1618.5", **more)
        self.assertEqual(next(call).data, "up\n")
        self.wait_until_running(self.session_id, "sleep 1618.5")
        return call

    def test_cancel_ends_the_process(self):
        call = self.begin()
        call.cancel()
        self.wait_until_ended(self.session_id, "sleep 1618")
        self.assertEqual(self.says(self.session_id, "echo alive"), "alive\n")

    def test_the_clients_deadline_ends_it(self):
        call = self.begin(deadline=3)
        with self.assertRaises(grpc.RpcError) as caught:
            list(call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.wait_until_ended(self.session_id, "sleep 1618")

    def test_a_channel_that_closes_ends_it(self):
        api = Api(self.server.grpc, options=(("grpc.use_local_subchannel_pool", 1),))
        call = self.begin(api)
        api.close()
        self.wait_until_ended(self.session_id, "sleep 1618")
        del call

    def test_cancel_in_the_middle_of_a_flood(self):
        for _ in range(5):
            call = self.stream(self.session_id, "exec yes 161803398")
            for _ in range(3):
                self.assertEqual(next(call).type, "stdout")
            call.cancel()
        self.wait_until_ended(self.session_id, "yes 161803398")
        self.assertEqual(self.says(self.session_id, "echo alive"), "alive\n")

    def test_an_end_of_the_session_ends_it(self):
        call = self.begin()
        self.assertTrue(self.api.DestroySession(session_id=self.session_id).success)
        rest = list(call)
        self.assertEqual(len(rest), 1, rest)
        self.assertIn(rest[0].type, ("exit", "error"))

    def test_no_limit_of_an_exec_holds_here(self):
        """The shortest time that Exec could have is over when its own call is; the stream goes on."""
        call = self.begin()
        self.assertTrue(self.execute(self.session_id, "sleep 600", timeout=1).timed_out)
        self.assertTrue(self.running(self.session_id, "sleep 1618.5"))
        call.cancel()

    def test_others_are_served_while_nobody_reads(self):
        """A client that takes nothing holds its own command and nobody else."""
        silent = [self.stream(self.session_id, "head -c 300000000 /dev/zero; touch done") for _ in range(4)]
        other = self.session()
        for _ in range(20):
            self.assertEqual(self.says(other, "echo there"), "there\n")
        for call in silent:
            call.cancel()
        wait_for(lambda: not self.running(self.session_id, "head -c 300000000"), "the end of what nobody read")


if __name__ == "__main__":
    main()
