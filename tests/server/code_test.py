"""Code in interpreters that wait for it: by itself, in contexts, at its limits, and from somebody who means harm."""

import shutil
import threading
import unittest

from api_case import ApiCase
from harness import PATIENCE, Server, bytes_of, main, path_of, wait_for

PNG = "iVBORw0KGgo="
# What the interpreter's own process is inside: the parent of a run.
PARENT = "import os; os.getppid()"
DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open("/tmp/daemon", "w").write(str(os.getpid()))
    time.sleep(1000)
while not os.path.exists("/tmp/daemon") or not open("/tmp/daemon").read():
    time.sleep(0.001)
"""


class CodeCase(ApiCase):
    def setUp(self):
        self.box = self.create()

    def ask(self, code, box=None, **more):
        return self.server.post(path_of(box or self.box, "code"), {"code": code, **more})

    def run_code(self, code, box=None, **more):
        answer = self.ask(code, box, **more)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json

    def open_context(self, box=None, **wish):
        answer = self.server.post(path_of(box or self.box, "contexts"), wish)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json["id"]

    def command(self, line):
        return self.server.post(path_of(self.box, "exec"), {"command": line}).json


class Runs(CodeCase):
    def test_a_value_outputs_and_both_streams(self):
        self.assertEqual(self.run_code("1 + 1")["value"], "2")
        told = self.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nimport os\nos.system('echo sub')\n'v';")
        self.assertEqual((told["stdout"], told["stderr"], told["value"], told["exit_code"]),
                         ("out\nsub\n", "err\n", None, 0))
        told = self.run_code("def f():\n    return 1 / 0\nf()")
        self.assertEqual((told["error"]["name"], told["error"]["value"], told["exit_code"]),
                         ("ZeroDivisionError", "division by zero", 1))
        self.assertIn("return 1 / 0", told["error"]["traceback"])
        self.assertNotIn("python_run", told["error"]["traceback"])
        self.assertEqual(self.run_code("1 +")["error"]["name"], "SyntaxError")
        self.assertEqual(self.run_code("import sys; sys.exit(7)")["exit_code"], 7)
        self.assertEqual(self.run_code("import os; os.kill(os.getpid(), 9)")["exit_code"], 137)
        self.assertEqual(self.run_code("input()", stdin="typed\n")["value"], "'typed'")
        told = self.run_code("import os; os.environ['A'], os.getcwd(), __name__", env={"A": "b"}, workdir="/tmp")
        self.assertEqual(told["value"], "('b', '/tmp', '__main__')")

    def test_nothing_of_a_run_is_left_but_files(self):
        self.run_code("x = 1; open('kept', 'w').write('1')")
        self.assertEqual(self.run_code("x")["error"]["name"], "NameError")
        self.assertEqual(self.run_code("open('kept').read()")["value"], "'1'")
        self.run_code(DAEMON)
        self.assertEqual(self.command("kill -0 $(cat /tmp/daemon)")["exit_code"], 1, "a daemon of a run lives")

    def test_what_is_shown(self):
        table = ("class Table:\n"
                 "    def _repr_html_(self): return '<table>'\n"
                 "    def to_json(self, orient, date_format): return '{\"columns\": [\"a\"], \"data\": [[1]]}'\n")
        picture = "class Picture:\n    def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n'\n"
        told = self.run_code(table + picture + "display(Picture())\nTable()")
        shown, value = told["outputs"]
        self.assertEqual((shown["main"], shown["data"]["image/png"]), (False, PNG))
        self.assertEqual((value["main"], value["data"]["text/html"]), (True, "<table>"))
        self.assertEqual(value["data"]["application/json"], {"columns": ["a"], "data": [[1]]})
        told = self.run_code("class Big:\n    def _repr_html_(self): return 'x' * (1 << 23)\nBig()")
        self.assertTrue(told["outputs_truncated"])
        self.assertEqual(list(told["outputs"][0]["data"]), ["text/plain"])

    def test_more_than_can_be_shown(self):
        context = self.open_context()
        told = self.run_code("for i in range(1100): display(i)\n'last'", context=context)
        self.assertEqual((len(told["outputs"]), told["outputs_truncated"], told["value"]), (1024, True, "'last'"))
        self.assertEqual(told["outputs"][-1], {"main": True, "data": {"text/plain": "'last'"}})
        deep = "class Deep:\n    def _repr_json_(self):\n        l = None\n" \
               "        for i in range({}): l = [l]\n        return l\nDeep()"
        for depth in (70, 100000):
            told = self.run_code(deep.format(depth), context=context)
            self.assertEqual(list(told["outputs"][0]["data"]), ["text/plain"], depth)
        self.assertIn("application/json", self.run_code(deep.format(40), context=context)["outputs"][0]["data"])
        told = self.run_code("class Many:\n    def _repr_mimebundle_(self):\n"
                             "        return {'x' * 200 + str(i): 1 for i in range(30000)}\nMany()", context=context)
        self.assertTrue(told["outputs_truncated"])
        huge = "class Huge:\n    def _repr_json_(self): return [10 ** 400]\nHuge()"
        told = self.run_code(huge, context=context)
        self.assertEqual((list(told["outputs"][0]["data"]), told["outputs_truncated"]), (["text/plain"], True))
        half = "d = {'a': 1}\nclass Half:\n    def _repr_json_(self): return {'\\ud83d': '\\ud83d'}\n" \
               "class Later:\n    def _repr_json_(self): return d\n" \
               "display(Half(), Later()); d['a'] = float('nan'); raise ValueError('\\ud83d')"
        told = self.run_code(half, context=context)
        self.assertEqual([one["data"]["application/json"] for one in told["outputs"]], [{"?": "?"}, {"a": 1}])
        self.assertEqual(told["error"]["value"], "?")

    def test_limits(self):
        told = self.run_code("for i in range(100000): print(i)", output_bytes_max=4096)
        self.assertTrue(told["stdout"].startswith("0\n1\n") and told["stdout"].endswith("99999\n"))
        self.assertEqual(len(told["stdout"]) + told["stdout_lost_bytes"], 588890)
        told = self.run_code(DAEMON + "while True: pass", timeout_seconds=0.5)
        self.assertEqual((told["timed_out"], told["exit_code"]), (True, 137))
        self.assertEqual(self.command("kill -0 $(cat /tmp/daemon)")["exit_code"], 1)
        self.refused(self.ask("x" * (1024 * 1024 + 1)), 400, "InvalidArgument", "code")
        self.refused(self.ask("1", language="ruby"), 400, "InvalidArgument", "language")
        self.refused(self.ask("1", timeout_seconds=0), 400, "InvalidArgument", "timeout_seconds")
        self.refused(self.server.post(path_of(self.box, "code"), {}), 400, "InvalidArgument", "code")

    def test_many_at_once(self):
        answers = []
        threads = [threading.Thread(target=lambda i=i: answers.append((i, self.run_code(f"print({i}); {i} * 2"))))
                   for i in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(PATIENCE)
        self.assertEqual(sorted((i, told["stdout"], told["value"]) for i, told in answers),
                         [(i, f"{i}\n", str(i * 2)) for i in range(8)])

    def test_a_stream(self):
        code = "import time\nprint('one')\nwhile not __import__('os').path.exists('/tmp/go'): time.sleep(0.01)\nprint('two')\n3"
        with self.server.events("POST", path_of(self.box, "code", stream="sse"), {"code": code}) as events:
            self.assertEqual(bytes_of([next(events)]), b"one\n")
            self.command("touch /tmp/go")
            before, last = events.until("result")
        self.assertEqual(bytes_of(before), b"two\n")
        self.assertEqual((last.data["value"], last.data["stdout"]), ("3", ""))
        much = "import sys\nfor i in range(64): sys.stdout.write('x' * 65536)"
        with self.server.events("POST", path_of(self.box, "code", stream="sse"), {"code": much}) as events:
            before, last = events.until("result")
        self.assertEqual(len(bytes_of(before)), 64 * 65536)

    def test_who_hangs_up_ends_it(self):
        path = path_of(self.box, "code", stream="sse")
        code = "import os, time\nopen('/tmp/pid', 'w').write(str(os.getpid()))\nprint('up')\ntime.sleep(1000)"
        with self.server.events("POST", path, {"code": code}) as events:
            self.assertEqual(bytes_of([next(events)]), b"up\n")
        wait_for(lambda: self.command("kill -0 $(cat /tmp/pid)")["exit_code"] == 1, "the end of the run")

    def test_the_audit_and_the_tool_list(self):
        self.run_code("'audited'")
        rows = self.server.get(f"/api/v1/audit?sandbox={self.box}&action=code.run").json["rows"]
        self.assertEqual((rows[0]["object"], rows[0]["outcome"]), ("'audited'", "allowed"))
        box = self.create(tools=["file_read"])
        self.refused(self.ask("1", box), 403, "Denied")
        self.refused(self.server.post(path_of(box, "contexts"), {}), 403, "Denied")

    def test_an_image_without_it(self):
        box = self.create(env={"PATH": "/nowhere"})
        self.refused(self.ask("1", box), 404, "NotFound")


class Contexts(CodeCase):
    def test_state_stays_and_two_are_apart(self):
        one, two = self.open_context(imports=["math"], env={"A": "b"}, workdir="/tmp"), self.open_context()
        self.assertEqual(self.run_code("import os; os.environ['A'], os.getcwd()", context=one)["value"], "('b', '/tmp')")
        self.assertEqual(self.run_code("x = 40; math.floor(2.5) + x", context=one)["value"], "42")
        self.assertEqual(self.run_code("x", context=two)["error"]["name"], "NameError")
        self.run_code("def f(): return 1 / 0", context=one)
        self.assertIn("return 1 / 0", self.run_code("f()", context=one)["error"]["traceback"])
        told = self.run_code("import asyncio\nasync def g(): return x + 1\nawait g()", context=one)
        self.assertEqual(told["value"], "41")
        self.assertEqual(self.run_code("_", context=one)["value"], "41")
        self.assertEqual(self.run_code("import sys; sys.exit(3)", context=one)["error"]["name"], "SystemExit")
        self.assertEqual(self.run_code("x", context=one)["value"], "40")
        seen = self.server.get(path_of(self.box, "contexts")).json["contexts"]
        self.assertEqual([(view["id"], view["language"], view["busy"]) for view in seen],
                         [(one, "python", False), (two, "python", False)])
        self.assertEqual(self.server.delete(path_of(self.box, "contexts", one)).status, 204)
        self.refused(self.ask("x", context=one), 410, "Gone")
        self.refused(self.ask("x", context="nonesuch"), 404, "NotFound")
        self.refused(self.ask("x", context=two, workdir="/"), 400, "InvalidArgument", "workdir")
        self.refused(self.server.post(path_of(self.box, "contexts"), {"imports": ["nonesuch"]}), 400,
                     "InvalidArgument", "imports")

    def test_interrupt_and_time(self):
        context = self.open_context()
        self.run_code("x = 1", context=context)
        answers = []
        busy = "open('/tmp/busy', 'w').close()\nx = 2\nimport time\ntime.sleep(1000)"
        thread = threading.Thread(target=lambda: answers.append(self.run_code(busy, context=context)))
        thread.start()
        wait_for(lambda: self.server.get(path_of(self.box, "stat//tmp/busy")).status == 200, "the run")
        self.refused(self.ask("x", context=context), 409, "Busy")
        self.assertEqual(self.server.post(path_of(self.box, "contexts", context, "interrupt")).status, 204)
        thread.join(PATIENCE)
        self.assertEqual(answers[0]["error"]["name"], "KeyboardInterrupt")
        told = self.run_code("while True: x += 1", context=context, timeout_seconds=0.3)
        self.assertEqual((told["timed_out"], told["error"]["name"]), (True, "KeyboardInterrupt"))
        self.assertEqual(self.run_code("x > 2", context=context)["value"], "True")
        stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        told = self.run_code(stubborn, context=context, timeout_seconds=0.3)
        self.assertEqual((told["timed_out"], told["context_ended"]), (True, True))
        self.refused(self.ask("x", context=context), 410, "Gone")

    def test_as_many_as_there_may_be(self):
        contexts = [self.open_context() for _ in range(16)]
        self.refused(self.server.post(path_of(self.box, "contexts"), {}), 429, "Exhausted")
        self.server.delete(path_of(self.box, "contexts", contexts[0]))
        self.open_context()

    def test_one_that_ends_itself(self):
        context = self.open_context()
        told = self.run_code("print('last', flush=True)\nimport os; os._exit(5)", context=context)
        self.assertEqual((told["exit_code"], told["context_ended"], told["stdout"]), (5, True, "last\n"))
        self.refused(self.ask("1", context=context), 410, "Gone")
        self.assertEqual(self.server.get(path_of(self.box, "contexts")).json["contexts"], [])


class Left(CodeCase):
    """Whoever hangs up ends his own run, and nobody else's; whoever is slow does not stretch its time."""

    # Longer than an interpreter has to end a run before it is taken for one that does not obey.
    LONGER = 4

    def leave_one_that_prints(self, language, code):
        path = path_of(self.box, "code", stream="sse")
        with self.server.events("POST", path, {"code": code, "language": language}) as events:
            next(events)

    def test_with_much_to_say(self):
        context = self.open_context()
        self.leave_one_that_prints("python", "while True: print('x' * 1000)")
        told = self.run_code(f"import time; time.sleep({self.LONGER}); 'alive'", context=context)
        self.assertEqual(told["value"], "'alive'")

    @unittest.skipUnless(shutil.which("node"), "there is no node here")
    def test_with_much_to_say_in_javascript(self):
        context = self.open_context(language="javascript")
        self.leave_one_that_prints("javascript", "for (;;) require('fs').writeSync(1, 'x'.repeat(1000))")
        code = f"await new Promise((done) => setTimeout(done, {self.LONGER * 1000})); 'alive'"
        self.assertEqual(self.run_code(code, context=context, language="javascript")["value"], "alive")


    def test_or_does_not_listen(self):
        path = path_of(self.box, "code", stream="sse")
        code = "import os\nopen('/tmp/pid', 'w').write(str(os.getpid()))\nwhile True: print('x' * 1000)"
        with self.server.events("POST", path, {"code": code, "timeout_seconds": 0.5}) as events:
            next(events)
            wait_for(lambda: self.command("kill -0 $(cat /tmp/pid)")["exit_code"] == 1, "the end of the run")
            _, last = events.until("result")
        self.assertTrue(last.data["timed_out"])

    def test_and_comes_back(self):
        context = self.open_context()
        parent = self.run_code("x = 1; import os; os.getppid()", context=context)["value"]
        path = path_of(self.box, "code", stream="sse")
        # It heeds an interrupt, and takes a moment for that.
        code = ("import time\nprint('up', flush=True)\ntry:\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n"
                "    time.sleep(0.3)")
        with self.server.events("POST", path, {"code": code, "context": context}) as events:
            self.assertEqual(bytes_of([next(events)]), b"up\n")

        def again():
            answer = self.ask("x", context=context)
            self.assertIn(answer.status, (200, 409), answer.body)
            return answer.json if answer.status == 200 else None
        self.assertEqual(wait_for(again, "the end of the run")["value"], "1")
        self.assertEqual(self.run_code(PARENT)["value"], parent)


