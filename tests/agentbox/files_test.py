"""WriteFile and ReadFile: the table of their answers, byte for byte, and where they do not reach."""

from agentbox_case import MESSAGE_BYTES_MAX, AgentboxCase, main

NOT_ALLOWED = "Path not allowed"


class FilesCase(AgentboxCase):
    def setUp(self):
        self.session_id = self.session()

    def write(self, path, content="", mode="", session=None):
        """None, or the error."""
        done = self.api.WriteFile(session_id=self.session_id if session is None else session, path=path, content=content,
                                  mode=mode)
        self.assertEqual(done.success, not done.HasField("error"), done)
        return None if done.success else done.error

    def read(self, path, session=None):
        """(content, error); one of them is None."""
        done = self.api.ReadFile(session_id=self.session_id if session is None else session, path=path)
        self.assertEqual((done.success, done.HasField("content"), done.HasField("error")),
                         (True, True, False) if done.success else (False, False, True), done)
        return (done.content, None) if done.success else (None, done.error)

    def check(self, path, content):
        self.assertEqual(self.read(path), (content, None))


class Works(FilesCase):
    def test_replace_and_append(self):
        self.assertIsNone(self.write("a", "one"))
        self.check("a", "one")
        self.assertIsNone(self.write("a", "two", "w"))
        self.check("/workspace/a", "two")
        for mode in ("a", "x", "anything", "W", "wb", " w"):
            self.assertIsNone(self.write("a", "+", mode))
        self.check("a", "two++++++")
        self.assertIsNone(self.write("fresh", "made", "a"))
        self.check("fresh", "made")

    def test_empty(self):
        self.assertIsNone(self.write("empty", ""))
        self.check("empty", "")
        self.assertIsNone(self.write("empty", "", "a"))
        self.check("empty", "")

    def test_bytes_are_as_they_were(self):
        text = "a\r\nb\rc\n\0\u2028é€😀\ufeff\x7f\u0085"
        self.assertIsNone(self.write("odd", text))
        self.check("odd", text)
        out = self.says(self.session_id, "od -An -tx1 -v odd | tr -d ' \\n'")
        self.assertEqual(bytes.fromhex(out), text.encode())

    def test_parents_are_made_and_belong_to_root(self):
        self.assertIsNone(self.write("x/y/z", "deep"))
        self.check("x/y/z", "deep")
        self.assertEqual(self.says(self.session_id, "stat -c '%a %u %g' x/y/z"), "644 0 0\n")
        self.assertEqual(self.says(self.session_id, "stat -c '%F %u' x x/y"), "directory 0\n" * 2)

    def test_the_allowed_trees(self):
        self.assertIsNone(self.write("/mnt/user-data/outputs/r/a", "o"))
        self.check("/mnt/user-data/outputs/r/a", "o")
        self.assertEqual(self.says(self.session_id, "cat /mnt/user-data/outputs/r/a"), "o")
        self.says(self.session_id, "echo up > /mnt/user-data/uploads/u; echo mid > /mnt/user-data/m")
        self.check("/mnt/user-data/uploads/u", "up\n")
        self.check("/mnt/user-data/m", "mid\n")

    def test_dots_and_links_within(self):
        self.assertIsNone(self.write("d/../e/./f", "x"))
        self.check("/workspace/e/f", "x")
        self.says(self.session_id, "ln -s e/f link; ln -s /workspace/e folder; ln -s /mnt/user-data/outputs out; "
                           "ln -s new dangling")
        self.check("link", "x")
        self.check("folder/f", "x")
        self.assertIsNone(self.write("link", "through"))
        self.check("e/f", "through")
        self.assertIsNone(self.write("out/o", "other tree"))
        self.check("/mnt/user-data/outputs/o", "other tree")
        self.assertIsNone(self.write("dangling", "made"))
        self.check("new", "made")
        self.check("../workspace/e/f", "through")

    def test_as_large_as_a_message(self):
        for content in ("x" * (MESSAGE_BYTES_MAX - 10_000), "\n" * 600_000, "x" * 1_100_000):
            self.assertIsNone(self.write("large", content))
            self.check("large", content)
            self.assertEqual(self.says(self.session_id, "wc -c < large").strip(), str(len(content)))

    def test_odd_names(self):
        for name in ("with blank", "quote'\"", "-rf", "ünï", "new\nline", "*", "a" * 255, "...", "\\"):
            self.assertIsNone(self.write(f"odd/{name}", name), name)
            self.check(f"odd/{name}", name)


