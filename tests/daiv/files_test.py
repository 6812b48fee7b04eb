"""The seven file operations: codes, words and borders of the original, without its holes."""

import base64

from daiv_case import REPO, DaivCase, packed
from harness import main

LIMIT = 512_000
MARKER = ("\n\n[Output truncated: exceeded the 512000-byte read limit. Continue with a larger offset or smaller limit to "
          "read the rest.]")


class Files(DaivCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()

    def setUp(self):
        self.open = self.session()

    def write(self, path, content, **more):
        answer = self.fs(self.open, "write", path=path, content=packed(content), **more)
        self.assertEqual(answer, {"error": None, "ok": True})
        return path

    def read(self, path, **more):
        return self.fs(self.open, "read", path=path, **more)

    def test_write_and_its_owner(self):
        self.write(f"{REPO}/new/er/f", b"hi\n")
        self.assertEqual(self.run_one(self.open, "cat new/er/f; stat -c %u:%g:%a new/er/f new/er")[0],
                         "hi\n1000:1000:644\n1000:1000:755\n")
        self.write(f"{REPO}/x", b"", mode=0o700)
        self.write(f"{REPO}/y", b"", mode=0o600)
        self.assertEqual(self.run_one(self.open, "stat -c %a x y")[0], "755\n644\n")
        self.fs_error(self.open, "write", "already_exists",
                      f"Cannot write to {REPO}/x because it already exists. Read and then make an edit, or write to a "
                      "new path.", path=f"{REPO}/x", content="")
        self.fs_error(self.open, "write", "exec_failed", path=f"{REPO}/x/below", content="")
        self.write("/workspace/tmp/t", b"t")
        self.write("/workspace/skills/s", b"s")

    def test_the_path_is_judged_before_the_session(self):
        for path, message in (("relative", "path must be absolute, got: 'relative'"),
                              ("/workspace/../etc", "path must not contain '..' segments: '/workspace/../etc'"),
                              ("/etc/passwd", "path must be under one of ('/workspace',), got: '/etc/passwd'"),
                              ("/workspace", "path must not equal a reserved root: '/workspace'"),
                              ("/workspace/a\nb", "path must not contain NUL or newline characters: '/workspace/a\\nb'")):
            self.fs_error("ab" * 32, "read", "invalid_path", path=path)
        self.fs_error(self.open, "read", "invalid_path", "path must not equal a reserved root: '/workspace'", path="/workspace")
        self.assertEqual(self.call("POST", f"/session/{'ab' * 32}/fs/read", {"path": "/workspace/x"}).status, 404)

    def test_ls(self):
        self.run_one(self.open, "mkdir d .h; touch f 'n:a' 'new\nline'; ln -s d l; ln -s none z; chmod 000 .h")
        answer = self.fs(self.open, "ls", path=f"{REPO}/")
        self.assertEqual([(one["path"].removeprefix(f"{REPO}/"), one["is_dir"]) for one in answer["entries"]],
                         [(".h", True), ("d", True), ("f", False), ("l", False), ("n:a", False), ("new\nline", False),
                          ("z", False)])
        self.assertEqual(list(answer), ["entries", "error"])
        self.fs_error(self.open, "ls", "not_found", f"No such directory: {REPO}/no", path=f"{REPO}/no")
        self.fs_error(self.open, "ls", "not_a_directory", f"Not a directory: {REPO}/f", path=f"{REPO}/f")
        self.fs_error(self.open, "ls", "permission_denied", f"Permission denied: {REPO}/.h", path=f"{REPO}/.h")
        self.assertEqual([one["path"] for one in self.fs(self.open, "ls", path="/workspace")["entries"]],
                         ["/workspace/repo", "/workspace/skills", "/workspace/tmp"])

    def test_read_a_window(self):
        path = self.write(f"{REPO}/f", b"".join(b"line %d\n" % n for n in range(250)))
        self.assertEqual(self.read(path, offset=100, limit=2), {
            "content": "line 100\nline 101", "encoding": "utf-8", "total_lines": 250, "end_line": 102,
            "truncated": False, "error": None})
        self.fs_error(self.open, "read", "invalid_offset", "Line offset 250 exceeds file length (250 lines)",
                      path=path, offset=250)
        crlf = self.write(f"{REPO}/c", "a\r\nb\rc\x0bd\x0ce\x1cf\x85g\u2028h\n".encode())
        self.assertEqual(self.read(crlf)["content"], "a\nb\nc\nd\ne\nf\ng\nh")

    def test_read_borders(self):
        exact = self.write(f"{REPO}/e", b"x" * LIMIT)
        self.assertEqual((len(self.read(exact)["content"]), self.read(exact)["truncated"]), (LIMIT, False))
        more = self.write(f"{REPO}/m", "é".encode() * (LIMIT // 2) + b"y")
        answer = self.read(more)
        self.assertTrue(answer["truncated"])
        self.assertTrue(answer["content"].endswith(MARKER))
        self.assertLessEqual(len(answer["content"].encode()), LIMIT)
        self.assertEqual(self.read(self.write(f"{REPO}/empty", b""))["content"],
                         "System reminder: File exists but has empty contents")
        binary = self.write(f"{REPO}/b", b"\xff\x00\x01")
        answer = self.read(binary, offset=5)
        self.assertEqual((answer["encoding"], base64.b64decode(answer["content"])), ("base64", b"\xff\x00\x01"))
        self.fs_error(self.open, "read", "too_large", path=self.write(f"{REPO}/bb", b"\xff" * (LIMIT + 1)))

    def test_read_what_is_no_file(self):
        self.run_one(self.open, "mkdir d; mkfifo p; ln -s f l; ln -s /etc/passwd out; echo x > f; echo s > closed; chmod 0 closed")
        self.fs_error(self.open, "read", "is_a_directory", f"Is a directory: {REPO}/d (use fs/ls to list it)", path=f"{REPO}/d")
        self.fs_error(self.open, "read", "not_found", f"No such file: {REPO}/no", path=f"{REPO}/no")
        self.fs_error(self.open, "read", "not_found", path=f"{REPO}/p")
        self.assertEqual(self.read(f"{REPO}/l")["content"], "x")
        self.assertIn(self.read(f"{REPO}/closed")["error"]["code"], ("permission_denied", "not_found"))

    def test_nothing_is_read_or_written_as_root(self):
        self.run_one(self.open, "ln -s /etc etc; ln -s /etc/shadow s; ln -s /root r")
        self.assertIsNotNone(self.read(f"{REPO}/s")["error"])
        self.assertIsNotNone(self.read(f"{REPO}/etc/shadow")["error"])
        self.assertIsNotNone(self.fs(self.open, "edit", path=f"{REPO}/etc/passwd", old="root", new="toor")["error"])
        self.assertIsNotNone(self.fs(self.open, "write", path=f"{REPO}/etc/new", content="")["error"])
        self.assertIsNotNone(self.fs(self.open, "delete", path=f"{REPO}/etc/passwd")["error"])
        self.assertEqual(self.run_one(self.open, "test -s /etc/passwd && ! test -e /etc/new && echo same")[0], "same\n")

    def test_edit(self):
        path = self.write(f"{REPO}/f", b"one two two\r\nthree\n", mode=0o755)
        self.assertEqual(self.fs(self.open, "edit", path=path, old="one", new="1"), {"occurrences": 1, "error": None})
        self.fs_error(self.open, "edit", "multiple_occurrences",
                      "String appears 2 times in file. Use replace_all=True to replace all instances, or provide a more "
                      "specific string with surrounding context.", path=path, old="two", new="2")
        self.assertEqual(self.fs(self.open, "edit", path=path, old="two", new="2", replace_all=True)["occurrences"], 2)
        self.assertEqual(self.fs(self.open, "edit", path=path, old="2\nthree", new="2\n3")["occurrences"], 1)
        self.assertEqual(self.run_one(self.open, "cat f; stat -c %a f")[0], "1 2 2\r\n3\n755\n")
        self.fs_error(self.open, "edit", "string_not_found", "string_not_found", path=path, old="zzz", new="")
        last = self.write(f"{REPO}/last", b"a\nb")
        self.fs_error(self.open, "edit", "string_not_found",
                      "old_string ends with a newline, but the file does not end with a newline. Retry with the trailing "
                      "newline removed from old_string (and from new_string if it also ends with a newline).",
                      path=last, old="b\n", new="c\n")
        self.fs_error(self.open, "edit", "not_a_text_file", path=self.write(f"{REPO}/bin", b"\xff"), old="a", new="b")
        self.fs_error(self.open, "edit", "is_a_directory", f"Is a directory: {REPO}", path=f"{REPO}", old="a", new="b")

    def test_an_edit_is_seen_by_python_and_make(self):
        path = self.write(f"{REPO}/m.py", b"X = 1\n")
        # Python looks at whole seconds: an edit within the same one is not for it to see.
        self.assertEqual(self.run_one(self.open, "touch -d '1 hour ago' m.py; python3 -c 'import m; print(m.X)'")[0], "1\n")
        self.fs(self.open, "edit", path=path, old="1", new="2")
        self.assertEqual(self.run_one(self.open, "test $(stat -c %Y m.py) -gt 1000000000; python3 -B -c 'import m; print(m.X)'")[0], "2\n")

    def test_delete(self):
        self.run_one(self.open, "mkdir d; touch f; mkfifo p; ln -s none dangling; ln -s d ld; ln -s f lf")
        for name in ("f", "p", "dangling", "lf"):
            self.assertEqual(self.fs(self.open, "delete", path=f"{REPO}/{name}"), {"removed": True, "error": None, "ok": True})
        self.assertEqual(self.fs(self.open, "delete", path=f"{REPO}/f"), {"removed": False, "error": None, "ok": True})
        for name in ("d", "ld"):
            self.fs_error(self.open, "delete", "is_a_directory", f"Is a directory: {REPO}/{name}", path=f"{REPO}/{name}")

    def test_glob(self):
        self.run_one(self.open, "mkdir -p a/b/c .git node_modules x.egg-info; touch top.py a/m.py a/b/n.py a/b/c/o.txt "
                                ".git/g.py node_modules/q.py x.egg-info/e.py .dot.py 'a/[x].py'")
        found = lambda pattern, path=REPO, **more: [
            one["path"].removeprefix(f"{path}/") for one in self.fs(self.open, "glob", pattern=pattern, path=path, **more)["matches"]]
        self.assertEqual(found("*.py"), [".dot.py", "top.py"])
        self.assertEqual(found("**/*.py"), [".dot.py", "a/[x].py", "a/b/n.py", "a/m.py", "node_modules/q.py", "top.py"])
        self.assertEqual(found("a/**"), ["a/[x].py", "a/b", "a/b/c", "a/b/c/o.txt", "a/b/n.py", "a/m.py"])
        self.assertEqual(found("**/*.py", exclude=["node_modules"]), [".dot.py", "a/[x].py", "a/b/n.py", "a/m.py", "top.py"])
        self.assertEqual(found("a/[!m].py"), [])
        self.assertEqual(found("a/[m].py"), ["a/m.py"])
        self.assertEqual(found("a/[[]x].py"), ["a/[x].py"])
        self.assertEqual(found("*.py", path=f"{REPO}/.git"), ["g.py"])
        for none in ("/top.py", "./top.py", "top.py/", "", "*.PY"):
            self.assertEqual(found(none), [], none)
        self.fs_error(self.open, "glob", "not_found", pattern="*", path=f"{REPO}/no")
        self.fs_error(self.open, "glob", "not_a_directory", pattern="*", path=f"{REPO}/top.py")

    def test_grep(self):
        self.run_one(self.open, "mkdir -p a .git node_modules; printf 'import os\\nx\\nimport re\\n' > a/m.py; "
                                "echo 'import no' > .git/g; echo 'import q' > node_modules/q.js; printf '\\0import' > bin; "
                                "echo '-import' > 'n:1:x'; ln -s a/m.py link")
        found = lambda pattern, path=REPO, **more: {
            (one["path"].removeprefix(f"{REPO}/"), one["line"], one["text"])
            for one in self.fs(self.open, "grep", pattern=pattern, path=path, **more)["matches"]}
        self.assertEqual(found("^import (os|re)$"), {("a/m.py", 1, "import os"), ("a/m.py", 3, "import re")})
        self.assertEqual(found("import", glob="*.js"), {("node_modules/q.js", 1, "import q")})
        self.assertEqual(found("import", exclude=["node_modules", "a"]), {("n:1:x", 1, "-import")})
        self.assertEqual(found("-import"), {("n:1:x", 1, "-import")})
        self.assertEqual(found("x", path=f"{REPO}/a/m.py"), {("a/m.py", 2, "x")})
        self.assertEqual(found("IMPORT"), set())
        self.fs_error(self.open, "grep", "invalid_pattern", "invalid regular expression: '('", pattern="(", path=REPO)
        self.fs_error(self.open, "grep", "not_found", f"No such path: {REPO}/no", pattern="x", path=f"{REPO}/no")
        self.run_one(self.open, "echo import > shut; chmod 000 shut")
        self.fs_error(self.open, "grep", "exec_failed", pattern="import", path=REPO)

    def test_grep_counts_exactly(self):
        self.run_one(self.open, "seq 200 > f")
        answer = self.fs(self.open, "grep", pattern="^", path=REPO)
        self.assertEqual((len(answer["matches"]), answer["truncated"]), (200, False))
        self.run_one(self.open, "seq 201 > f")
        answer = self.fs(self.open, "grep", pattern="^", path=REPO)
        self.assertEqual((len(answer["matches"]), answer["truncated"]), (200, True))

    def test_hostile_patterns_end(self):
        self.run_one(self.open, "head -c 2000 /dev/zero | tr '\\0' a > f")
        for pattern in ("(a*)*$b", "((a{1,200}){1,200}){1,200}", "(" * 5000, "a{999999}", "\\"):
            answer = self.call("POST", f"/session/{self.open}/fs/grep", {"pattern": pattern, "path": REPO})
            self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(self.run_one(self.open, "echo alive")[0], "alive\n")


if __name__ == "__main__":
    main()
