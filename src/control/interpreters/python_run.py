# The parent of every Python run of one sandbox: this half is what happens in a run, python_parent.py the loop around
# them. The server starts it as `python3 -c BOOT CONFIG`, where BOOT reads this from standard input; it imports what most
# runs need, and then waits. A run is a fork of it, a context is a fork that stays.
#
# The server talks on standard input and is answered on standard output, both as frames: size, kind, stream, 0, id, then
# the payload. Runs never see these two: a child has pipes of its own, which this loop reads, so that what one writes,
# also past Python, is known to be its. The answer of a run comes on a third pipe.
#
# Each child leads a session and adopts what is orphaned below it (PR_SET_CHILD_SUBREAPER); so does this process. What a
# run leaves behind therefore becomes a child of ours when the run ends, and is killed with everything below it. All of
# this serves code that means well: somebody who attacks this process attacks his own sandbox and nothing else, and the
# server believes none of what is said here.
import sys

_PATH = list(sys.path)
sys.path[:] = [one for one in _PATH if one not in ("", ".")]  # the working folder is the code's to import from, not ours

import ast
import base64
import builtins
import fcntl
import gc
import io
import json
import linecache
import os
import select
import signal
import socket
import struct
import time
import traceback
import types

HEAD = struct.Struct("<IBBHI")
RECORD = struct.Struct("<Ii")  # of a child's answer: its size, and the exit status
OPEN, RUN, INTERRUPT, KILL, CLOSE, CREDIT = range(1, 7)
HELLO, OUTPUT, PART, DONE, OPENED, CLOSED = range(1, 7)
FRAME_MAX = 60 * 1024
READ_MAX = 64 * 1024
TEXT_MAX = 64 * 1024  # of a value as text, and of a traceback
NAME_MAX = 256
ANSWER_MAX = 4 * 1024 * 1024  # as the server takes it
OUTPUTS_MAX = 1024
DEPTH_MAX = 48  # of one JSON value that is shown
SWEEPS_MAX = 64
AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
COROUTINE = 0x80
HERE = (lambda: None).__code__.co_filename
KEEP = sys.modules["__main__"]  # a run puts its own module in this place; ours must live on


def load_prctl():
    try:
        import ctypes
        return ctypes.CDLL(None).prctl
    except Exception:  # an image without it: then a run's session is killed, and no more
        return None


PRCTL = load_prctl()


