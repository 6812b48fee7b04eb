"""What agentbox's own tests ask of a server: the same seventeen things, in words of our own."""

from agentbox_case import AgentboxCase, Api, main


class Suite(AgentboxCase):
    def setUp(self):
        """A channel and a session for each, as its fixtures have it."""
        self.api = Api(self.server.grpc)
        self.addCleanup(self.api.close)
        self.first = self.info()
        self.session_id = self.first.session_id

    def test_create_session_with_defaults(self):
        self.assertTrue(self.first.session_id)
        self.assertTrue(self.first.container_id)
        self.assertIn("pypi.org", self.first.allowed_hosts)

    def test_create_session_with_custom_hosts(self):
        self.assertEqual(list(self.info(allowed_hosts=["example.com"]).allowed_hosts), ["example.com"])

    def test_create_session_empty_hosts_uses_defaults(self):
        self.assertIn("pypi.org", self.info(allowed_hosts=[]).allowed_hosts)

    def test_destroy_session(self):
        self.assertIs(self.api.DestroySession(session_id=self.session()).success, True)

    def test_list_sessions(self):
        self.assertIn(self.session_id, [one.session_id for one in self.api.ListSessions().sessions])

    def test_get_session(self):
        found = self.api.GetSession(session_id=self.session_id).session
        self.assertEqual((found.session_id, found.container_id), (self.session_id, self.first.container_id))

    def test_exec_simple_command(self):
        self.assertEqual(self.says(self.session_id, "echo hello").strip(), "hello")

    def test_exec_python(self):
        self.assertEqual(self.says(self.session_id, "python3 -c 'print(1 + 1)'").strip(), "2")

    def test_exec_with_stderr(self):
        done = self.execute(self.session_id, "python3 -c 'import sys; print(\"error\", file=sys.stderr)'")
        self.assertEqual(done.exit_code, 0)
        self.assertIn("error", done.stderr)

    def test_exec_nonzero_exit(self):
        self.assertEqual(self.execute(self.session_id, "exit 42").exit_code, 42)

    def test_exec_workdir(self):
        self.assertEqual(self.says(self.session_id, "pwd", workdir="/tmp").strip(), "/tmp")

    def test_write_and_read_file(self):
        self.assertTrue(self.api.WriteFile(session_id=self.session_id, path="test.txt", content="some text").success)
        read = self.api.ReadFile(session_id=self.session_id, path="test.txt")
        self.assertEqual((read.success, read.content), (True, "some text"))

    def test_append_file(self):
        self.api.WriteFile(session_id=self.session_id, path="log", content="line1\n", mode="w")
        self.api.WriteFile(session_id=self.session_id, path="log", content="line2\n", mode="a")
        self.assertEqual(self.api.ReadFile(session_id=self.session_id, path="log").content, "line1\nline2\n")

    def test_write_python_and_execute(self):
        self.api.WriteFile(session_id=self.session_id, path="script.py", content="print('from a file')\n")
        self.assertEqual(self.says(self.session_id, "python3 script.py"), "from a file\n")

    def test_read_nonexistent_file(self):
        read = self.api.ReadFile(session_id=self.session_id, path="none.txt")
        self.assertFalse(read.success)
        self.assertTrue(read.error)

    def test_workspace_is_writable(self):
        self.assertEqual(self.says(self.session_id, "touch /workspace/test && echo ok").strip(), "ok")

    def test_python_available(self):
        self.assertIn("Python 3", self.says(self.session_id, "python3 --version"))


if __name__ == "__main__":
    main()