class Warm(CodeCase):
    config = ("profiles:\n  science:\n    interpreters:\n      python:\n        imports: [decimal, nonesuch]\n")

    def test_a_profile_starts_it_with_its_imports(self):
        box = self.create(profile="science")
        told = self.run_code("import sys; 'decimal' in sys.modules", box)
        self.assertEqual(told["value"], "True")
        self.assertIn("nonesuch", told["warnings"][0])
        shown = self.server.get(path_of(box)).json["interpreters"]
        self.assertEqual(shown, {"python": {"warm": True, "imports": ["decimal", "nonesuch"]}})
        self.refused(self.server.post("/api/v1/sandboxes", {"interpreters": {"python": {"imports": ["a b"]}}}), 400,
                     "InvalidArgument", "interpreters.python.imports")

    def test_it_is_no_process_of_the_callers(self):
        box = self.create(interpreters={"python": {}})
        self.run_code("1", box)
        self.assertEqual(self.server.get(path_of(box, "processes")).json["processes"], [])
        lines = self.server.post(path_of(box, "exec"), {"command": "cat /proc/[0-9]*/cmdline | wc -c"}).json["stdout"]
        self.assertLess(int(lines), 2048, "who looks at the processes inside can still read them")

    def test_files_are_kept_beside_it(self):
        box = self.create(interpreters={"python": {}}, storage="disk")
        self.run_code("open('a', 'w').write('1')", box)
        made = self.server.post(path_of(box, "snapshots"), {})
        self.assertEqual(made.status, 201, made.body)
        self.run_code("open('a', 'w').write('3')", box)
        undone = self.server.post(path_of(box, "undo"), {"snapshot": made.json["id"]})
        self.assertEqual(undone.status, 200, "an interpreter that only waits is in nobody's way")
        fork = self.server.post(path_of(box, "fork"), {})
        self.addCleanup(self.server.delete, path_of(fork.json["id"]))
        self.assertEqual(self.run_code("open('a').read()", fork.json["id"])["value"], "'1'")
        context = self.open_context(box)
        self.run_code("open('a', 'w').write('2')", box, context=context)
        undone = self.server.post(path_of(box, "undo"), {"snapshot": made.json["id"], "end_processes": True})
        self.assertEqual(undone.status, 200, undone.body)
        self.refused(self.ask("1", box, context=context), 410, "Gone")
        self.assertEqual(self.run_code("open('a').read()", box)["value"], "'1'")