def adopt_orphans():
    if PRCTL is not None:
        PRCTL(36, 1, 0, 0, 0)


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), "rb") as file:
            return [int(one) for one in file.read().split()]
    except OSError:
        return []


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def cut(text, most=TEXT_MAX):
    if len(text) <= most:
        return text
    return text[:most // 2] + "\n[... %d characters ...]\n" % (len(text) - most) + text[-(most // 2):]


def to_json(value):
    """Also of text that is no Unicode, such as half a pair."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def is_flat(value, left=DEPTH_MAX):
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return True
    return left > 0 and all(is_flat(one, left - 1) for one in value)


# ---------------------------------------------------------------------------------------------- in a run

MIMES = (("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"),
         ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
         ("application/json", "_repr_json_"))


def as_text(value):
    try:
        return cut(repr(value))
    except Exception as error:
        return "<%s whose repr() failed: %s>" % (type(value).__name__, type(error).__name__)


class Outputs:
    """What a run shows: bounded as a whole, and what did not fit is told."""

    def __init__(self, most):
        self.room = most
        self.items = []
        self.truncated = False

    def taken(self, mime, value):
        """As it is now, whatever becomes of it; None: there is no such form, or no room for it."""
        if not isinstance(mime, str) or len(mime.encode("utf-8", "replace")) >= NAME_MAX:
            return None
        if isinstance(value, (bytes, bytearray)):
            value = base64.b64encode(value).decode()
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            size = len(text.encode("utf-8", "replace")) + len(mime)
            fits = size <= self.room and is_flat(value)
            value = value if isinstance(value, str) or not fits else json.loads(text)
        except (TypeError, ValueError, RecursionError):
            return None  # no JSON: another form of it stands beside
        if not fits:
            self.truncated = True
            return None
        self.room -= size
        return value

    def add(self, bundle, main=False):
        if len(self.items) >= OUTPUTS_MAX - (not main):  # the last place is the value's
            self.truncated = True
            return
        data = {}
        for mime, value in bundle.items():
            value = self.taken(mime, value)
            if value is not None:
                data[mime] = value
        if data:
            self.items.append({"main": main, "data": data})


def figure_png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


def bundle_of(value):
    bundle = {"text/plain": as_text(value)}
    if isinstance(value, (type, int, float, str, bytes, bool)):
        return bundle
    try:
        whole = getattr(value, "_repr_mimebundle_", None)
        whole = whole() if callable(whole) else None
        whole = whole[0] if isinstance(whole, tuple) else whole
        if isinstance(whole, dict):
            bundle.update(whole)
    except Exception:
        pass
    for mime, name in MIMES:
        try:
            one = getattr(value, name, None)
            one = one() if callable(one) and mime not in bundle else None
            one = one[0] if isinstance(one, tuple) else one
            if one is not None:
                bundle[mime] = one
        except Exception:
            pass
    if "text/html" in bundle and "application/json" not in bundle and callable(getattr(value, "to_json", None)):
        try:  # a table: what pandas and its kin have
            bundle["application/json"] = json.loads(value.to_json(orient="split", date_format="iso"))
        except Exception:
            pass
    if "image/png" not in bundle and hasattr(value, "savefig") and hasattr(value, "canvas"):
        try:
            bundle["image/png"] = figure_png(value)
            sys.modules["matplotlib.pyplot"].close(value)  # it is shown already
        except Exception:
            pass
    return bundle


class Code:
    """One namespace, and how code runs in it."""

    def __init__(self):
        self.context = False
        self.count = 0
        self.loop = None
        self.outputs = None
        self.module = types.ModuleType("__main__")
        self.names = self.module.__dict__
        self.names["__builtins__"] = builtins
        sys.modules["__main__"] = self.module
        sys.argv = ["-c"]
        sys.path[:] = _PATH
        builtins.display = self.display

    def display(self, *values):
        for value in values:
            self.outputs.add(bundle_of(value))

    def evaluate(self, code):
        if not code.co_flags & COROUTINE:
            return eval(code, self.names)
        if self.loop is None:
            import asyncio
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(eval(code, self.names))

    def execute(self, text, name):
        tree = compile(text, name, "exec", ast.PyCF_ONLY_AST | AWAIT, True)
        shows = bool(tree.body) and isinstance(tree.body[-1], ast.Expr) and not text.rstrip().endswith(";")
        last = ast.Expression(tree.body.pop().value) if shows else None
        if tree.body:
            self.evaluate(compile(tree, name, "exec", AWAIT, True))
        return self.evaluate(compile(last, name, "eval", AWAIT, True)) if shows else None

    def figures(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            self.outputs.add({"text/plain": as_text(figure), "image/png": figure_png(figure)})
        pyplot.close("all")

    def failure(self, error):
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == HERE:
            trace = trace.tb_next
        try:
            value = cut(str(error), 8192)
        except Exception:
            value = "<its str() failed>"
        lines = traceback.format_exception(type(error), error, trace)
        return {"name": cut(type(error).__name__, NAME_MAX), "value": value, "traceback": cut("".join(lines))}

    def run(self, request):
        """The answer as JSON, and the exit status."""
        self.count += 1
        self.outputs = Outputs(request["result_max"])
        text = request["code"]
        name = "<cell %d>" % self.count if self.context else "<code>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        answer = {"value": None, "error": None}
        status = 0
        try:
            try:
                value = self.execute(text, name)
                if value is not None:
                    answer["value"] = as_text(value)
                    self.outputs.add(bundle_of(value), True)
                    builtins._ = value
                self.figures()
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                for stream in (sys.stdout, sys.stderr):
                    try:
                        stream.flush()
                    except Exception:
                        pass
        except SystemExit as error:
            status = self.leave(error, answer)
        except BaseException as error:
            status = 130 if isinstance(error, KeyboardInterrupt) else 1
            answer["error"] = self.failure(error)
        answer["outputs"] = self.outputs.items
        answer["truncated"] = self.outputs.truncated
        return to_json(answer), status

    def leave(self, error, answer):
        code = error.code
        if self.context:
            answer["error"] = self.failure(error)
        elif code is not None and not isinstance(code, int):
            sys.stderr.write("%s\n" % (code,))
            sys.stderr.flush()
        return 0 if code is None else code & 0xff if isinstance(code, int) else 1


def give_input(text):
    file = os.memfd_create("stdin")
    os.write(file, text.encode("utf-8", "surrogateescape")) if text else None
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    os.close(file)
    sys.stdin = io.open(0, "r", encoding="utf-8", errors="surrogateescape", closefd=False)


def prepare(request):
    for name, value in request.get("env", {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if request.get("cwd"):
        os.chdir(request["cwd"])
    if request.get("stdin") is not None:
        give_input(request["stdin"])


def write_all(fd, data):
    data = memoryview(data)
    while data:
        data = data[os.write(fd, data):]


def read_exactly(fd, size):
    data = bytearray()
    while len(data) < size:
        more = os.read(fd, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return bytes(data)


def read_request(wire):
    size, = struct.unpack("<I", read_exactly(wire, 4))
    return json.loads(read_exactly(wire, size).decode("utf-8", "replace"))


def answer_to(code, request):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        prepare(request)
    except OSError as error:
        return to_json({"value": None, "error": code.failure(error), "outputs": [], "truncated": False}), 1
    return code.run(request)


def finish_once():
    """What an interpreter does at its end, as far as somebody could see it."""
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    import atexit
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def rehearse():
    """Touches what a run will touch, while nobody waits: a page that a fork shares is copied at its first change."""
    Code().run(json.loads('{"code": "1", "result_max": 64}'))
    linecache.cache.clear()
    del builtins._


def be_child(wire):
    """Waits for what it shall be: a run, or a context, which the first request opens."""
    rehearse()
    code = Code()
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()  # otherwise all forks draw the same numbers
    request = read_request(wire)
    if "code" in request:
        body, status = answer_to(code, request)
        finish_once()
        write_all(wire, RECORD.pack(len(body), status) + body)
        # Dying is the parent's to order: it has looked by then who else must die.
        while os.read(wire, 1):
            pass
        os._exit(status)
    code.context = True
    problem = b""
    try:
        prepare(request)
        for name in request.get("imports", ()):
            __import__(name)
            top = name.partition(".")[0]
            code.names[top] = sys.modules[top]
    except BaseException as error:
        problem = cut("%s: %s" % (type(error).__name__, error), 1024).encode("utf-8", "replace")
    write_all(wire, RECORD.pack(len(problem), 1 if problem else 0) + problem)
    if problem:
        os._exit(1)
    while True:
        try:
            body, status = answer_to(code, read_request(wire))
            write_all(wire, RECORD.pack(len(body), status) + body)
        except KeyboardInterrupt:  # it came as the run ended; the answer says so
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            body = plain_answer("KeyboardInterrupt", "")
            write_all(wire, RECORD.pack(len(body), 130) + body)


def plain_answer(name, value):
    error = {"name": name, "value": value, "traceback": "%s: %s\n" % (name, value) if value else name + "\n"}
    return to_json({"value": None, "outputs": [], "truncated": False, "error": error})
