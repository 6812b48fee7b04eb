"""Language models from inside: providers of the test's own on loopback, with plain and streamed answers. What is
counted, what is refused before it leaves, what stops in the middle, and who ends."""

import http.server
import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import harness
from harness import Server, path_of, wait_for

KEY = "sk-canary-d41c9f-of-the-provider"
CHAT = {"model": "small", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}


class Provider(http.server.ThreadingHTTPServer):
    """Answers by the model's name: "long" streams without end, "broken" says 500."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers.items()), None))
        self.reply({"object": "list", "data": []})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers.items()), body))
        if body["model"] == "broken":
            return self.reply({"error": {"message": "no"}}, 500)
        if body.get("stream"):
            return self.stream(body)
        if self.path.endswith("/messages"):
            return self.reply({"type": "message", "usage": {"input_tokens": 30, "output_tokens": 12}})
        return self.reply({"choices": [], "told": self.headers["Authorization"],
                           "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}})

    def reply(self, value, status=200):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def stream(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        count = 100000 if body["model"] == "long" else 5
        try:
            for _ in range(count):
                self.event({"choices": [{"delta": {"content": "word "}}]})
            self.event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass
        self.close_connection = True

    def event(self, value):
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")


class GatewayCase(unittest.TestCase):
    maxDiff = None
    more = ""

    @classmethod
    def setUpClass(cls):
        cls.provider = Provider()
        cls.addClassCleanup(cls.provider.shutdown)
        cls.server = Server(config=f"""egress:
  gateway:
    openai: {{upstream: "{cls.provider.url}", key_secret: llm, path_prefix: /v1}}
    anthropic: {{upstream: "{cls.provider.url}", key_secret: llm}}
  prices:
    - {{model: "small*", input_per_million_usd: 1.0, output_per_million_usd: 2.0}}
    - {{model: long, input_per_million_usd: 1.0, output_per_million_usd: 2.0}}
    - {{model: broken, input_per_million_usd: 1.0, output_per_million_usd: 2.0}}
{cls.more}""")
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        put = cls.server.put("/api/v1/secrets/llm", {"value": KEY})
        assert put.status == 204, put.body

    def setUp(self):
        self.provider.asked.clear()

    def create(self, **wish):
        box = self.server.create(**wish)
        self.addCleanup(self.server.delete, path_of(box))
        return box

    def run_in(self, box, command):
        answer = self.server.post(path_of(box, "exec"), {"command": command, "timeout_seconds": 60})
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["stdout"]

    def call(self, box, body=None, path="$OPENAI_BASE_URL/chat/completions", more=""):
        """(status, body)"""
        body = json.dumps({**CHAT, **(body or {})})
        said = self.run_in(box, f"curl -s -w '\\n%{{http_code}}' {more} -H 'Content-Type: application/json' "
                                f"-H \"Authorization: Bearer $OPENAI_API_KEY\" -d '{body}' {path}")
        text, _, status = said.rpartition("\n")
        return int(status), text

    def usage(self, box):
        shown = self.server.get(path_of(box, "usage")).json
        return shown["tokens"], round(shown["cost_usd"], 9)

    def rows(self, box, count=1):
        path = f"/api/v1/audit?limit=1000&sandbox={box}&action=llm.call"
        return wait_for(lambda: (rows := self.server.get(path).json["rows"]) and len(rows) >= count and rows,
                        f"{count} rows")


class Calls(GatewayCase):
    def test_the_variables(self):
        box = self.create()
        self.assertEqual(self.run_in(box, "echo $OPENAI_BASE_URL $ANTHROPIC_BASE_URL $OPENAI_API_KEY; env | grep -c canary"),
                         "http://127.0.0.1:3128/openai http://127.0.0.1:3128/anthropic kept-outside\n0\n")

    def test_a_plain_answer(self):
        box = self.create()
        status, text = self.call(box)
        self.assertEqual(status, 200, text)
        self.assertNotIn(KEY, text)
        self.assertIn("[secret llm]", text)
        path, headers, body = self.provider.asked[0]
        self.assertEqual(path, "/v1/chat/completions")
        self.assertEqual(headers["Authorization"], f"Bearer {KEY}")
        self.assertEqual(body, CHAT)
        self.assertEqual(self.usage(box), (30, 0.00004))
        row = self.rows(box)[0]
        self.assertEqual((row["object"], row["detail"]["tokens"], row["detail"]["provider"]), ("small", 30, "openai"))
        self.assertNotIn(KEY, json.dumps(self.server.get("/api/v1/audit?limit=1000").json))
        self.assertNotIn(KEY, self.server.log())

    def test_anthropic(self):
        box = self.create()
        status, text = self.call(box, path="$ANTHROPIC_BASE_URL/v1/messages", more="-H 'x-api-key: mine'")
        self.assertEqual(status, 200, text)
        path, headers, _ = self.provider.asked[0]
        self.assertEqual(path, "/v1/messages")
        self.assertEqual(headers["x-api-key"], KEY)
        self.assertNotIn("Authorization", headers)
        self.assertEqual(self.usage(box)[0], 42)

    def test_a_stream(self):
        box = self.create()
        status, text = self.call(box, {"stream": True}, more="-N")
        self.assertEqual(status, 200, text)
        self.assertEqual(text.count("word "), 5)
        self.assertTrue(self.provider.asked[0][2]["stream_options"]["include_usage"])
        self.assertEqual(self.usage(box)[0], 12)

    def test_what_costs_nothing_and_what_nobody_counts(self):
        box = self.create()
        said = self.run_in(box, "for p in models images/generations files ../x; do curl -s -o /dev/null --path-as-is "
                                "-w '%{http_code} ' $OPENAI_BASE_URL/$p; done")
        self.assertEqual(said.split(), ["200", "403", "403", "403"])
        self.assertEqual([path for path, _, _ in self.provider.asked], ["/v1/models"])
        status, _ = self.call(box, {"model": "broken"})
        self.assertEqual(status, 500)
        self.assertEqual(self.usage(box), (0, 0.0))

    def test_who_wants_no_network_has_none(self):
        box = self.create(network={"mode": "none"})
        self.assertEqual(self.run_in(box, "echo ${OPENAI_BASE_URL:-none}; curl -s -m 2 http://127.0.0.1:3128/openai/models;"
                                          "echo $?"), "none\n7\n")

    def test_beside_rules_and_after_a_restart(self):
        box = self.create(network={"mode": "allowlist", "domain_allowlist": ["nowhere.test"]})
        self.assertEqual(self.call(box)[0], 200)
        changed = self.server.put(path_of(box, "network"), {"mode": "none"})
        self.assertEqual(changed.status, 200, changed.body)
        self.assertEqual(self.call(box)[0], 200)
        self.rows(box, 2)
        self.server.kill()
        self.server.start()
        self.assertEqual(self.usage(box)[0], 60, "what was spent stays spent")
        self.assertEqual(self.call(box)[0], 200)
        self.assertEqual(self.usage(box)[0], 90)


class Budgets(GatewayCase):
    def test_tokens(self):
        box = self.create(budget={"max_tokens": 150})
        self.assertEqual(self.call(box)[0], 200)
        self.assertEqual(self.call(box)[0], 200)
        self.assertEqual(self.call(box)[0], 200)
        asked = len(self.provider.asked)
        status, text = self.call(box)  # 90 are used, and this one may need 60 more
        self.assertEqual(status, 429, text)
        self.assertEqual(json.loads(text)["error"]["type"], "budget_exceeded")
        self.assertEqual(len(self.provider.asked), asked)
        self.assertEqual(self.rows(box, 4)[-1]["outcome"], "denied")
        self.assertEqual(self.server.get(path_of(box)).json["state"], "running")

    def test_money(self):
        box = self.create(budget={"max_cost_usd": 0.00005})
        self.assertEqual(self.call(box)[0], 402)
        self.assertEqual(self.call(box, {"max_tokens": 5})[0], 200)
        self.assertEqual(self.call(box, {"model": "unpriced"})[0], 403)

    def test_a_stream_stops_at_the_limit(self):
        box = self.create(budget={"max_tokens": 300})
        status, text = self.call(box, {"model": "long", "stream": True, "max_tokens": 100}, more="-N")
        self.assertEqual(status, 200)
        self.assertIn("budget_exceeded", text)
        self.assertLess(text.count("word "), 1000)
        self.assertGreaterEqual(self.usage(box)[0], 200)

    def test_at_the_limit_it_ends_when_it_should(self):
        box = self.create(budget={"max_tokens": 20, "on_exceed": "stop"})
        self.server.post(path_of(box, "exec"), {"command": f"curl -s -d '{json.dumps(CHAT)}' $OPENAI_BASE_URL/chat/completions"})
        gone = wait_for(lambda: (answer := self.server.get(path_of(box))).status != 200 and answer, "its end")
        self.assertIn(gone.status, (404, 410), gone.body)
        rows = wait_for(lambda: self.server.get(f"/api/v1/audit?sandbox={box}&action=sandbox.end").json["rows"], "its row")
        self.assertEqual(rows[0]["object"], "budget")

    def test_from_outside(self):
        box = self.create(budget={"max_tokens": 100, "on_exceed": "stop"})
        answer = self.server.post(path_of(box, "usage", "record"), {"tokens": 60, "cost_usd": 0.25})
        self.assertEqual((answer.status, answer.json["tokens"], answer.json["cost_usd"]), (200, 60, 0.25), answer.body)
        for bad in ({"tokens": -1}, {"cost_usd": -0.5}, {"tokens": "x"}, {"other": 1}):
            self.assertEqual(self.server.post(path_of(box, "usage", "record"), bad).status, 400, bad)
        asked = len(self.provider.asked)
        self.server.post(path_of(box, "exec"), {"command": f"curl -s -d '{json.dumps(CHAT)}' $OPENAI_BASE_URL/chat/completions"})
        self.assertEqual(len(self.provider.asked), asked, "what was counted outside counts here")
        wait_for(lambda: self.server.get(path_of(box)).status != 200, "its end")

    def test_bad_wishes_name_their_field(self):
        for budget, field in (({"max_tokens": -1}, "budget.max_tokens"), ({"max_cost_usd": "x"}, "budget.max_cost_usd"),
                              ({"on_exceed": "cry"}, "budget.on_exceed"), ({"more": 1}, "budget.more")):
            answer = self.server.post("/api/v1/sandboxes", {"budget": budget})
            self.assertEqual((answer.status, answer.json["error"]["details"]["field"]), (400, field), answer.body)


class Tenants(GatewayCase):
    more = "  budgets:\n    default: {max_tokens: 150}\n"

    def test_sandboxes_share_what_their_tenant_has(self):
        one, two = self.create(), self.create()
        self.assertEqual(self.call(one)[0], 200)
        self.assertEqual(self.call(two)[0], 200)
        self.server.post(path_of(one, "usage", "record"), {"tokens": 80})
        status, text = self.call(two)
        self.assertEqual(status, 429)
        self.assertNotIn("80", text, "what others used is nobody's business")
        self.assertEqual(self.usage(two)[0], 30)
        for box in (one, two):
            self.server.delete(path_of(box))
        self.server.kill()
        self.server.start()
        self.assertEqual(self.call(self.create())[0], 429, "what a tenant has spent stays spent")


if __name__ == "__main__":
    harness.main()
