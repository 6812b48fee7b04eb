"""A test that finds nothing may be a broken test: a visit is shown each fault that it has to see."""

import http.server
import threading
import unittest

from browser_case import expect, main
from chromium import Visit

POLICY = "default-src 'none'; script-src 'self'; connect-src *; img-src *"
FILES = {
    "/good": ("text/html", b"<!doctype html><title>good</title><script src=good.js></script>"),
    "/good.js": ("text/javascript", b"document.title = 'loaded';"),
    "/throws": ("text/html", b"<!doctype html><script src=throws.js></script>"),
    "/throws.js": ("text/javascript", b"throw new Error('on purpose');"),
    "/inline": ("text/html", b"<!doctype html><script>1</script><title>x</title>"),
    "/style": ("text/html", b"<!doctype html><p style='color: red'>x</p>"),
    "/elsewhere": ("text/html", b"<!doctype html><img src='http://other.localhost:9/x.png'>"),
    "/missing": ("text/html", b"<!doctype html><script src=none.js></script>"),
    "/socket": ("text/html", b"<!doctype html><script src=socket.js></script>"),
    "/socket.js": ("text/javascript",
                   b"new WebSocket('ws://other.localhost:9/').onerror = () => document.title = 'x';"),
    "/favicon.ico": ("image/png", b""),
}


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, text = FILES.get(self.path, ("text/plain", None))
        self.send_response(200 if text is not None else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(text or b"")

    def log_message(self, *_):
        pass


class Complaints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(cls.server.shutdown)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    def setUp(self):
        self.visit = Visit(f"http://127.0.0.1:{self.server.server_port}")
        self.addCleanup(self.visit.close)

    def look(self, path):
        self.visit.page.goto(self.visit.url + path, wait_until="networkidle")
        return "\n".join(self.visit.complaints())

    def test_a_good_page_has_none(self):
        self.assertEqual(self.look("/good"), "")
        expect(self.visit.page).to_have_title("loaded")

    def test_a_script_that_fails(self):
        self.assertIn("a script failed: on purpose", self.look("/throws"))

    def test_breaches_of_the_policy(self):
        self.assertIn("POLICY script-src-elem inline", self.look("/inline"))
        self.assertIn("POLICY style-src-attr inline", self.look("/style"))

    def test_other_places(self):
        self.assertIn("a request to another place: http://other.localhost:9/x.png", self.look("/elsewhere"))

    def test_other_places_by_websocket(self):
        self.look("/socket")
        expect(self.visit.page).to_have_title("x")
        self.assertIn("a request to another place: ws://other.localhost:9/", "\n".join(self.visit.complaints()))

    def test_bad_answers_unless_they_are_expected(self):
        self.assertIn("GET /none.js was answered 404", self.look("/missing"))
        other = Visit(self.visit.url)
        self.addCleanup(other.close)
        other.allow(404, "/none.*")
        other.page.goto(self.visit.url + "/missing", wait_until="networkidle")
        self.assertEqual(other.complaints(), [])


if __name__ == "__main__":
    main()
