"""Exec: the table of its answers, what a command finds, how it ends, and how much of it comes back."""

from agentbox_case import AgentboxCase, main
from harness import wait_for

TIMED_OUT = "Command timed out"
ARGUMENT_BYTES_MAX = 128 * 1024  # of one argument, with its NUL


def told(done):
    return done.exit_code, done.stdout, done.stderr, done.timed_out


class Table(AgentboxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session_id = cls.api.CreateSession().session.session_id

    def check(self, command, *expected, **more):
        self.assertEqual(told(self.execute(self.session_id, command, **more)), expected, command[:80])

    def test_normal(self):
        self.check("echo out; echo err >&2", 0, "out\n", "err\n", False)
        self.check("exit 255", 255, "", "", False)
        self.check("exit 7; echo never", 7, "", "", False)

    def test_the_shell_killed_by_a_signal(self):
        self.check("echo so far; kill -9 $$", -9, "so far\n", "", False)
        self.check("kill -15 $$", -15, "", "", False)

    def test_a_child_killed_by_a_signal(self):
        done = self.execute(self.session_id, "sh -c 'kill -9 $$'; exit $?")
        self.assertEqual((done.exit_code, done.timed_out), (137, False))

    def test_command_not_found(self):
        self.check("no-such-command-here", 127, "", "/bin/sh: 1: no-such-command-here: not found\n", False)

    def test_timeout(self):
        self.check("echo lost; echo lost >&2; sleep 600", -1, "", TIMED_OUT, True, timeout=1)

    def test_negative_timeout(self):
        for seconds in (-1, -4, -5, -2147483648):
            self.check("sleep 600", -1, "", TIMED_OUT, True, timeout=seconds)

    def test_empty_command(self):
        self.check("", -1, "", "", False)

    def test_blanks_only(self):
        for command in (" ", "\n", " \t\n "):
            self.check(command, 0, "", "", False)

    def test_workdir_missing(self):
        self.check("pwd", -1, "", "[Errno 2] No such file or directory: '/nope'", False, workdir="/nope")

    def test_workdir_not_a_directory(self):
        self.check("pwd", -1, "", "[Errno 20] Not a directory: '/etc/passwd'", False, workdir="/etc/passwd")

    def test_nul_in_command(self):
        self.check("echo a\0b", -1, "", "embedded null byte", False)

    def test_command_too_long(self):
        longest = "true #" + "x" * (ARGUMENT_BYTES_MAX - 1 - len("true #"))
        self.check(longest, 0, "", "", False)
        self.check(longest + "x", -1, "", "[Errno 7] Argument list too long: '/bin/sh'", False)
        self.check("x" * 1_000_000, -1, "", "[Errno 7] Argument list too long: '/bin/sh'", False)

    def test_unknown_session(self):
        for session in ("nope", "", "../x", "a b", "\0", "x" * 5000):
            done = self.api.Exec(session_id=session, command="true")
            self.assertEqual(told(done), (-1, "", "Session not found", False), session)

    def test_where_a_command_stands(self):
        self.check("pwd", 0, "/workspace\n", "", False)
        self.says(self.session_id, "mkdir -p sub/deeper")
        self.check("pwd", 0, "/workspace/sub\n", "", False, workdir="sub")
        self.check("pwd", 0, "/workspace/sub/deeper\n", "", False, workdir="sub/deeper")
        self.check("pwd", 0, "/\n", "", False, workdir="/")
        self.check("pwd; echo $PWD", 0, "/tmp\n/tmp\n", "", False, workdir="/tmp")

    def test_its_shell_input_and_user(self):
        self.check("echo $0", 0, "/bin/sh\n", "", False)
        self.check("cat; echo end", 0, "end\n", "", False)
        self.check("readlink /proc/self/fd/0", 0, "/dev/null\n", "", False)
        self.check("test -t 0 || test -t 1 || test -t 2", 1, "", "", False)
        self.check("id -u; id -g", 0, "0\n0\n", "", False)

    def test_nothing_but_files_carries_over(self):
        self.says(self.session_id, "cd /tmp; X=1; export X; umask 077; echo kept > /workspace/kept")
        self.check("pwd; echo \"[$X]\"; umask; cat kept", 0, "/workspace\n[]\n0022\nkept\n", "", False)


class Encoding(AgentboxCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.session_id = cls.api.CreateSession().session.session_id

    def both_ways(self, octal, text):
        """By Exec, by a stream, and on either pipe."""
        self.assertEqual(self.says(self.session_id, f"printf '{octal}'"), text, octal)
        self.assertEqual(self.execute(self.session_id, f"printf '{octal}' >&2").stderr, text, octal)
        self.assertEqual(self.whole(self.session_id, f"printf '{octal}'"), (text, "", 0), octal)
        self.assertEqual(self.whole(self.session_id, f"printf '{octal}' >&2"), ("", text, 0), octal)

    def test_one_mark_for_each_maximal_invalid_part(self):
        for octal in (r"\342\202", r"\360\237\230", r"\300\257", r"\355\240\200", r"\377", r"a\200b", r"\342\202a",
                      r"\360\200\200\200", r"\364\220\200\200", r"\303(", r"\342(\241", r"\376\376\377\377",
                      r"\341\200\342\360\221\222\361\277A"):
            self.both_ways(octal, self.bytes_of(octal).decode("utf-8", "replace"))

    @staticmethod
    def bytes_of(octal):
        out, at = bytearray(), 0
        while at < len(octal):
            if octal[at] == "\\":
                out.append(int(octal[at + 1 : at + 4], 8))
                at += 4
            else:
                out += octal[at].encode()
                at += 1
        return bytes(out)

    def test_counts_of_the_contract(self):
        for octal, count in ((r"\342\202", 1), (r"\360\237\230", 1), (r"\300\257", 2), (r"\355\240\200", 3)):
            self.assertEqual(self.says(self.session_id, f"printf '{octal}'"), "\ufffd" * count)

    def test_nul_and_line_ends_are_kept(self):
        self.both_ways(r"a\000b", "a\0b")
        self.both_ways(r"a\015\012b\015c\012", "a\r\nb\rc\n")

    def test_every_length_of_character(self):
        self.both_ways(r"\303\251\342\202\254\360\237\230\200", "é€😀")


class Life(AgentboxCase):
    def setUp(self):
        self.session_id = self.session()

    def test_a_timeout_ends_the_whole_tree(self):
        tree = ("setsid sleep 3141.1 </dev/null >/dev/null 2>&1 & (sleep 3141.2 & sleep 3141.3) & "
                "sh -c 'trap \"\" TERM INT HUP; sleep 3141.4; sleep 3141.5' & sleep 3141.6")
        done = self.execute(self.session_id, tree, timeout=1)
        self.assertEqual(told(done), (-1, "", TIMED_OUT, True))
        self.assertFalse(self.running(self.session_id, "sleep 3141"))

    def test_a_timeout_ends_a_background_child_that_holds_the_pipe(self):
        done = self.execute(self.session_id, "sleep 3141.7 & echo x", timeout=1)
        self.assertEqual(told(done), (-1, "", TIMED_OUT, True))
        self.assertFalse(self.running(self.session_id, "sleep 3141"))

    def test_a_background_child_that_holds_stdout_holds_the_call(self):
        self.says(self.session_id, "mkfifo fifo")
        thread, answers = self.in_background(
            lambda: self.execute(self.session_id, "echo early; (read line < fifo; echo late) &"))
        wait_for(lambda: self.execute(self.session_id, "echo go > fifo", timeout=10).exit_code == 0, "the reader inside")
        thread.join()
        self.assertEqual(told(answers[0]), (0, "early\nlate\n", "", False))

    def test_one_with_redirected_output_does_not_and_goes_on_living(self):
        self.says(self.session_id, "mkfifo fifo")
        done = self.execute(self.session_id, "(read line < fifo; echo $line > out) </dev/null >/dev/null 2>&1 & echo x")
        self.assertEqual(told(done), (0, "x\n", "", False))
        self.assertFalse(self.exists(self.session_id, "out"))
        self.says(self.session_id, "echo alive > fifo")
        wait_for(lambda: self.execute(self.session_id, "cat out").stdout == "alive\n", "what the child wrote")

    def test_a_later_timeout_spares_it(self):
        """What an earlier command left running is not of the tree that a later one's time ends."""
        self.says(self.session_id, "sleep 2718.1 </dev/null >/dev/null 2>&1 &")
        self.assertTrue(self.execute(self.session_id, "sleep 2718.2", timeout=1).timed_out)
        self.assertTrue(self.running(self.session_id, "sleep 2718.1"))
        self.assertFalse(self.running(self.session_id, "sleep 2718.2"))

    def test_commands_run_at_the_same_time(self):
        """Each waits for a word of the next."""
        count = 5
        self.says(self.session_id, " && ".join(f"mkfifo f{i}" for i in range(count)))
        calls = [self.in_background(lambda i=i: self.execute(
            self.session_id, f"echo {i} > f{i} & read x < f{(i + 1) % count}; echo $x")) for i in range(count)]
        for i, (thread, answers) in enumerate(calls):
            thread.join()
            self.assertEqual(told(answers[0]), (0, f"{(i + 1) % count}\n", "", False))

    def test_orphans_are_reaped(self):
        self.says(self.session_id, "for i in 1 2 3 4 5; do (sh -c 'exit 3' &) ; done")
        wait_for(lambda: self.execute(self.session_id, "cat /proc/[0-9]*/stat | grep -c ') Z '").stdout.strip() == "0",
                 "no zombies")

    def test_a_sandbox_survives_what_its_commands_do(self):
        for command in ("kill -9 -1", "kill -9 1", "rm -rf /workspace", "chmod 000 /workspace /tmp"):
            self.execute(self.session_id, command, timeout=10)
            self.assertEqual(self.execute(self.session_id, "echo alive", workdir="/").stdout, "alive\n", command)


class Caps(AgentboxCase):
    """An answer fits a client that takes 4 MiB; the head is kept, and stderr's last line says that it was cut."""

    def setUp(self):
        self.session_id = self.session()

    def cut(self, command):
        done = self.execute(self.session_id, command)
        self.assertLessEqual(done.ByteSize(), 4 << 20)
        self.assertGreater(done.ByteSize(), 1 << 20)
        last = done.stderr.rstrip("\n").split("\n")[-1]
        self.assertRegex(last, r"(?i)cut|truncated")
        return done, last

    def test_three_megabytes_are_whole(self):
        done = self.execute(self.session_id, "head -c 3000000 /dev/zero | tr '\\0' x")
        self.assertEqual((done.exit_code, len(done.stdout), done.stderr), (0, 3000000, ""))

    def test_stdout(self):
        done, _ = self.cut("echo head; head -c 9000000 /dev/zero | tr '\\0' x; exit 3")
        self.assertEqual(done.exit_code, 3)
        self.assertTrue(done.stdout.startswith("head\nxxx"))

    def test_stderr(self):
        done, _ = self.cut("echo kept; (echo head; head -c 9000000 /dev/zero | tr '\\0' x) >&2")
        self.assertEqual((done.exit_code, done.stdout), (0, "kept\n"))
        self.assertTrue(done.stderr.startswith("head\nxxx"))

    def test_both(self):
        done, _ = self.cut("head -c 9000000 /dev/zero | tr '\\0' x; head -c 9000000 /dev/zero | tr '\\0' y >&2")
        self.assertTrue(done.stdout.startswith("xxx"))
        self.assertTrue(done.stderr.startswith("yyy"))

    def test_bytes_that_grow_when_they_are_decoded(self):
        done, _ = self.cut("head -c 3000000 /dev/zero | tr '\\0' '\\377'")
        self.assertEqual(set(done.stdout), {"\ufffd"})

    def test_characters_are_not_cut(self):
        done, _ = self.cut("yes '€€€€€€€€€€€€€€€€€€€€' | tr -d '\\n' | head -c 9000000")
        self.assertEqual(set(done.stdout), {"€"})


class Partial(AgentboxCase):
    settings = {"keep_partial_output": True}

    def test_what_was_captured_comes_with_the_timeout(self):
        done = self.execute(self.session(), "echo so far; sleep 600", timeout=1)
        self.assertEqual((done.exit_code, done.stdout, done.timed_out), (-1, "so far\n", True))
        self.assertTrue(done.stderr.endswith(TIMED_OUT), done.stderr)


if __name__ == "__main__":
    main()
