"""Streamable HTTP: who may speak, in which revision, and what becomes of a request on its way."""

import http.client
import json
import threading

from mcp_case import LEGACY, META, MODERN, McpCase, envelope, main, messages_of, path_of, wait_for


class Speaking(McpCase):
    def test_nobody_speaks_without_a_token(self):
        message, headers = envelope("server/discover")
        answer = self.server.post("/mcp", message, headers=headers, token="")
        self.assertEqual(answer.status, 401)
        self.assertEqual(answer.headers["WWW-Authenticate"], 'Bearer realm="caisson"')
        for wrong, status in (({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
            self.assertEqual(self.server.post("/mcp", message, headers=headers | wrong).status, status)
        self.assertEqual(self.server.put("/mcp", b"").status, 405)
        self.assertEqual(self.server.post("/mcp", "{}", headers={"Content-Type": "text/plain"}).status, 415)
        self.assertEqual(self.server.post("/mcp", message, headers=headers | {"Accept": "image/png"}).status, 406)

    def test_the_newer_revision_needs_no_handshake(self):
        found = self.modern("server/discover")
        self.assertEqual(found["supportedVersions"], [MODERN, LEGACY, "2025-06-18"])
        self.assertEqual(set(found["capabilities"]), {"tools", "resources"})
        self.assertEqual(found["_meta"][META + "serverInfo"]["name"], "caisson")
        tools = self.modern("tools/list")
        self.assertEqual((tools["cacheScope"], len(tools["tools"])), ("public", 16))
        self.assertNotIn("Mcp-Session-Id", self.modern_post("tools/list").headers)

    def test_what_a_request_says_of_itself_is_judged(self):
        said = self.rpc_error(self.modern_post("tools/list", meta={META + "protocolVersion": "1900-01-01"},
                                               headers={"MCP-Protocol-Version": "1900-01-01"}), 400, -32022)
        self.assertEqual(said["data"]["requested"], "1900-01-01")
        self.assertIn(MODERN, said["data"]["supported"])
        for wrong in ({"MCP-Protocol-Version": None}, {"MCP-Protocol-Version": LEGACY}, {"Mcp-Method": None},
                      {"Mcp-Method": "tools/call"}):
            self.rpc_error(self.modern_post("tools/list", headers=wrong), 400, -32020)
        call = {"name": "run", "arguments": {"command": "true"}}
        self.rpc_error(self.modern_post("tools/call", call, headers={"Mcp-Name": "read"}), 400, -32020)
        self.rpc_error(self.modern_post("tools/list", meta={META + "clientCapabilities": None}), 400, -32602)
        self.rpc_error(self.modern_post("nothing/here"), 404, -32601)
        self.rpc_error(self.modern_post("ping"), 404, -32601)
        self.rpc_error(self.modern_post("tools/call", {"name": "nothing"}), 200, -32602)
        for body in ("{", "[]", '{"jsonrpc": "2.0", "id": 1}'):
            self.assertEqual(self.server.post("/mcp", body, headers={"Content-Type": "application/json"}).status, 400)

    def test_an_older_client_is_answered_with_a_revision_that_we_speak(self):
        for wanted, got in ((LEGACY, LEGACY), ("2025-06-18", "2025-06-18"), ("2024-11-05", LEGACY)):
            with self.session(version=wanted) as session:
                self.assertEqual(session.welcome["protocolVersion"], got)
                self.assertEqual(session.ask("ping"), {})
                self.assertNotIn("resultType", session.ask("tools/list"))

    def test_a_session_is_its_tokens_own_and_ends(self):
        session = self.session()
        other = self.server.post("/api/v1/tokens", {"label": "b", "scopes": ["read", "use", "create"]}).json["token"]
        self.assertEqual(self.server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"},
                                          headers=session.headers, token=other).status, 404)
        self.assertEqual(session.notify("notifications/unknown").status, 202)
        session.headers["MCP-Protocol-Version"] = "1900-01-01"
        self.assertEqual(session.post("ping").status, 400)
        session.headers["MCP-Protocol-Version"] = LEGACY
        box = session.tool("run", command="true")["sandbox"]
        self.assertEqual(session.end().status, 204)
        self.assertEqual(session.post("ping").status, 404)
        self.assertEqual(session.end().status, 404)
        wait_for(lambda: self.server.get(path_of(box)).json.get("state", "ended") == "ended", "the sandbox's end")

    def test_scopes_hold(self):
        reader = self.server.post("/api/v1/tokens", {"label": "r", "scopes": ["read"]}).json["token"]
        answer = self.modern_post("tools/call", {"name": "run", "arguments": {"command": "id"}}, token=reader)
        result = messages_of(answer)[-1]["result"]
        self.assertTrue(result["isError"])
        self.assertIn('"use"', result["content"][0]["text"])
        user = self.server.post("/api/v1/tokens", {"label": "u", "scopes": ["use"]}).json["token"]
        answer = self.modern_post("tools/call", {"name": "run", "arguments": {"command": "id"}}, token=user)
        self.assertIn('"create"', messages_of(answer)[-1]["result"]["content"][0]["text"])
        self.assertEqual(self.modern_post("resources/list", token=user).status, 403)

    def test_another_tenants_sandbox_is_not_there(self):
        box = self.create()
        other = self.server.post("/api/v1/tokens", {"tenant": "other", "label": "o",
                                                    "scopes": ["read", "use", "create"]}).json["token"]
        call = {"name": "run", "arguments": {"command": "id", "sandbox": box}}
        result = messages_of(self.modern_post("tools/call", call, token=other))[-1]["result"]
        self.assertTrue(result["isError"])
        self.rpc_error(self.modern_post("resources/read", {"uri": f"caisson://{box}/policy"}, token=other), 200, -32602)


class Underway(McpCase):
    """Requests that take their time. Whoever waits inside waits for a file, which another call writes."""

    config = "mcp: {sandboxes_per_token: 3}\n"
    WAIT = "echo $$ >begun; while [ ! -e go ]; do :; done; echo done"

    def begun(self, box):
        wait_for(lambda: self.server.get(path_of(box, "files", "begun")).body, "the command")

    def ended(self, box):
        wait_for(lambda: self.modern_tool("run", sandbox=box, command="kill -0 $(cat begun)")["exit_code"] != 0,
                 "the end of the command")

    def test_progress_comes_before_the_answer(self):
        box = self.create()
        message, headers = envelope("tools/call", {"name": "run", "arguments": {"command": self.WAIT, "sandbox": box}},
                                    {"progressToken": "mine"})
        connection, answer = self.server.open("POST", "/mcp", message, headers)
        self.addCleanup(connection.close)
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        lines = (line for line in iter(answer.readline, b"") if line.startswith(b"data: "))
        first = json.loads(next(lines)[6:])
        self.assertEqual((first["method"], first["params"]["progressToken"]), ("notifications/progress", "mine"))
        self.modern_tool("write", sandbox=box, path="go", content="")
        seen = [json.loads(line[6:]) for line in lines]
        self.assertEqual(seen[-1]["result"]["structuredContent"]["stdout"], "done\n")
        progress = [one["params"]["progress"] for one in [first] + seen[:-1]]
        self.assertEqual(progress, sorted(set(progress)))

    def test_to_hang_up_is_to_take_it_back(self):
        box = self.create()
        message, headers = envelope("tools/call", {"name": "run", "arguments": {"command": self.WAIT, "sandbox": box}})
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        headers |= {"Content-Type": "application/json", "Authorization": f"Bearer {self.server.token}"}
        connection.request("POST", "/mcp", json.dumps(message), headers)
        self.begun(box)
        connection.close()
        self.ended(box)

    def test_an_older_client_takes_back_by_a_message(self):
        with self.session() as session:
            box = session.tool("run", command="true")["sandbox"]
            got = []
            call = {"name": "run", "arguments": {"command": self.WAIT}}
            waiting = threading.Thread(target=lambda: got.append(session.post("tools/call", call, number=4711)))
            waiting.start()
            self.begun(box)
            self.assertEqual(session.notify("notifications/cancelled", {"requestId": 4711}).status, 202)
            waiting.join(30)
            self.assertFalse(waiting.is_alive())
            self.assertNotIn("result", messages_of(got[0])[-1])
            self.ended(box)

    def test_a_stream_tells_of_sandboxes_that_come_and_go(self):
        message, headers = envelope("subscriptions/listen", {"notifications": {"resourcesListChanged": True,
                                                                               "toolsListChanged": True}})
        with self.session() as session, \
             self.server.events("POST", "/mcp", message, headers) as modern, \
             self.server.events("GET", "/mcp", headers=session.headers | {"Accept": "text/event-stream"}) as legacy:
            first = next(modern).data
            self.assertEqual(first["method"], "notifications/subscriptions/acknowledged")
            self.assertEqual(first["params"]["notifications"], {"resourcesListChanged": True})
            self.assertEqual(first["params"]["_meta"][META + "subscriptionId"], message["id"])
            self.create()
            self.assertEqual(next(modern).data["method"], "notifications/resources/list_changed")
            self.assertEqual(next(legacy).data["method"], "notifications/resources/list_changed")

    def test_a_forgetful_client_is_told_what_it_has(self):
        token = self.server.post("/api/v1/tokens", {"label": "f", "scopes": ["read", "use", "create"]}).json["token"]
        call = {"name": "run", "arguments": {"command": "true"}}
        results = [messages_of(self.modern_post("tools/call", call, token=token))[-1]["result"] for _ in range(4)]
        boxes = [one["structuredContent"]["sandbox"] for one in results[:3]]
        self.assertEqual(len(set(boxes)), 3)
        self.assertIn(boxes[0], results[0]["content"][0]["text"])
        self.assertTrue(results[3]["isError"])
        self.assertIn(boxes[1], results[3]["content"][0]["text"])

    def test_who_leaves_while_one_is_made_gets_no_more_of_them(self):
        wish = {"label": "l", "tenant": "leavers", "scopes": ["read", "use", "create"]}
        token = self.server.post("/api/v1/tokens", wish).json["token"]
        for _ in range(24):
            message, headers = envelope("tools/call", {"name": "run", "arguments": {"command": "true"}})
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
            headers |= {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
            connection.request("POST", "/mcp", json.dumps(message), headers)
            connection.close()
        self.create()  # comes after all that were asked for before it
        boxes = self.server.get("/api/v1/sandboxes", token=token).json["sandboxes"]
        self.assertLessEqual(len(boxes), 3)


if __name__ == "__main__":
    main()
