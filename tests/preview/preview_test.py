"""Ports of sandboxes as web sites of their own, without TLS in front."""

import contextlib
import http.client
import json

from preview_case import PORT, VHOST, PreviewCase, main, path_of, wait_for

PAGE = {"Accept": "text/html,application/xhtml+xml"}


class Previews(PreviewCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.box = cls().site()

    def bearer(self, token=None):
        return {"Authorization": f"Bearer {token or self.server.token}"}

    def test_a_private_one_asks_who_is_there(self):
        host = self.host(self.box)
        answer = self.get(host, "/")
        self.assertEqual(answer.status, 401)
        self.assertEqual(answer.headers["Cache-Control"], "no-store")
        page = self.get(host, "/a?b=%20c", headers=PAGE)
        self.assertEqual(page.status, 302)
        self.assertEqual(page.headers["Location"], f"http://{VHOST}:{self.public_port}/preview/open?host={host}"
                                                   "&path=%2Fa%3Fb%3D%2520c")

    def test_a_token_lets_in_and_stays_outside(self):
        answer = self.get(self.host(self.box), "/x?a=%20+b", headers=self.bearer() | {"Cookie": "mine=1"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(json.loads(answer.body)["line"], "GET /x?a=%20+b HTTP/1.1")
        fields = self.fields(answer)
        self.assertNotIn(b"cais_", answer.body)
        self.assertEqual(fields["host"], [self.host(self.box)])
        self.assertEqual(fields["x-forwarded-host"], [self.host(self.box)])
        self.assertEqual(fields["x-forwarded-proto"], ["http"])
        self.assertEqual(fields["cookie"], ["mine=1"])
        self.assertNotIn("transfer-encoding", fields)
        self.assertNotIn("content-length", fields)
        for name in ("Date", "Server"):
            self.assertEqual(len(answer.headers.get_all(name)), 1)

    def test_from_a_link_to_the_page(self):
        cookie = self.enter(self.box)
        self.assertTrue(cookie.startswith("caisson-preview="))
        answer = self.get(self.host(self.box), "/", headers={"Cookie": f"a=1; {cookie}; b=2"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.fields(answer)["cookie"], ["a=1; b=2"])
        self.assertEqual(self.get(self.host(self.box, PORT), "/", headers={"Cookie": cookie}).status, 401)

    def test_a_link_is_good_once(self):
        host, path = self.invitation(self.box)
        self.assertEqual(self.get(host, path).status, 303)
        self.assertEqual(self.get(host, path).status, 403)

    def test_the_login_of_the_console_opens_it(self):
        """The way of a browser that was not let in: to the main host, and back with a ticket."""
        where = f"/preview/open?host={self.host(self.box)}&path=%2Fx"
        main_host = f"{VHOST}:{self.public_port}"
        stranger = self.get(main_host, where)
        self.assertEqual(stranger.status, 303)
        self.assertTrue(stranger.headers["Location"].startswith("/#/login?next=%2Fpreview%2Fopen"))
        known = self.get(main_host, where, headers=self.bearer())
        self.assertEqual(known.status, 303, known.body)
        host, _, path = known.headers["Location"].removeprefix("http://").partition("/")
        entered = self.get(host, "/" + path)
        self.assertEqual((entered.status, entered.headers["Location"]), (303, "/x"))

    def test_a_port_by_its_number(self):
        self.start(self.box, port=3000)
        for port in (PORT, 3000):
            answer = self.get(self.host(self.box, port), "/", headers=self.bearer())
            self.assertEqual(self.fields(answer)["host"], [self.host(self.box, port)])
        nobody = self.get(self.host(self.box, 3999), "/", headers=self.bearer())
        self.assertEqual(nobody.status, 502)
        page = self.get(self.host(self.box, 3999), "/", headers=self.bearer() | PAGE)
        self.assertIn("text/html", page.headers["Content-Type"])

    def test_public_is_for_everybody_until_it_is_not(self):
        box = self.site()
        self.publish(box)
        answer = self.get(self.host(box), "/", headers=self.bearer())
        self.assertEqual(answer.status, 200)
        self.assertNotIn(b"cais_", answer.body)
        self.assertEqual(self.get(self.host(box), "/").status, 200)
        self.publish(box, public=False)
        self.assertEqual(self.get(self.host(box), "/").status, 401)

    def test_a_programs_own_login_is_its_own(self):
        cookie = self.enter(self.box)
        for scheme in ("Basic dTpw", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlc2ln"):
            answer = self.get(self.host(self.box), "/", headers={"Cookie": cookie, "Authorization": scheme})
            self.assertEqual(self.fields(answer)["authorization"], [scheme])

    def test_paused_and_ended(self):
        box = self.site()
        self.assertEqual(self.server.post(path_of(box, "pause")).status, 200)
        paused = self.get(self.host(box), "/", headers=self.bearer())
        self.assertEqual((paused.status, paused.headers["Retry-After"]), (503, "5"))
        self.assertEqual(self.server.post(path_of(box, "resume")).status, 200)
        self.assertEqual(self.get(self.host(box), "/", headers=self.bearer()).status, 200)
        cookie = self.enter(box)
        self.server.delete(path_of(box))
        self.assertEqual(self.get(self.host(box), "/", headers=self.bearer()).status, 404)
        self.assertEqual(self.get(self.host(box), "/", headers={"Cookie": cookie}).status, 404)
        self.assertEqual(self.get(self.host(box), "/").status, 401)

    def test_a_withdrawn_token_ends_what_it_opened(self):
        made = self.server.post("/api/v1/tokens", {"scopes": ["use"]}).json
        cookie = self.enter(self.box, token=made["token"])
        self.assertEqual(self.get(self.host(self.box), "/", headers={"Cookie": cookie}).status, 200)
        connection, answer = self.link.open(self.host(self.box), "/events", headers={"Cookie": cookie})
        self.assertEqual(answer.readline(), b"data: 0\n")
        self.assertIn(self.server.delete(f"/api/v1/tokens/{made['id']}").status, (200, 204))
        self.assertEqual(self.get(self.host(self.box), "/", headers={"Cookie": cookie}).status, 401)
        with contextlib.closing(connection), self.assertRaises((http.client.HTTPException, OSError)):
            answer.read()  # cut, and it does not look whole

    def test_a_visit_is_in_the_audit_once(self):
        box = self.site()

        def visits():
            return self.server.get(f"/api/v1/audit?limit=1000&sandbox={box}&action=port.connect").json["rows"]

        before = len(visits())
        for _ in range(5):
            self.assertEqual(self.get(self.host(box), "/", headers=self.bearer()).status, 200)
        wait_for(lambda: len(visits()) == before + 1, "the row")

    def test_the_api_is_not_on_a_preview_host(self):
        answer = self.get(self.host(self.box), "/api/v1/sandboxes", headers=self.bearer())
        self.assertEqual(json.loads(answer.body)["line"], "GET /api/v1/sandboxes HTTP/1.1")
        for host in (f"www.{VHOST}", f"{self.box.upper()}.{VHOST}", f"{self.box}.{VHOST}.", f"0-{self.box}.{VHOST}"):
            self.assertEqual(self.get(host, "/api/v1/sandboxes", headers=self.bearer()).status, 421, host)


if __name__ == "__main__":
    main()
