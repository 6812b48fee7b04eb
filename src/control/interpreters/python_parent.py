

# The second half of the interpreter's program: python_run.py stands before it.

class Stream:
    """One of a child's two outputs: either its head and tail are kept, or it goes on as far as there is credit."""

    def __init__(self, number):
        self.number = number
        self.fd = -1
        self.polled = False
        self.begin(0, 0)

    def begin(self, limit, credit):
        self.limit = limit
        self.credit = credit
        self.head = limit // 2
        self.tail = bytearray()
        self.lost = 0

    def take(self, parent, run, data):
        if not self.limit:
            self.credit -= len(data)
            parent.send(OUTPUT, self.number, run, data)
            return
        if self.head:
            first = data[:self.head]
            self.head -= len(first)
            parent.send(OUTPUT, self.number, run, first)
            data = data[len(first):]
        self.tail += data
        over = len(self.tail) - (self.limit - self.limit // 2)
        if over > 0 and over > len(self.tail) // 4:
            self.lost += over
            del self.tail[:over]

    def end(self, parent, run):
        over = len(self.tail) - (self.limit - self.limit // 2)
        if over > 0:
            self.lost += over
            del self.tail[:over]
        if self.tail:
            parent.send(OUTPUT, self.number, run, bytes(self.tail))
        self.tail = bytearray()


class Worker:
    def __init__(self):
        self.context = 0  # its number
        self.pid = 0
        self.run = 0
        self.wire = -1
        self.answer = bytearray()
        self.streams = (Stream(1), Stream(2))
        self.opening = False
        self.ended = None  # what waitpid said
        self.record = None  # exit status and body, when they are whole
        self.began = 0.0


class Parent:
    def __init__(self, config):
        # Nothing below may take the places of standard input and output for its own.
        self.inside = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64)
        self.outside = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 64)
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.close(null)
        adopt_orphans()
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        os.environ.setdefault("MPLBACKEND", "Agg")
        self.warnings = []
        sys.path[:] = _PATH
        for name in config.get("imports", ()):
            try:
                __import__(name)
            except BaseException as error:
                self.warnings.append(cut("%s: %s: %s" % (name, type(error).__name__, error), 512))
        sys.path[:] = [one for one in _PATH if one not in ("", ".")]
        if "warnings" in sys.modules:
            sys.modules["warnings"].filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
        self.held = bytearray()
        self.poll = select.poll()
        self.on = {}  # descriptor: what to do
        self.runs = {}
        self.contexts = {}
        self.pids = {}
        self.own = set(children_of(os.getpid()))
        self.spare = None  # a fork that waits for what it shall be
        self.sees_trees = PRCTL is not None and os.path.exists("/proc/self/task/%d/children" % os.getpid())
        wake, self.woken = os.pipe()
        self.wake = wake
        for fd in (wake, self.woken):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.watch(self.inside, self.hear)
        self.watch(wake, self.reap)

    def watch(self, fd, what):
        self.on[fd] = what
        self.poll.register(fd, select.POLLIN)

    def forget(self, fd):
        if self.on.pop(fd, None) is not None:
            self.poll.unregister(fd)

    def send(self, kind, stream, ident, payload=b""):
        for at in range(0, max(1, len(payload)), FRAME_MAX):
            piece = payload[at:at + FRAME_MAX]
            write_all(self.outside, HEAD.pack(len(piece), kind, stream, 0, ident) + piece)

    def say(self, kind, ident, value):
        self.send(kind, 0, ident, to_json(value))

    # --- what the server says

    def hear(self):
        data = os.read(self.inside, READ_MAX)
        if not data:
            os._exit(0)
        self.held += data
        while len(self.held) >= HEAD.size:
            size, kind, _, _, ident = HEAD.unpack_from(self.held)
            if len(self.held) < HEAD.size + size:
                return
            payload = bytes(self.held[HEAD.size:HEAD.size + size])
            del self.held[:HEAD.size + size]
            self.obey(kind, ident, payload)

    def obey(self, kind, ident, payload):
        if kind == RUN:
            request = json.loads(payload.decode("utf-8"))
            self.start(ident, request)
        elif kind == OPEN:
            self.open(ident, json.loads(payload.decode("utf-8")))
        elif kind == CLOSE:
            worker = self.contexts.get(ident)
            if worker is not None:
                self.end(worker)
        elif kind == CREDIT:
            worker = self.runs.get(ident)
            if worker is not None:
                for stream, more in zip(worker.streams, struct.unpack("<II", payload)):
                    stream.credit += more
                self.listen(worker)
                self.advance(worker)
        elif kind in (INTERRUPT, KILL):
            worker = self.runs.get(ident)
            if worker is not None and kind == KILL:
                self.end(worker)
            elif worker is not None and worker.record is None:
                try:
                    os.killpg(worker.pid, signal.SIGINT)
                except OSError:
                    pass

    def open(self, context, request):
        try:
            worker = self.take()
        except OSError as error:  # the sandbox's limit of processes, or of memory
            self.say(OPENED, context, {"error": str(error)})
            return
        worker.context = context
        worker.opening = True
        self.contexts[context] = worker
        self.tell(worker, request)

    def start(self, run, request):
        context = request.get("context", 0)
        done = {"exit_code": 1, "died": True, "out_lost": 0, "err_lost": 0, "us": 0}
        if not context:
            try:
                worker = self.take()
            except OSError as error:
                self.send(PART, 0, run, plain_answer("OSError", str(error)))
                self.say(DONE, run, dict(done, died=False))
                return
        else:
            worker = self.contexts.get(context)
            if worker is None or worker.ended is not None:
                self.say(DONE, run, done)
                return
            if worker.run or worker.opening:
                self.send(PART, 0, run, plain_answer("RuntimeError", "the context is busy"))
                self.say(DONE, run, dict(done, died=False))
                return
        worker.run = run
        worker.began = time.monotonic()
        self.runs[run] = worker
        for stream in worker.streams:
            stream.begin(request.get("limit", 0), request.get("credit", 0))
        self.listen(worker)
        self.tell(worker, request)

    def tell(self, worker, request):
        body = json.dumps(request).encode()
        try:
            write_all(worker.wire, struct.pack("<I", len(body)) + body)
        except OSError:
            self.end(worker)

    def take(self):
        worker, self.spare = self.spare, None
        return worker or self.fork()

    def refill(self):
        """Forked ahead, while nobody waits for it."""
        if self.spare is None:
            try:
                self.spare = self.fork()
            except OSError:
                pass

    def fork(self):
        worker = Worker()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        ours, theirs = (one.detach() for one in socket.socketpair())
        try:
            pid = os.fork()
        except OSError:
            for fd in (out, out_end, err, err_end, ours, theirs):
                os.close(fd)
            raise
        if pid == 0:
            try:
                os.setsid()
                adopt_orphans()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.dup2(out_end, 1)
                os.dup2(err_end, 2)
                for fd in [out, err, out_end, err_end, ours, self.inside, self.outside, self.wake, self.woken]:
                    os.close(fd)
                for other in self.pids.values():
                    for fd in (other.wire, other.streams[0].fd, other.streams[1].fd):
                        if fd >= 0:
                            os.close(fd)
                gc.enable()
                be_child(theirs)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)
        for fd in (out_end, err_end, theirs):
            os.close(fd)
        worker.pid = pid
        worker.wire = ours
        worker.streams[0].fd, worker.streams[1].fd = out, err
        for fd in (out, err):
            os.set_blocking(fd, False)
        self.pids[pid] = worker
        self.watch(ours, lambda: self.read_answer(worker))
        return worker

    # --- what the children say

    def listen(self, worker):
        """Outputs are read while there is somebody to hear them."""
        for stream in worker.streams:
            wants = stream.fd >= 0 and worker.run != 0 and (stream.limit > 0 or stream.credit > 0)
            if wants and not stream.polled:
                self.watch(stream.fd, lambda stream=stream: self.read_output(worker, stream))
            elif not wants and stream.polled:
                self.forget(stream.fd)
            stream.polled = wants

    def read_output(self, worker, stream):
        """Whether there was something."""
        most = READ_MAX if stream.limit else min(READ_MAX, stream.credit)
        if stream.fd < 0 or most <= 0:
            return False
        try:
            data = os.read(stream.fd, most)
        except OSError:
            return False
        if data:
            stream.take(self, worker.run, data)
        if not data or (not stream.limit and stream.credit <= 0):
            self.forget(stream.fd)
            stream.polled = False
        if not data:
            os.close(stream.fd)
            stream.fd = -1
        return bool(data)

    def read_answer(self, worker):
        try:
            data = os.read(worker.wire, READ_MAX)
        except OSError:
            data = b""
        if not data:
            self.forget(worker.wire)  # its end is told by its death
            return
        worker.answer += data
        if len(worker.answer) < RECORD.size:
            return
        size, status = RECORD.unpack_from(worker.answer)
        if size > ANSWER_MAX:
            self.end(worker)
            return
        if len(worker.answer) < RECORD.size + size:
            return
        body = bytes(worker.answer[RECORD.size:RECORD.size + size])
        worker.answer = bytearray()
        if worker.opening:
            worker.opening = False
            self.say(OPENED, worker.context, {"error": body.decode("utf-8", "replace") or None})
            return
        worker.record = (status, body)
        if worker.context:
            self.advance(worker)
        elif self.is_alone(worker.pid):
            # It adopts its orphans, so without a child there is nobody below it, and all that was written is there:
            # this can be told before it is dead.
            self.advance(worker)
            kill(worker.pid)
        else:
            self.end(worker)

    def is_alone(self, pid):
        try:
            return self.sees_trees and os.listdir("/proc/%d/task" % pid) == [str(pid)] and not children_of(pid)
        except OSError:
            return False

    def end(self, worker):
        """Kills it and what is left of its tree, and takes its end."""
        if worker.ended is None:
            try:
                os.killpg(worker.pid, signal.SIGKILL)
            except OSError:
                pass
            kill(worker.pid)
            try:
                _, worker.ended = os.waitpid(worker.pid, 0)
            except OSError:
                worker.ended = signal.SIGKILL
        self.gone(worker)

    def gone(self, worker):
        self.pids.pop(worker.pid, None)
        if worker is self.spare:
            self.spare = None
        self.sweep()
        if worker.context:
            self.contexts.pop(worker.context, None)
        if worker.wire >= 0:
            self.read_last_answer(worker)
            self.forget(worker.wire)
            os.close(worker.wire)
            worker.wire = -1
        self.advance(worker)

    def read_last_answer(self, worker):
        if worker.record is None and worker.run and not worker.context:
            os.set_blocking(worker.wire, False)
            for _ in range(ANSWER_MAX // READ_MAX):
                try:
                    data = os.read(worker.wire, READ_MAX)
                except OSError:
                    break
                if not data:
                    break
                worker.answer += data
            if len(worker.answer) >= RECORD.size:
                size, status = RECORD.unpack_from(worker.answer)
                if len(worker.answer) == RECORD.size + size:
                    worker.record = (status, bytes(worker.answer[RECORD.size:]))

    def sweep(self):
        """Every child that is no worker was left behind by one that has ended."""
        for _ in range(SWEEPS_MAX):
            left = [pid for pid in children_of(os.getpid()) if pid not in self.pids and pid not in self.own]
            if not left:
                return
            for pid in left:
                below = [pid]
                for one in below:
                    below += children_of(one)
                for one in below:
                    kill(one)
                try:
                    os.waitpid(pid, 0)
                except OSError:
                    pass

    def reap(self):
        try:
            os.read(self.wake, 4096)
        except OSError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            worker = self.pids.get(pid)
            if worker is not None:
                worker.ended = status
                try:
                    os.killpg(pid, signal.SIGKILL)
                except OSError:
                    pass
                self.gone(worker)

    def advance(self, worker):
        """Tells the end of a run when there is one, and everything it wrote is told."""
        if worker.run and (worker.record is not None or worker.ended is not None):
            for stream in worker.streams:
                for _ in range(32):  # its pipe is empty after that, whoever goes on writing
                    if not self.read_output(worker, stream):
                        break
                if not stream.limit and stream.credit <= 0 and stream.fd >= 0:
                    return  # there may be more; it is told when there is credit for it
            self.tell_end(worker)
        if worker.ended is not None and not worker.run:
            self.let_go(worker)

    def tell_end(self, worker):
        run, worker.run = worker.run, 0
        self.runs.pop(run, None)
        for stream in worker.streams:
            stream.end(self, run)
        done = {"us": int((time.monotonic() - worker.began) * 1e6),
                "out_lost": worker.streams[0].lost, "err_lost": worker.streams[1].lost}
        if worker.record is not None:
            done["exit_code"], body = worker.record
            done["died"] = False
            self.send(PART, 0, run, body)
        else:
            status = worker.ended or 0
            done["exit_code"] = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            done["died"] = True
        worker.record = None
        self.listen(worker)
        self.say(DONE, run, done)

    def let_go(self, worker):
        for stream in worker.streams:
            self.forget(stream.fd)
            if stream.fd >= 0:
                os.close(stream.fd)
            stream.fd = -1
        if worker.context:
            if worker.opening:
                worker.opening = False
                self.say(OPENED, worker.context, {"error": "it ended while it was opened"})
            self.say(CLOSED, worker.context, {})
            worker.context = 0

    def live(self):
        gc.collect()
        gc.freeze()
        gc.disable()
        self.refill()
        self.say(HELLO, 0, {"language": "python", "version": "%d.%d.%d" % sys.version_info[:3],
                            "warnings": self.warnings})
        while True:
            for fd, _ in self.poll.poll():
                what = self.on.get(fd)
                if what is not None:
                    what()
            self.refill()


if __name__ == "__main__":
    Parent(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}).live()
