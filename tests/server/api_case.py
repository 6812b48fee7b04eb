"""What the tests of the API have in common: one server a class, and short words for calls and refusals."""

import unittest

from harness import Server, path_of


class ApiCase(unittest.TestCase):
    """One server for all tests of a class; each test makes sandboxes of its own."""

    flags = ("--open",)
    config = None
    env = {}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags, config=cls.config, env=cls.env)
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def create(self, **wish):
        box = self.server.create(**wish)
        self.addCleanup(self.server.delete, path_of(box))
        return box

    def tool(self, box, name, **arguments):
        return self.server.post(path_of(box, "tools/execute"), {"tool": name, "arguments": arguments})

    def result(self, box, name, **arguments):
        answer = self.tool(box, name, **arguments)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual((answer.json["tool"], answer.json["success"]), (name, True))
        return answer.json["result"]

    def refused(self, answer, status, code, field=None):
        self.assertEqual(answer.status, status, answer.body)
        error = answer.json["error"]
        self.assertEqual(error["code"], code, error)
        self.assertEqual(error["request_id"], answer.headers["X-Request-Id"])
        self.assertNotEqual(error["message"], "")
        if field:
            self.assertEqual(error["details"].get("field"), field, error)