class Harm(CodeCase):
    """Whoever attacks the interpreter of his sandbox loses it, and gets another."""

    def test_it_is_killed(self):
        context = self.open_context()
        first = self.run_code(PARENT)["value"]
        self.command(f"kill -9 {first}")
        wait_for(lambda: self.ask("1", context=context).status == 410, "the end of the context")
        second = self.run_code(PARENT)["value"]
        self.assertNotEqual(first, second)
        told = self.ask("import os, signal; os.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass")
        self.refused(told, 410, "Gone")
        self.assertEqual(self.run_code("1")["value"], "1")

    def test_it_is_stopped(self):
        context = self.open_context()
        told = self.run_code("import os, signal; os.kill(os.getppid(), signal.SIGSTOP)", timeout_seconds=0.5)
        self.assertTrue(told["timed_out"])
        self.refused(self.ask("1", context=context), 410, "Gone")
        self.assertEqual(self.run_code("1")["value"], "1")

    def test_one_that_lies(self):
        box = self.create(env={"PATH": "/workspace/bin:/usr/bin:/bin"})
        fake = b"#!/bin/sh\ncat /workspace/lie\nexec sleep 1000\n"
        self.server.put(path_of(box, "files", "bin/python3", mode="0755"), fake)
        hello = b'{"language": "python", "version": "3", "warnings": []}'
        hello = len(hello).to_bytes(4, "little") + b"\x01\0\0\0\0\0\0\0" + hello
        lies = (b"garbage that is no frame at all",
                hello + b"\xff\xff\xff\xff\x02\x01\0\0\x01\0\0\0",  # four gigabytes
                hello + b"\x01\0\0\0\x02\x01\0\0\xff\0\0\0x",  # output of a run that is none
                hello + b"\x01\0\0\0\x02\x03\0\0\x01\0\0\0x",  # of a third stream
                hello + b"\0\0\0\0\x02\x01\0\0\x01\0\0\0",  # of nothing
                hello + b"\x02\0\0\0\x04\0\0\0\xff\0\0\0{}",  # the end of one that is none
                hello + hello,
                b"\x02\0\0\0\x01\0\0\0\0\0\0\0{}",
                b"\x00\0\0\0\x06\0\0\0\x01\0\0\0")  # something before the greeting
        for lie in lies:
            self.server.put(path_of(box, "files", "lie"), lie)
            answer = self.ask("1", box)
            self.refused(answer, 410, "Gone")
            self.assertIn("protocol", answer.json["error"]["message"])
        # One that greets and then says nothing more is killed when the time of the run is over.
        self.server.put(path_of(box, "files", "lie"), hello)
        told = self.run_code("1", box, timeout_seconds=0.2)
        self.assertEqual((told["timed_out"], told["value"]), (True, None))
        self.server.put(path_of(box, "files", "lie"), b"")
        self.refused(self.ask("1", box, timeout_seconds=0.2), 504, "TimedOut")
        # Nothing of it is left for the true one.
        self.assertEqual(self.server.delete(path_of(box, "files", "bin/python3")).status, 200)
        self.server.post(path_of(box, "exec"), {"command": "pkill -x sleep"})
        wait_for(lambda: self.ask("1", box, timeout_seconds=1).status == 200, "the true one")
        self.assertEqual(self.run_code("1", box)["value"], "1")

    def test_the_folder_it_stands_in(self):
        for name in ("json", "select", "struct", "ast"):
            self.server.put(path_of(self.box, "files", f"{name}.py"), b"raise SystemExit('mine')")
        self.assertEqual(self.run_code("1 + 1")["value"], "2")

    def test_out_of_memory(self):
        box = self.create(resource_limits={"memory_mb": 128})
        told = self.run_code("x = bytearray(1 << 30)", box)
        self.assertIn((told["exit_code"], (told["error"] or {}).get("name")), [(137, None), (1, "MemoryError")])
        self.assertEqual(self.run_code("1", box)["value"], "1")