class Refused(FilesCase):
    def test_unknown_session(self):
        for session in ("nope", "", "x" * 5000):
            self.assertEqual(self.write("a", "x", session=session), "Session not found")
            self.assertEqual(self.read("a", session=session), (None, "Session not found"))

    def test_empty_path(self):
        self.assertEqual(self.write("", "x"), "Missing 'path' or 'content' field")
        self.assertEqual(self.read(""), (None, "Missing 'path' field"))

    def test_outside(self):
        self.says(self.session_id, "ln -s /etc etc; ln -s /tmp/new into_tmp; ln -s / root; ln -s ../etc/passwd up; "
                           "mkdir -p /workspace-evil /mnt/user-data/outputs2; echo x > /workspace-evil/x")
        outside = ("/etc/passwd", "/tmp/x", "/", "/workspace-evil/x", "../etc/passwd", "/workspace/../etc/passwd",
                   "etc/passwd", "into_tmp", "root/etc/passwd", "up", "a/../../etc/passwd", "//etc/passwd",
                   "/workspace/./../tmp/x", "/proc/self/environ", "/proc/1/root/workspace/../etc/passwd",
                   "/workspacex", "/mnt", "/mnt/user-data2/x")
        for path in outside:
            self.assertEqual(self.write(path, "x"), NOT_ALLOWED, path)
            self.assertEqual(self.read(path), (None, NOT_ALLOWED), path)
        for path in ("/mnt/user-data/outputs2/x", "/mnt/user-data/uploads/x", "/mnt/user-data/x", "/mnt/user-data"):
            self.assertEqual(self.write(path, "x"), NOT_ALLOWED, path)
        self.assertFalse(self.exists(self.session_id, "/tmp/x"))
        self.assertFalse(self.exists(self.session_id, "/tmp/new"))
        self.assertEqual(self.says(self.session_id, "cat /workspace-evil/x"), "x\n")

    def test_no_such_file(self):
        for path in ("none", "no/such/folder", "/workspace/none", "/mnt/user-data/none"):
            self.assertEqual(self.read(path), (None, "File not found"), path)
        self.says(self.session_id, "ln -s nowhere dangling")
        self.assertEqual(self.read("dangling"), (None, "File not found"))

    def test_a_directory(self):
        self.says(self.session_id, "mkdir d; ln -s d to_d")
        for path in ("d", "/workspace/d", "to_d", "d/"):
            wanted = "[Errno 21] Is a directory: '/workspace/d'"
            self.assertEqual(self.write(path, "x"), wanted, path)
            self.assertEqual(self.read(path), (None, wanted), path)
        self.assertEqual(self.read("."), (None, "[Errno 21] Is a directory: '/workspace'"))
        self.assertEqual(self.read("/mnt/user-data"), (None, "[Errno 21] Is a directory: '/mnt/user-data'"))

    def test_a_parent_that_is_a_file(self):
        self.assertIsNone(self.write("f", "x"))
        self.assertEqual(self.write("f/x", "y"), "[Errno 17] File exists: '/workspace/f'")
        self.assertEqual(self.read("f/x"), (None, "[Errno 20] Not a directory: '/workspace/f/x'"))

    def test_a_loop_of_links(self):
        self.says(self.session_id, "ln -s loop loop")
        wanted = "[Errno 40] Too many levels of symbolic links: '/workspace/loop'"
        self.assertEqual(self.read("loop"), (None, wanted))
        self.assertEqual(self.write("loop", "x"), wanted)

    def test_other_errors_have_number_text_and_path(self):
        name = "n" * 256
        self.assertEqual(self.read(name), (None, f"[Errno 36] File name too long: '/workspace/{name}'"))
        self.assertEqual(self.write(name, "x"), f"[Errno 36] File name too long: '/workspace/{name}'")

    def test_not_utf8(self):
        for octal, words in ((r"\377", "byte 0xff in position 0: invalid start byte"),
                             (r"ab\377", "byte 0xff in position 2: invalid start byte"),
                             (r"a\303(", "byte 0xc3 in position 1: invalid continuation byte"),
                             (r"a\303", "byte 0xc3 in position 1: unexpected end of data"),
                             (r"\342\202", "bytes in position 0-1: unexpected end of data")):
            self.says(self.session_id, f"printf '{octal}' > broken")
            self.assertEqual(self.read("broken"), (None, f"'utf-8' codec can't decode {words}"), octal)

    def test_only_regular_files(self):
        self.says(self.session_id, "mkfifo fifo")
        self.assertEqual(self.read("fifo"), (None, "Not a regular file"))
        self.assertIsNotNone(self.write("fifo", "x"))
        self.assertEqual(self.says(self.session_id, "echo alive"), "alive\n")

    def test_too_large_to_read(self):
        self.says(self.session_id, "head -c 6000000 /dev/zero > large")
        content, error = self.read("large")
        self.assertIsNone(content)
        self.assertIn("6000000", error)

    def test_nul_in_a_path(self):
        self.assertIsNotNone(self.write("a\0b", "x"))
        self.assertIsNotNone(self.read("a\0b")[1])

    def test_a_link_that_changes_while_it_is_asked_for(self):
        """Judged and opened in one step: whatever the guest does with the name in between, nothing outside is read."""
        self.says(self.session_id, "echo inside > good; (while :; do ln -sfn good l; ln -sfn /etc/passwd l; done) "
                           "</dev/null >/dev/null 2>&1 &")
        for _ in range(300):
            content, error = self.read("l")
            # A link where a file was a moment ago is not followed: "Too many levels" is what that is called.
            if error and error.startswith("[Errno 40]"):
                error = NOT_ALLOWED
            self.assertIn((content, error), (("inside\n", None), (None, NOT_ALLOWED), (None, "File not found")))


if __name__ == "__main__":
    main()
