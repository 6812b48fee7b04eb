"""A client of the Model Context Protocol, message by message, and a server that it speaks to.

    class One(McpCase):
        def test_it(self):
            with self.session() as session:  # of 2025-11-25
                self.assertEqual(session.tool("run", command="echo hi")["stdout"], "hi\n")
            answer = self.modern("tools/list")  # of 2026-07-28, where every request stands alone
"""

import itertools
import json
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from api_case import ApiCase  # noqa: E402
from harness import PATIENCE, main, path_of, wait_for  # noqa: E402, F401

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
ACCEPT = "application/json, text/event-stream"
NUMBERS = itertools.count(1)


class ToolFailed(Exception):
    """A result with isError: what the model is told."""


def envelope(method, params=None, meta=None):
    """A request of the newer era, and the headers that go with it."""
    params = dict(params or {})
    params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {},
                       META + "clientInfo": {"name": "test", "version": "1"}} | (meta or {})
    message = {"jsonrpc": "2.0", "id": next(NUMBERS), "method": method, "params": params}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Accept": ACCEPT}
    if name := params.get("name") or params.get("uri"):
        headers["Mcp-Name"] = name
    return message, headers


def messages_of(answer):
    """Every message of an answer, be it JSON or a stream of events."""
    kind = answer.headers["Content-Type"] or ""
    if kind.startswith("text/event-stream"):
        lines = answer.body.decode().split("\n")
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return [json.loads(answer.body)] if answer.body else []


def structured(result):
    if result.get("isError"):
        raise ToolFailed(result["content"][0]["text"])
    return result["structuredContent"]


class Session:
    """Of the older era: it begins with initialize and ends with DELETE."""

    def __init__(self, server, version=LEGACY, token=None):
        self.server, self.token = server, token
        self.headers = {"Accept": ACCEPT}
        answer = self.post("initialize", {"protocolVersion": version, "capabilities": {},
                                          "clientInfo": {"name": "test", "version": "1"}})
        assert answer.status == 200, answer.body
        self.welcome = messages_of(answer)[-1]["result"]
        self.id = answer.headers["Mcp-Session-Id"]
        self.headers |= {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.welcome["protocolVersion"]}
        assert self.notify("notifications/initialized").status == 202

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        return self.server.delete("/mcp", headers=self.headers, token=self.token)

    def post(self, method, params=None, number=None):
        message = {"jsonrpc": "2.0", "id": next(NUMBERS) if number is None else number, "method": method,
                   "params": params or {}}
        return self.server.post("/mcp", message, headers=self.headers, token=self.token)

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        return self.server.post("/mcp", message, headers=self.headers, token=self.token)

    def ask(self, method, params=None):
        answer = messages_of(self.post(method, params))[-1]
        assert "result" in answer, answer
        return answer["result"]

    def tool(self, name, /, **arguments):
        return structured(self.ask("tools/call", {"name": name, "arguments": arguments}))


class McpCase(ApiCase):
    flags = ()

    def session(self, **more):
        return Session(self.server, **more)

    def modern_post(self, method, params=None, meta=None, headers=None, **more):
        message, fields = envelope(method, params, meta)
        fields |= headers or {}
        return self.server.post("/mcp", message, headers={k: v for k, v in fields.items() if v is not None}, **more)

    def modern(self, method, params=None, **more):
        answer = self.modern_post(method, params, **more)
        last = messages_of(answer)[-1]
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(last["result"]["resultType"], "complete")
        return last["result"]

    def modern_tool(self, name, /, **arguments):
        return structured(self.modern("tools/call", {"name": name, "arguments": arguments}))

    def failed(self, call, words):
        with self.assertRaises(ToolFailed) as caught:
            call()
        self.assertIn(words, str(caught.exception))

    def rpc_error(self, answer, status, code):
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.json["error"]["code"], code, answer.json)
        return answer.json["error"]
