"""The terminal of an interactive sandbox, as a browser uses it."""

import json

from sandboxer_case import SandboxerCase
from harness import main, wait_for
from websocket import Refused, WebSocket

BINARY, TEXT = 2, 1
LOOKED_BACK = 1 << 17  # more than a message, and what may stand before it


class Terminal(SandboxerCase):
    def attach(self, box, **headers):
        socket = WebSocket(self.server, self.at(box, "attach"), headers)
        self.addCleanup(socket.hang_up)
        return socket

    def refused(self, path, status, **headers):
        with self.assertRaises(Refused) as seen:
            WebSocket(self.server, path, headers)
        self.assertEqual(seen.exception.status, status)

    @staticmethod
    def read_until(socket, text):
        """Everything up to and with a text."""
        seen = bytearray()
        while seen.find(text, max(0, len(seen) - LOOKED_BACK)) < 0:
            opcode, _, payload = socket.read_frame()
            assert opcode == BINARY, (opcode, payload)
            seen += payload
        return bytes(seen)

    def shell(self):
        return self.make(interactive=True, args=["sh"])

    # --- what must not work

    def test_refusals_come_before_the_handshake(self):
        box, plain = self.shell(), self.make()
        self.refused("/sandboxes/" + "0" * 64 + "/attach", 403)
        self.refused(self.at(plain, "attach"), 403)
        self.refused(self.at(box, "attach"), 401, Authorization="")
        other = self.tenant("somebody")
        self.refused(self.at(box, "attach"), 403, Authorization=f"Bearer {other}")
        self.refused(self.at(box, "attach"), 403, Origin="http://evil.example")
        self.good("DELETE", self.at(box))
        self.refused(self.at(box, "attach"), 403)

    def test_a_plain_request_is_not_found(self):
        self.detail(self.ask("GET", self.at(self.shell(), "attach")), 404, "Not Found")

    def test_a_text_that_is_no_control_changes_nothing(self):
        box = self.shell()
        socket = self.attach(box)
        for text in (b"hello", b"{", b'{"type":"resize"}', b'{"type":"resize","cols":0,"rows":-1}', b"[]",
                     b'{"type":"resize","cols":99999999,"rows":1}'):
            socket.frame(TEXT, text)
        socket.frame(BINARY, b"stty size\n")
        self.read_until(socket, b"24 80\r\n")

    # --- what works

    def test_what_is_typed_is_run(self):
        box = self.shell()
        socket = self.attach(box)
        socket.frame(BINARY, b"echo $((6*7)); tty\n")
        self.assertIn(b"42\r\n", self.read_until(socket, b"/dev/pts/"))

    def test_the_window_has_a_size_and_can_be_resized(self):
        box = self.shell()
        socket = self.attach(box)
        socket.frame(BINARY, b"stty size\n")
        self.read_until(socket, b"24 80\r\n")
        socket.frame(TEXT, json.dumps({"type": "resize", "cols": 132, "rows": 43}).encode())
        socket.frame(BINARY, b"stty size\n")
        self.read_until(socket, b"43 132\r\n")

    def test_all_who_look_on_see_the_same(self):
        box = self.shell()
        first, second = self.attach(box), self.attach(box)
        first.frame(BINARY, b"echo from-the-$((1))st\n")
        self.read_until(first, b"from-the-1st")
        self.read_until(second, b"from-the-1st")
        second.frame(BINARY, b"echo from-the-$((2))nd\n")
        self.read_until(first, b"from-the-2nd")

    def test_leaving_and_coming_back_leaves_no_trace(self):
        box = self.shell()
        for number in range(3):
            socket = self.attach(box)
            socket.frame(BINARY, b"echo back-$((%d+1))\n" % number)
            seen = self.read_until(socket, b"back-%d\r\n" % (number + 1))
            self.assertNotIn(b"\x10", seen)
            self.assertNotIn(b"not found", seen)
            # Nothing of earlier is shown again.
            self.assertNotIn(b"back-%d\r\n" % number, seen)
            socket.hang_up()
        self.assertEqual(self.show(box)["status"], "running")

    def test_a_program_that_draws_is_left_with_control_c(self):
        box = self.shell()
        socket = self.attach(box)
        socket.frame(BINARY, b"echo ready-$((1)); cat; echo left-$((1))\n")
        self.read_until(socket, b"ready-1\r\n")
        socket.frame(BINARY, b"typed\n")
        self.read_until(socket, b"typed\r\ntyped\r\n")
        socket.frame(BINARY, b"\x04")
        self.read_until(socket, b"left-1")
        socket.frame(BINARY, b"sleep 1000\n")
        wait_for(lambda: "sleep 1000" in self.run_one(box, "ps | grep '[s]leep 1000'")[0], "a program in the terminal")
        socket.frame(BINARY, b"\x03")
        self.read_until(socket, b"^C")
        socket.frame(BINARY, b"echo free-$((1))\n")
        self.read_until(socket, b"free-1\r\n")

    def test_the_end_of_the_shell_is_a_normal_close(self):
        box = self.shell()
        socket = self.attach(box)
        socket.frame(BINARY, b"exit 5\n")
        while True:
            opcode, _, payload = socket.read_frame()
            if opcode == 8:
                break
        self.assertEqual(int.from_bytes(payload[:2], "big"), 1000)
        self.assertEqual(self.until_status(box, "terminated")["delete_reason"], "container_stopped")

    def test_one_that_reads_nothing_is_dropped_and_holds_up_nobody(self):
        box = self.shell()
        slow, quick = self.attach(box), self.attach(box)
        quick.frame(BINARY, b"stty -echo; yes a line that is long enough to fill much | head -c 8000000; echo all-$((1))\n")
        seen = self.read_until(quick, b"all-1\r\n")
        self.assertGreater(len(seen), 8000000)
        # What was on the way to the other is there; then it is told.
        while True:
            opcode, _, payload = slow.read_frame()
            if opcode == 8:
                break
        self.assertEqual(int.from_bytes(payload[:2], "big"), 1013)

    def test_nobody_looks_on_and_nothing_is_held_up(self):
        box = self.make(interactive=True, args=["sh", "-c", "yes | head -c 2000000; touch /done; exec sleep 100000"])
        wait_for(lambda: self.run_one(box, "ls /done")[2] == 0, "the end of the noise")


if __name__ == "__main__":
    main()
