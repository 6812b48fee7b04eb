"""Commands: their shell, their output, their end."""

import base64
import threading

from daiv_case import REPO, DaivCase, packed
from harness import main, wait_for


class Run(DaivCase):
    def setUp(self):
        self.open = self.session()

    def test_results_in_order_and_fail_fast(self):
        answer = self.run_all(self.open, "echo a", "exit 3", "echo c")
        self.assertEqual([(one["output"], one["exit_code"]) for one in answer["results"]], [("a\n", 0), ("", 3), ("c\n", 0)])
        answer = self.run_all(self.open, "echo a", "exit 3", "echo c", fail_fast=True)
        self.assertEqual([one["exit_code"] for one in answer["results"]], [0, 3])
        self.assertEqual(self.run_all(self.open), {"results": [], "patch": None})
        self.assertEqual(self.run_one(self.open, ""), ("", 0))

    def test_answers_are_compact_json(self):
        answer = self.call("POST", f"/session/{self.open}/", {"commands": ["echo ü"]})
        self.assertEqual(answer.body, '{"results":[{"command":"echo ü","output":"ü\\n","exit_code":0}],"patch":null}'.encode())
        self.assertEqual(answer.headers["Content-Type"], "application/json")

    def test_both_streams_in_true_order(self):
        for _ in range(5):
            self.assertEqual(self.run_one(self.open, "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done")[0],
                             "".join(f"o{i}\ne{i}\n" for i in range(1, 6)))

    def test_each_command_is_a_shell_of_its_own(self):
        self.run_one(self.open, "cd /tmp; export A=1; echo x > kept")
        self.assertEqual(self.run_one(self.open, "pwd; echo [$A]; cat /tmp/kept")[0], f"{REPO}\n[]\nx\n")
        self.assertEqual(self.run_one(self.open, "cat"), ("", 0))  # stdin is at its end
        self.assertEqual(self.run_one(self.open, "false | true")[1], 1)
        self.assertEqual(self.run_one(self.open, "true | true")[1], 0)
        self.assertEqual(self.run_one(self.open, "test -t 1")[1], 1)

    def test_exit_codes(self):
        self.assertEqual(self.run_one(self.open, "kill -9 $$")[1], 137)
        self.assertEqual(self.run_one(self.open, "kill -TERM $$")[1], 143)
        output, code = self.run_one(self.open, "no-such-program")
        self.assertEqual(code, 127)
        self.assertIn("no-such-program", output)

    def test_bytes_that_are_no_text(self):
        for printed, shown in ((r"\377", "\ufffd"), (r"a\303b", "a\ufffdb"), (r"\342\202", "\ufffd"),
                               (r"\355\240\200", "\ufffd\ufffd\ufffd"), (r"\360\237\230x", "\ufffdx"), (r"\000", "\0")):
            self.assertEqual(self.run_one(self.open, f"printf '{printed}'")[0], shown, printed)

    def test_thirty_megabytes_come_back_whole(self):
        output, code = self.run_one(self.open, "yes 0123456789abcde | head -c 31457280; printf end")
        self.assertEqual((len(output), code, output[-3:]), (31457283, 0, "end"))

    def test_a_job_in_the_background_holds_up_nobody_and_lives_on(self):
        output, code = self.run_one(self.open, "(while ! test -e go; do sleep 0.01; done; echo ran > ran) & echo x")
        self.assertEqual((output, code), ("x\n", 0))
        self.run_one(self.open, "touch go")
        wait_for(lambda: self.run_one(self.open, "cat ran 2>/dev/null")[0] == "ran\n", "the job")

    def test_the_time_is_over_for_the_whole_tree(self):
        answer = self.run_all(self.open, "echo said; (sleep 1; sleep 1; touch late) & sleep 100", "echo never", timeout=1)
        self.assertEqual(answer["results"], [{"command": "echo said; (sleep 1; sleep 1; touch late) & sleep 100",
                                              "output": "Command timed out after 1s", "exit_code": 124}])
        self.assertEqual(self.run_one(self.open, "ps -e -o comm= | grep -c sleep; test -e late")[0], "0\n")

    def test_no_time_at_all_means_none(self):
        self.assertEqual(self.run_one(self.open, "echo x", timeout=0), ("x\n", 0))
        answer = self.call("POST", f"/session/{self.open}/", {"commands": ["true"], "timeout": -1})
        self.assertEqual((answer.status, answer.json["detail"][0]["type"]), (422, "greater_than_equal"))

    def test_a_caller_who_leaves_ends_his_command(self):
        import http.client
        import json as words
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("POST", f"/session/{self.open}/", words.dumps({"commands": ["touch up; sleep 1000"]}),
                           {"X-API-Key": "notsosecret", "Content-Type": "application/json"})
        wait_for(lambda: self.server.get(f"/api/v1/sandboxes/{self.open}/files/repo/up").status == 200, "the command")
        connection.close()
        self.assertEqual(self.run_one(self.open, "ps -e -o comm= | grep -c sleep")[0], "0\n")

    def test_forks_are_bounded(self):
        jobs = "i=0; while [ $i -lt 2000 ]; do sleep 100 >/dev/null 2>&1 & i=$((i+1)); done"
        output, code = self.run_one(self.open, jobs)
        self.assertNotEqual(code, 0)
        self.assertIn("unavailable", output)
        self.assertEqual(self.run_one(self.session(), "echo alive")[0], "alive\n")


class Timed(DaivCase):
    env = DaivCase.env | {"DAIV_SANDBOX_COMMAND_TIMEOUT": "1"}

    def test_the_servers_time_counts_unless_the_request_has_its_own(self):
        session = self.session()
        self.assertEqual(self.run_one(session, "sleep 100"), ("Command timed out after 1s", 124))
        self.assertEqual(self.run_one(session, "sleep 1.5; echo x", timeout=60), ("x\n", 0))
        self.assertEqual(self.run_one(session, "sleep 1.5; echo x", timeout=0), ("x\n", 0))


if __name__ == "__main__":
    main()
