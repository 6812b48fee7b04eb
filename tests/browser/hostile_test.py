"""Text of guests and strangers stays text. Each canary would leave a mark in the page, or run, if it became markup."""

import json
import re

from browser_case import BrowserCase, expect, main, path_of

MARK = "<b data-canary>c</b>"
SCRIPT = "<img src=/canary.png onerror=window.canary=1>"
HOSTILE = MARK + SCRIPT + "\"'><script>window.canary=1</script>"
FILE = "<b data-canary><img src=x onerror=window.canary=1>.txt"  # no slash: it is one name
PICTURE = ('<svg xmlns="http://www.w3.org/2000/svg" onload="window.canary=1"><script>window.canary=1</script></svg>')
TABS = ("run", "processes", "files", "snapshots", "network", "budget", "audit", "settings")


class Hostile(BrowserCase):
    def check_page(self, where):
        self.assertEqual(self.page.locator("[data-canary], img[src='x'], img[src='/canary.png']").count(), 0, where)
        self.assertIsNone(self.page.evaluate("window.canary ?? null"), where)

    def hostile_box(self, **more):
        return self.create(labels={"canary": HOSTILE}, **more)

    def test_labels_and_names_on_every_tab(self):
        box = self.hostile_box()
        self.enter()
        expect(self.row(box)).to_contain_text("<b data-canary>")
        self.check_page("the list")
        self.go(f"#/sandboxes/{box}/run")
        self.at("rename").click()
        self.fill_form("rename-sandbox", title=HOSTILE)
        for tab in TABS:
            self.go(f"#/sandboxes/{box}/{tab}")
            expect(self.at(f"tab-{tab}")).to_be_visible()
            expect(self.at("sandbox-name")).to_contain_text("<b data-canary>")
            self.check_page(tab)
        self.page.keyboard.press("Control+k")
        expect(self.at("palette-hit").filter(has_text="data-canary").first).to_be_visible()
        self.check_page("the palette")
        self.page.keyboard.press("Escape")
        expect(self.at("settings-labels")).to_contain_text("<b data-canary>")

    def test_file_names_and_contents(self):
        box = self.create(name="files")
        script = (f"open({FILE!r}, 'w').write({HOSTILE!r}); import os; os.mkdir('<i data-canary>'); "
                  f"os.symlink('javascript:window.canary=1', 'link'); "
                  f"open('picture.svg', 'w').write({PICTURE!r}); open('page.html', 'w').write({HOSTILE!r})")
        self.server.put(path_of(box, "files/make.py"), script.encode())
        self.inside(box, "python3 make.py")
        self.open_box(box, "files")
        row = self.at("file-row").filter(has_text="<b data-canary>")
        expect(row).to_be_visible()
        self.check_page("the folder")
        for name in (FILE, "picture.svg", "page.html"):
            self.at("file-row").filter(has_text=name).get_by_test_id("file-open").click()
            expect(self.at("file-view")).to_be_visible()
            expect(self.at("file-editor").or_(self.at("file-image")).or_(self.at("file-no-preview"))).to_be_visible()
            self.check_page(name)
            self.at("dialog-close").click()
        self.at("file-open", self.at("file-row").filter(has_text="<i data-canary>")).click()
        expect(self.at("path-crumbs")).to_contain_text("<i data-canary>")
        self.check_page("a folder's name")

    def test_a_file_opened_directly_runs_nothing(self):
        """A download of the API is not a page of this origin."""
        box = self.create(name="direct", files={"page.html": "<script>document.title='ran'</script>" + HOSTILE})
        self.log_in()
        answer = self.visit.context.request.get(f"{self.server.url}{path_of(box, 'files/page.html')}")
        self.assertIn("nosniff", answer.headers.get("x-content-type-options", ""))
        self.assertTrue("attachment" in answer.headers.get("content-disposition", "") or
                        "sandbox" in answer.headers.get("content-security-policy", ""), answer.headers)

    def test_output_of_commands(self):
        box = self.create(name="output")
        self.open_box(box, "run")
        colours = f"printf '\\033[31mred\\033[0m\\033]0;{MARK}\\007 \\033[2J after'"
        self.at("run-input").fill(f"echo {json.dumps(HOSTILE)}; {colours}; echo '{MARK}' >&2; exit 1")
        self.at("run-input").press("Enter")
        expect(self.at("run-end")).to_be_visible()
        expect(self.at("run-output")).to_contain_text("<b data-canary>")
        self.check_page("run")
        self.server.post(path_of(box, "processes"), {"command": f"echo '{MARK}{SCRIPT}'; sleep 1000"})
        self.go(f"#/sandboxes/{box}/processes")
        expect(self.at("process-command")).to_contain_text("<b data-canary>")
        self.at("process-output").first.click()
        expect(self.at("process-output-text")).to_contain_text("<b data-canary>")
        self.check_page("processes")
        self.go(f"#/sandboxes/{box}/audit")
        expect(self.at("audit-table")).to_contain_text("data-canary")
        for one in self.at("audit-open").all():
            one.click()
        self.check_page("the audit")

    def test_a_terminal(self):
        box = self.create(name="terminal")
        self.open_box(box, "terminal")
        expect(self.at("terminal-status")).to_have_attribute("data-status", "open")
        self.page.locator(".xterm-screen").click()
        link = "\\033]8;;javascript:window.canary=1\\007link\\033]8;;\\007\\n"
        text = f"printf '%s\\n' '{MARK}{SCRIPT}'; printf '\\033]0;{MARK}\\007{link}'; echo d$((1))ne"
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Enter")
        expect(self.page.locator(".xterm-rows")).to_contain_text("d1ne")
        expect(self.at("terminal-tab")).to_contain_text("<b data-canary>")
        line = self.page.locator(".xterm-rows > div").filter(has_text=re.compile(r"^link\s*$"))
        line.click(position={"x": 10, "y": 5}, force=True)
        self.check_page("the terminal")
        self.assertEqual(len(self.visit.context.pages), 1)

    def test_answers_of_the_server(self):
        """An error that quotes its cause is text as well."""
        self.visit.allow(400, "*")
        self.visit.allow(404, "*")
        self.enter()
        self.at("new-sandbox").click()
        self.at("create-image").fill(HOSTILE)
        self.at("create-submit").click()
        expect(self.at("create-error")).to_be_visible()
        self.check_page("an error")
        self.go("#/sandboxes/" + "%3Cb%20data-canary%3E/run")
        self.check_page("an address")

    def test_labels_of_tokens(self):
        self.server.post("/api/v1/tokens", {"tenant": "default", "scopes": ["read"], "label": HOSTILE[:60]})
        self.enter("#/admin/tokens")
        expect(self.at("token-row").filter(has_text="<b data-canary>")).to_be_visible()
        self.check_page("tokens")


if __name__ == "__main__":
    main()