@unittest.skipUnless(shutil.which("node"), "there is no node here")
class JavaScript(CodeCase):
    def run_code(self, code, box=None, **more):
        return super().run_code(code, box, language="javascript", **more)

    def test_runs(self):
        self.assertEqual(self.run_code("1 + 1")["value"], "2")
        told = self.run_code("console.log('out'); console.error('err'); ({a: [1, 2]})")
        self.assertEqual((told["stdout"], told["stderr"]), ("out\n", "err\n"))
        self.assertEqual(told["outputs"][0]["data"]["application/json"], {"a": [1, 2]})
        told = self.run_code("function f() { throw new TypeError('bad') }\nf()")
        self.assertEqual((told["error"]["name"], told["error"]["value"], told["exit_code"]), ("TypeError", "bad", 1))
        self.assertEqual(self.run_code("setTimeout(() => console.log('later'), 20); 0")["stdout"], "later\n")
        told = self.run_code("for (;;);", timeout_seconds=0.5)
        self.assertTrue(told["timed_out"])

    def test_more_than_can_be_shown(self):
        context = self.open_context(language="javascript")
        told = self.run_code("for (let i = 0; i < 1100; i++) display(i);\n'last'", context=context)
        self.assertEqual((len(told["outputs"]), told["outputs_truncated"], told["value"]), (1024, True, "last"))
        told = self.run_code("let l = null; for (let i = 0; i < 70; i++) l = {next: l}; l", context=context)
        self.assertEqual((list(told["outputs"][0]["data"]), told["outputs_truncated"]), (["text/plain"], True))
        self.assertEqual(self.run_code("'😀'[0]", context=context)["value"], "\ufffd")
        self.assertEqual(self.run_code(r"'\\ud83d'", context=context)["value"], r"\ud83d")
        told = self.run_code("({a: '😀'[0], b: String.raw`\\ud83d`})", context=context)
        self.assertEqual(told["outputs"][0]["data"]["application/json"], {"a": "\ufffd", "b": r"\ud83d"})
        told = self.run_code("'x' + '😀'.repeat(40000)", context=context)  # what is cut out begins within a pair
        self.assertIn("characters", told["value"])
        self.assertEqual(self.run_code("1", context=context)["value"], "1")

    def test_a_context(self):
        context = self.open_context(language="javascript", imports=["path"])
        self.run_code("const a = 40; let b = path.sep.length", context=context)
        self.assertEqual(self.run_code("await Promise.resolve(a + b + 1)", context=context)["value"], "42")
        told = self.run_code("for (;;);", context=context, timeout_seconds=0.5)
        self.assertEqual((told["timed_out"], told["context_ended"]), (True, False))
        self.assertEqual(self.run_code("a", context=context)["value"], "40")


