"""How it looks and how it is reached: dark and light, by keyboard alone, on a phone."""

from browser_case import BrowserCase, expect, main, path_of

DARK = r"""(element) => {
  const [r, g, b] = getComputedStyle(element).backgroundColor.match(/\d+/g).map(Number);
  return r + g + b < 300;
}"""
OUTLINE = """() => {
  const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(document.activeElement);
  return [outlineStyle, outlineWidth, boxShadow];
}"""
WIDER = """() => {
  const most = document.documentElement.clientWidth;
  return document.documentElement.scrollWidth > most ? document.documentElement.scrollWidth : 0;
}"""
SCREENS = ("", "#/images", "#/volumes", "#/audit", "#/admin/tokens", "#/admin/users", "#/admin/secrets",
           "#/admin/storage", "#/admin/metrics", "#/settings")
TABS = ("terminal", "run", "processes", "files", "snapshots", "network", "budget", "audit", "settings")


class Theme(BrowserCase):
    def is_dark(self, page=None):
        return (page or self.page).locator("body").evaluate(DARK)

    def test_the_toggle_is_remembered(self):
        self.enter()
        expect(self.at("screen-list")).to_be_visible()
        self.assertFalse(self.is_dark())
        self.at("theme-toggle").click()
        self.assertTrue(self.is_dark())
        self.page.reload()
        expect(self.at("screen-list")).to_be_visible()
        self.assertTrue(self.is_dark())
        self.go("#/settings")
        self.at("theme-system").check()
        self.assertFalse(self.is_dark())

    def test_as_the_system_has_it(self):
        dark = self.new_visit(color_scheme="dark")
        dark.page.goto(self.server.url)
        expect(dark.page.get_by_test_id("screen-login")).to_be_visible()
        self.assertTrue(self.is_dark(dark.page))


class Keyboard(BrowserCase):
    """Not one click."""

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def focused(self):
        return self.page.evaluate("document.activeElement.closest('[data-testid]')?.dataset.testid")

    def tab_to(self, testid, most=60):
        for _ in range(most):
            if self.focused() == testid:
                return
            self.press("Tab")
        self.fail(f"Tab did not reach {testid}, but {self.focused()}")

    def test_from_the_login_to_a_command(self):
        self.go()
        expect(self.at("login-token")).to_be_focused()
        self.page.keyboard.type(self.server.token)
        self.press("Enter")
        expect(self.at("list-empty")).to_be_visible()
        self.press("n")
        expect(self.at("dialog-create")).to_be_visible()
        self.tab_to("create-name")
        self.page.keyboard.type("by-keys")
        self.press("Enter")
        expect(self.at("sandbox-name")).to_have_text("by-keys")
        box = self.at("sandbox-id").inner_text()
        self.addCleanup(self.server.delete, path_of(box))
        expect(self.at("terminal-status")).to_have_attribute("data-status", "open")
        expect(self.page.locator(".xterm-helper-textarea")).to_be_focused()
        self.page.keyboard.type("echo $((30 + 3))keys")
        self.press("Enter")
        expect(self.page.locator(".xterm-rows")).to_contain_text("33keys")

    def test_the_tree(self):
        root = self.create(name="aroot")
        child = self.server.post(path_of(root, "fork"), {"name": "achild"}).json["id"]
        self.addCleanup(self.server.delete, path_of(child))
        self.enter()
        expect(self.row(child)).to_be_visible()
        self.tab_to("sandbox-row")
        self.press("Home")
        expect(self.row(root)).to_be_focused()
        self.press("ArrowLeft")
        expect(self.row(child)).to_have_count(0)
        self.press("ArrowRight")
        expect(self.row(child)).to_be_visible()
        self.press("ArrowDown")
        expect(self.row(child)).to_be_focused()
        self.press("ArrowLeft")
        expect(self.row(root)).to_be_focused()
        self.press("ArrowDown", "Enter")
        expect(self.at("sandbox-id")).to_have_text(child)

    def test_search_and_help(self):
        box = self.create(name="needle")
        self.enter("#/images")
        expect(self.at("screen-images")).to_be_visible()
        self.press("?")
        expect(self.at("shortcuts")).to_be_visible()
        self.press("Escape")
        expect(self.at("shortcuts")).to_have_count(0)
        self.press("Control+k")
        expect(self.at("palette-input")).to_be_focused()
        self.page.keyboard.type("needle")
        expect(self.at("palette-hit").first).to_contain_text("needle")
        self.press("Enter")
        expect(self.at("sandbox-id")).to_have_text(box)

    def test_a_filter_and_back(self):
        self.create(name="here")
        self.enter()
        expect(self.at("sandbox-row").first).to_be_visible()
        self.press("/")
        expect(self.at("list-filter")).to_be_focused()
        self.page.keyboard.type("nothing-like-it")
        expect(self.at("list-none")).to_be_visible()

    def test_where_the_focus_is_can_be_seen(self):
        self.enter("#/settings")
        expect(self.at("screen-settings")).to_be_visible()
        seen = set()
        for _ in range(12):
            self.press("Tab")
            style = self.page.evaluate(OUTLINE)
            seen.add(self.focused())
            self.assertTrue((style[0] != "none" and style[1] != "0px") or style[2] != "none", (self.focused(), style))
        self.assertGreater(len(seen), 5)

    def test_a_dialog_keeps_the_focus_and_gives_it_back(self):
        box = self.create(name="dialogs")
        self.open_box(box)
        self.tab_to("fork")
        self.press("Enter")
        expect(self.at("field-name")).to_be_focused()
        for _ in range(12):
            self.press("Tab")
            self.assertTrue(self.page.evaluate(
                "document.activeElement === document.body || document.activeElement.closest('dialog') !== null"))
        self.press("Escape")
        expect(self.at("dialog-fork")).to_have_count(0)
        expect(self.at("fork")).to_be_focused()


class Phone(BrowserCase):
    wish = {"viewport": {"width": 375, "height": 700}, "has_touch": True, "is_mobile": True}
    stores = True

    def check_width(self, where):
        self.assertEqual(self.page.evaluate(WIDER), 0, f"{where} is wider than a phone")

    def test_the_login(self):
        self.go()
        expect(self.at("login-submit")).to_be_in_viewport()
        self.check_width("the login")

    def test_every_screen_fits(self):
        box = self.create(name="a-name-that-is-rather-long-for-a-small-screen", labels={"team": "blue" * 10})
        self.enter()
        expect(self.row(box)).to_be_visible()
        for route in SCREENS:
            self.go(route)
            expect(self.page.locator("h1").first).to_be_visible()
            expect(self.at("nav-sandboxes")).to_be_in_viewport()
            self.check_width(route or "the list")
        for tab in TABS:
            self.go(f"#/sandboxes/{box}/{tab}")
            expect(self.at(f"tab-{tab}")).to_be_visible()
            self.check_width(tab)

    def test_a_sandbox_is_made_and_used(self):
        self.enter()
        self.at("new-sandbox").tap()
        self.at("create-name").fill("pocket")
        self.check_width("the dialog")
        self.at("create-submit").tap()
        expect(self.at("sandbox-name")).to_have_text("pocket")
        self.addCleanup(self.server.delete, path_of(self.at("sandbox-id").inner_text()))
        self.at("tab-link-run").tap()
        self.at("run-input").fill("echo on-a-phone")
        self.at("run-submit").tap()
        expect(self.at("run-output")).to_contain_text("on-a-phone")


if __name__ == "__main__":
    main()
