"""Commands: whole, streamed, long, without a shell; and their history."""

import json
import time

from sandboxer_case import SandboxerCase
from harness import main, wait_for


class Execute(SandboxerCase):
    pictures = {"busybox": "busybox", "jmalloc/echo-server": "echo-server"}

    def stream(self, box, code):
        """The objects of a streamed run."""
        answer = self.ask("POST", self.at(box, "execute?stream=true"), {"code": code})
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "application/x-ndjson"))
        return [json.loads(line) for line in answer.body.decode().split("\n") if line]

    # --- what must not work

    def test_blank_code_is_refused(self):
        box = self.make()
        for code in ("", "  \n"):
            self.detail(self.ask("POST", self.at(box, "execute"), {"code": code}), 400, "Code cannot be empty.")
        self.assertEqual(self.ask("POST", self.at(box, "execute"), {"code": "x" * 200000}).status, 400)
        self.assertEqual(self.ask("POST", self.at(box, "execute"), {"code": "a\0b"}).status, 400)
        self.detail(self.ask("POST", self.at("0" * 64, "execute"), {"code": "id"}), 404, "Sandbox not found")

    def test_output_without_end_takes_no_memory_without_end(self):
        box = self.make()
        done = self.execute(box, "yes | head -c 30000000; echo the end")
        self.assertLess(len(done["stdout"]), 9 << 20)
        self.assertRegex(done["stdout"], r"\n\[\d+ bytes more were left out\]$")
        self.assertEqual(done["exit_code"], 0)

    def test_whoever_leaves_takes_his_command_with_him(self):
        box = self.make()
        connection, answer = self.open("POST", self.at(box, "execute?stream=true"), {"code": "echo up; sleep 5555"})
        self.assertIn(b"up", answer.readline())
        self.assertEqual(self.run_one(box, "ps | grep -c '[s]leep 5555'")[0], "1")
        answer.close()
        connection.close()
        wait_for(lambda: self.run_one(box, "ps | grep -c '[s]leep 5555'")[0] == "0", "the end of the command")

    # --- whole

    def test_what_it_says_is_trimmed_and_nothing_else(self):
        box = self.make()
        self.assertEqual(self.run_one(box, "echo '  a  b  '; echo; echo err >&2; exit 3"), ("a  b", "err", 3))
        self.assertEqual(self.run_one(box, "true"), ("", "", 0))
        self.assertEqual(self.run_one(box, "kill -9 $$")[2], 137)

    def test_it_is_always_a_shell(self):
        box = self.make()
        self.assertEqual(self.run_one(box, "pwd;pwd")[0], "/\n/")
        self.assertEqual(self.run_one(box, "echo\techo")[0], "echo")
        self.assertEqual(self.run_one(box, "if true\nthen\nid\nfi")[2], 0)
        self.assertEqual(self.run_one(box, "no-such-program")[2], 127)

    def test_bytes_that_are_no_text_are_replaced(self):
        box = self.make()
        self.assertEqual(self.run_one(box, "printf 'a\\377b'"), ("a�b", "", 0))

    def test_what_it_leaves_behind_goes_on(self):
        box = self.make()
        self.run_one(box, "(sleep 0.3; echo later >/later) >/dev/null 2>&1 &")
        wait_for(lambda: self.run_one(box, "cat /later")[0] == "later", "what was left behind")

    def test_an_image_without_a_shell_has_its_programs(self):
        box = self.make("jmalloc/echo-server", "no shell")
        done = self.execute(box, "echo Hello World")
        self.assertEqual((done["stdout"], done["exit_code"]), ("", 127))
        self.assertIn("not found", done["stderr"])
        self.assertEqual(self.execute(box, "nothing")["exit_code"], 127)
        # The port is taken by the first of it, so it ends at once, and it ran.
        self.assertEqual(self.execute(box, "/echo"), {"stdout": "", "stderr": "", "exit_code": 1})

    def test_a_long_command_does_not_lose_an_impatient_client(self):
        box = self.make()
        # The client's patience is for silence, so each byte begins it anew.
        answer = self.ask("POST", self.at(box, "execute"), {"code": "sleep 7; echo done"}, timeout=5)
        self.assertEqual(answer.status, 200)
        self.assertTrue(answer.body.startswith(b" "), answer.body)
        self.assertEqual(answer.json, {"stdout": "done", "stderr": "", "exit_code": 0})

    # --- streamed

    def test_lines_come_whole_and_an_end_comes_last(self):
        box = self.make()
        seen = self.stream(box, "echo ' one '; echo two >&2; printf three; exit 4")
        self.assertEqual(seen[-1], {"type": "exit", "output": "Process exited with code 4", "exit_code": 4})
        rest = seen[:-1]
        self.assertTrue(all(list(one) == ["type", "output", "exit_code"] and one["exit_code"] == -1 for one in rest))
        self.assertEqual([one["output"] for one in rest if one["type"] == "stdout"], [" one ", "three"])
        self.assertEqual([one["output"] for one in rest if one["type"] == "stderr"], ["two"])

    def test_many_lines_are_exactly_those(self):
        box = self.make()
        seen = self.stream(box, "seq 1 20000 | sed 's/$/ €/'")
        self.assertEqual([one["output"] for one in seen[:-1]], [f"{i} €" for i in range(1, 20001)])

    def test_both_streams_come_to_their_end(self):
        box = self.make()
        seen = self.stream(box, "echo out; exec 1>&-; sleep 0.2; echo err >&2")
        self.assertEqual([(one["type"], one["output"]) for one in seen[:-1]], [("stdout", "out"), ("stderr", "err")])

    def test_a_line_is_sent_when_it_is_there(self):
        box = self.make()
        _, answer = self.open("POST", self.at(box, "execute?stream=true"),
                              {"code": "echo first; until test -e /go; do sleep 0.05; done; echo second"})
        self.assertEqual(json.loads(answer.readline())["output"], "first")
        self.run_one(box, "touch /go")
        self.assertEqual(json.loads(answer.readline())["output"], "second")

    def test_a_silent_stream_keeps_an_impatient_client(self):
        box = self.make()
        _, answer = self.open("POST", self.at(box, "execute?stream=true"), {"code": "sleep 7; echo done"}, timeout=5)
        lines = [json.loads(line) for line in answer.read().decode().splitlines()]
        self.assertEqual([one["output"] for one in lines], ["done", "Process exited with code 0"])

    def test_a_stream_in_a_paused_sandbox_ends(self):
        box = self.make()
        self.good("PUT", self.at(box, "pause"))
        self.assertEqual(self.stream(box, "echo hi")[-1]["exit_code"], 255)

    # --- history

    def history(self, box, path="execution-logs"):
        return self.good("GET", self.at(box, path))["executions"]

    def test_what_was_run_is_remembered_in_its_order(self):
        box = self.make()
        begun = time.time()
        self.execute(box, "echo one; echo bad >&2; exit 2")
        self.stream(box, "echo two")
        self.execute(box, "true")
        first, second, third = self.history(box)
        self.assertEqual(set(first), {"id", "command", "executed_at", "exit_code", "logs"})
        self.assertRegex(first["id"], r"^[0-9a-hjkmnp-tv-z]{26}$")
        self.assertEqual((first["command"], first["exit_code"]), ("echo one; echo bad >&2; exit 2", 2))
        self.assertAlmostEqual(first["executed_at"], begun, delta=60)
        self.assertEqual([(one["fd"], one["content"]) for one in first["logs"]], [(1, "one"), (2, "bad")])
        self.assertEqual(set(first["logs"][0]), {"id", "fd", "content", "created_at"})
        self.assertEqual([one["content"] for one in second["logs"]], ["two\n"])
        self.assertEqual(third["logs"], [])
        newest = self.history(box, "command-executions")
        self.assertEqual([one["id"] for one in newest], [third["id"], second["id"], first["id"]])
        self.assertEqual(newest[2]["logs"], first["logs"])

    def test_a_limit_counts_rows(self):
        box = self.make()
        for _ in range(3):
            self.execute(box, "echo a; echo b >&2")
        self.assertEqual(len(self.history(box, "execution-logs?limit=3")), 2)
        self.assertEqual(len(self.history(box, "command-executions?limit=2")), 2)
        self.assertEqual(self.history(box, "execution-logs?limit=0"), [])
        self.assertEqual(len(self.history(box, "execution-logs?limit=99999999")), 3)

    def test_one_run_is_read_from_where_one_stopped(self):
        box = self.make()
        self.execute(box, "echo a; echo b >&2")
        run = self.history(box)[0]
        path = self.at(box, "command-executions", run["id"], "logs")
        whole = self.good("GET", path)
        self.assertEqual(whole["execution"], {key: run[key] for key in ("id", "command", "exit_code", "executed_at")})
        self.assertEqual(whole["logs"], run["logs"])
        self.assertEqual(self.good("GET", f"{path}?start_id={run['logs'][0]['id']}")["logs"], run["logs"][1:])
        self.assertEqual(self.good("GET", f"{path}?limit=1")["logs"], run["logs"][:1])
        self.detail(self.ask("GET", self.at(box, "command-executions/nothing/logs")), 404, "Command execution not found")
        other = self.make()
        self.detail(self.ask("GET", self.at(other, "command-executions", run["id"], "logs")), 404,
                    "Command execution not found")

    def test_the_past_outlives_the_sandbox(self):
        box = self.make()
        self.execute(box, "echo remembered")
        self.good("DELETE", self.at(box))
        self.assertEqual(self.history(box)[0]["logs"][0]["content"], "remembered")
        self.assertEqual(len(self.history(box, "command-executions")), 1)


if __name__ == "__main__":
    main()
