"""What the browser tests have in common: a server, a person who visits it, and short words for what people do.

    class Login(BrowserCase):
        def test_one(self):
            self.log_in()
            expect(self.at("sandbox-list")).to_be_visible()

Elements are found by their data-testid. Nothing sleeps: Playwright waits for what is expected, and every wait has an
end. A test that leaves a complaint of its visit behind has failed, whatever else it saw.
"""

import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("support", "server", "images"))]
from chromium import Visit, expect  # noqa: E402, F401
from api_case import ApiCase  # noqa: E402
from harness import Server, main, path_of, wait_for  # noqa: E402, F401
from store_case import StoreServer  # noqa: E402

PICTURES = pathlib.Path(os.environ.get("CAISSON_TEST_RESULTS") or tempfile.gettempdir())


class BrowserCase(ApiCase):
    """One server for all tests of a class, with a token; one visit a test."""

    flags = ()
    wish = {}  # of the visit: width, colours
    places = ()
    stores = False  # for what is kept on a disk: a store of its own size

    @classmethod
    def setUpClass(cls):
        kind = StoreServer if cls.stores else Server
        cls.server = kind(*cls.flags, config=cls.config, env=cls.env)
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def setUp(self):
        self.visits = []
        self.visit = self.new_visit(**self.wish)
        self.page = self.visit.page

    def tearDown(self):
        """Before anything that a cleanup removes is missed by a page that still looks at it."""
        for visit in self.visits:
            self.judge(visit)
            visit.close()

    @property
    def url(self):
        return self.server.url

    def new_visit(self, **wish):
        visit = Visit(self.url, self.places, **wish)
        self.visits.append(visit)
        self.addCleanup(visit.close)
        return visit

    def judge(self, visit):
        """The last word on a visit; what it looked like when the test failed."""
        outcome = self._outcome.result
        failed = any(test is self for test, _ in [*outcome.errors, *outcome.failures])
        if failed or visit.complaints():
            picture = PICTURES / f"browser-{self.id().removeprefix('__main__.')}.png"
            try:
                visit.page.screenshot(path=picture)
                print(f"  it looked like {picture}")
            except Exception as error:  # the page may be gone; the failure itself is what matters
                print(f"  no picture: {error}")
        self.assertFalse(visit.complaints(), "\n".join(visit.complaints()))

    # --- words

    def at(self, testid, within=None):
        return (within or self.page).get_by_test_id(testid)

    def go(self, route=""):
        """A route of the console, such as '#/images'."""
        self.page.goto(f"{self.url}/{route}")

    def log_in(self, token=None, visit=None):
        """The cookie of a login, without the screen for it."""
        answer = (visit or self.visit).context.request.post(
            f"{self.url}/auth/token", data={"token": token or self.server.token})
        self.assertEqual(answer.status, 200, answer.text())

    def enter(self, route=""):
        self.log_in()
        self.go(route)

    def row(self, box):
        """The line of a sandbox in the list."""
        return self.page.locator(f'[data-testid=sandbox-row][data-id="{box}"]')

    def open_box(self, box, tab="run"):
        self.enter(f"#/sandboxes/{box}/{tab}")
        expect(self.at(f"tab-{tab}")).to_be_visible()

    def choose_tab(self, tab):
        self.at(f"tab-link-{tab}").click()
        expect(self.at(f"tab-{tab}")).to_be_visible()

    def fill_form(self, form, /, **fields):
        """Fills a dialog, and sends it; it is gone when that worked."""
        dialog = self.at(f"dialog-{form}")
        for field, value in fields.items():
            self.at(f"field-{field}", dialog).fill(value)
        self.at("dialog-submit", dialog).click()
        expect(dialog).to_have_count(0)

    def inside(self, box, command):
        """What a command says in the sandbox, by the API."""
        answer = self.server.post(path_of(box, "exec"), {"command": command})
        self.assertEqual((answer.status, answer.json["exit_code"]), (200, 0), answer.body)
        return answer.json["stdout"]
