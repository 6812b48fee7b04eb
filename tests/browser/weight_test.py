"""What the console weighs, and that a long list costs no more than a short one."""

import gzip
import re

from browser_case import BrowserCase, expect, main

FIRST_LOAD_BYTES_MAX = 200_000
BOXES = 500
ROWS_DRAWN_MAX = 80
RECEIVED = """() => ['resource', 'navigation'].flatMap((kind) => performance.getEntriesByType(kind))
  .map((one) => [one.name, one.encodedBodySize, one.decodedBodySize])"""
FETCHED = """() => performance.getEntriesByType('resource').filter((one) => one.transferSize > 0)
  .map((one) => one.name)"""


class FirstLoad(BrowserCase):
    def test_size(self):
        self.go()
        expect(self.at("screen-login")).to_be_visible()
        files = [one for one in self.page.evaluate(RECEIVED) if "/api/" not in one[0]]
        self.assertGreaterEqual(len(files), 3, files)
        self.assertLessEqual(sum(size for _, size, _ in files), FIRST_LOAD_BYTES_MAX, files)
        self.assertTrue(all(size < plain for name, size, plain in files if name.endswith((".js", ".css"))), files)

    def test_a_client_without_gzip_gets_the_same(self):
        plain = self.server.get("/", headers={"Accept-Encoding": "identity"})
        small = self.server.get("/", headers={"Accept-Encoding": "gzip"})
        self.assertEqual((plain.status, small.status, small.headers["Content-Encoding"]), (200, 200, "gzip"))
        self.assertEqual(gzip.decompress(small.body), plain.body)
        for name in re.findall(rb'(?:src|href)="(/[^"]+)"', plain.body):
            name = name.decode()
            both = [self.server.get(name, headers={"Accept-Encoding": word}) for word in ("identity", "gzip")]
            self.assertEqual([one.status for one in both], [200, 200], name)
            self.assertEqual(gzip.decompress(both[1].body), both[0].body, name)

    def test_what_is_kept_and_what_is_asked_again(self):
        page = self.server.get("/")
        self.assertEqual(page.headers["Cache-Control"], "no-cache")
        again = self.server.get("/", headers={"If-None-Match": page.headers["ETag"]})
        self.assertEqual((again.status, again.body), (304, b""))
        script = re.search(rb'src="(/assets/[^"]+)"', page.body)[1].decode()
        self.assertIn("immutable", self.server.get(script).headers["Cache-Control"])
        self.assertEqual(self.server.get("/assets/none.js").status, 404)
        self.assertEqual(self.server.post("/", {}).status, 405)

    def test_a_second_visit_fetches_nothing_but_the_page(self):
        self.go()
        expect(self.at("screen-login")).to_be_visible()
        self.page.reload()
        expect(self.at("screen-login")).to_be_visible()
        fetched = self.page.evaluate(FETCHED)
        self.assertEqual([one for one in fetched if "/assets/" in one], [])


class Many(BrowserCase):
    config = f"sandbox: {{max_concurrent: {BOXES + 20}}}\n"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in range(BOXES):
            cls.server.create(name=f"box-{number:03}", resource_limits={"memory_mb": 32})

    def test_five_hundred(self):
        self.enter()
        expect(self.at("sandbox-list")).to_have_attribute("data-total", str(BOXES))
        expect(self.at("row-link").first).to_have_text("box-000")
        self.assertLessEqual(self.at("sandbox-row").count(), ROWS_DRAWN_MAX)
        self.at("sandbox-row").first.focus()
        self.page.keyboard.press("End")
        expect(self.at("row-link").filter(has_text=f"box-{BOXES - 1}")).to_be_visible()
        self.assertLessEqual(self.at("sandbox-row").count(), ROWS_DRAWN_MAX)
        self.at("sandbox-list").hover()
        self.page.mouse.wheel(0, -4000)
        expect(self.at("row-link").filter(has_text=f"box-{BOXES - 1}")).to_have_count(0)
        self.at("list-filter").fill("box-25")
        expect(self.at("sandbox-row")).to_have_count(10)


if __name__ == "__main__":
    main()