class Tenants(unittest.TestCase):
    def test_nobody_else_reaches_it(self):
        server = Server()
        self.addCleanup(server.close)
        server.start()
        def token(tenant, scopes):
            return server.post("/api/v1/tokens", {"tenant": tenant, "scopes": scopes}).json["token"]
        mine, other, reader = token("a", ["create", "use", "read"]), token("b", ["use", "read"]), token("a", ["read"])
        box = server.post("/api/v1/sandboxes", {}, token=mine).json["id"]
        context = server.post(path_of(box, "contexts"), {}, token=mine).json["id"]
        calls = [("POST", "code", {"code": "1"}), ("POST", "contexts", {}), ("GET", "contexts", None),
                 ("POST", f"contexts/{context}/interrupt", None), ("DELETE", f"contexts/{context}", None)]
        for method, place, body in calls:
            path = f"{path_of(box)}/{place}"
            self.assertEqual(server.request(method, path, body, token=other).status, 404, place)
            want = 200 if method == "GET" else 403
            self.assertEqual(server.request(method, path, body, token=reader).status, want, place)

    def test_the_next_server_ends_them(self):
        server = Server("--open")
        self.addCleanup(server.close)
        server.start()
        box = server.create()
        context = server.post(path_of(box, "contexts"), {}).json["id"]
        old = server.post(path_of(box, "code"), {"code": PARENT}).json["value"]
        server.kill()
        server.start()
        self.assertEqual(server.post(path_of(box, "code"), {"code": "1", "context": context}).status, 404)
        self.assertEqual(server.post(path_of(box, "exec"), {"command": f"kill -0 {old}"}).json["exit_code"], 1)
        self.assertEqual(server.post(path_of(box, "code"), {"code": "1 + 1"}).json["value"], "2")


if __name__ == "__main__":
    main()
