"""A browser that a test can trust to tell everything.

A Visit is one person at the console: a page of its own, with its own cookies. It writes down whatever a console must
never cause: an error of a script, a breach of the page's policy, a request to any other place than the server, an
answer of 400 and above that the test did not say it expects. complaints() has to be empty at the end of every test.

Playwright comes from a Python environment that tests/browser/venv makes; the browser is the distribution's.
"""

import atexit
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
VENV = pathlib.Path(os.environ.get("CAISSON_BROWSER") or CACHE / "caisson-browser")
# The first is the same browser without its windows: a new visit takes it half the time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MILLISECONDS = 20_000  # of patience with what takes a few on a machine that is not overloaded


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def enter_venv():
    """This program again, by the interpreter that has Playwright."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == VENV.resolve():
        return
    if not (VENV / "made").exists():
        skip(f"Playwright is not there: tests/browser/venv {VENV}")
    os.execv(python, [str(python), "-B", *sys.argv])


enter_venv()
from playwright.sync_api import expect, sync_playwright  # noqa: E402

expect.set_options(timeout=MILLISECONDS)

# A breach is an event of the document; this makes an error of it that nobody can miss.
WATCH_POLICY = """
document.addEventListener('securitypolicyviolation', (event) => {
  const {effectiveDirective, blockedURI, sourceFile, lineNumber, sample} = event;
  console.error(`POLICY ${effectiveDirective} ${blockedURI} ${sourceFile}:${lineNumber} ${sample}`);
});
"""

_running = {}


def program():
    found = os.environ.get("CAISSON_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    return found or skip(f"no browser: none of {', '.join(PROGRAMS)} is installed")


def browser():
    """One for the whole program: it takes a second to start, and a new Visit a tenth of that."""
    if not _running:
        _running["playwright"] = sync_playwright().start()
        _running["browser"] = _running["playwright"].chromium.launch(
            executable_path=program(),
            # Tests run as root, where Chromium's own sandbox does not start. No name but that of the machine itself
            # leads anywhere.
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost"])
        atexit.register(close)
    return _running["browser"]


def close():
    if _running:
        _running.pop("browser").close()
        _running.pop("playwright").stop()


class Visit:
    """`places` are ends of hosts, with their port, that the page may reach as well: those of previews."""

    def __init__(self, url, places=(), **wish):
        self.url = url
        self.host = urllib.parse.urlsplit(url).netloc
        self.places = tuple(places)
        self.allowed = {(401, "/api/v1/server")}  # who is not logged in asks this to learn it
        self.allowed_errors = []
        self.problems = []
        self.context = browser().new_context(**{"viewport": {"width": 1280, "height": 800}, "color_scheme": "light",
                                                "reduced_motion": "reduce", "accept_downloads": True, **wish})
        self.context.set_default_timeout(MILLISECONDS)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url)
        self.context.add_init_script(WATCH_POLICY)
        self.context.on("request", self.on_request)
        self.context.on("response", self.on_response)
        self.context.on("console", self.on_console)
        self.context.on("weberror", lambda error: self.problems.append(f"a script failed: {error.error}"))
        self.context.on("page", self.on_page)
        self.page = self.context.new_page()

    def close(self):
        self.context.close()

    def allow(self, status, path):
        """This answer is what the test is about; path may hold * for anything."""
        self.allowed.add((status, path))

    def complaints(self):
        return [one for one in self.problems if not any(re.search(words, one) for words in self.allowed_errors)]

    # --- what is written down

    def on_page(self, page):
        page.on("websocket", lambda socket: self.check_place(socket.url))

    def check_place(self, url):
        place = urllib.parse.urlsplit(url)
        known = place.netloc == self.host or (self.places and place.netloc.endswith(self.places))
        if place.scheme not in ("data", "blob", "about") and not known:
            self.problems.append(f"a request to another place: {url}")

    def on_request(self, request):
        self.check_place(request.url)

    def on_response(self, response):
        path = urllib.parse.urlsplit(response.url).path
        if response.status >= 400 and not any(
                status == response.status and re.fullmatch(re.escape(one).replace(r"\*", ".*"), path)
                for status, one in self.allowed):
            self.problems.append(f"{response.request.method} {path} was answered {response.status}")

    def on_console(self, message):
        # The status of an answer is judged above.
        if message.type == "error" and not message.text.startswith("Failed to load resource: the server responded"):
            self.problems.append(f"the page says: {message.text}")
