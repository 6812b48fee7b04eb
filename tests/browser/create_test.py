"""The dialog for a new sandbox: what is filled in there is what the sandbox is."""

from browser_case import BrowserCase, expect, main, path_of


class Create(BrowserCase):
    def open_dialog(self):
        self.enter()
        self.at("new-sandbox").click()
        expect(self.at("dialog-create")).to_be_visible()

    def submit(self):
        """Sends the form; the new sandbox's view, as the API has it."""
        self.at("create-submit").click()
        expect(self.at("screen-sandbox")).to_be_visible()
        expect(self.at("dialog-create")).to_have_count(0)
        box = self.at("sandbox-id").inner_text()
        self.addCleanup(self.server.delete, path_of(box))
        return self.server.get(path_of(box)).json

    def test_nothing_filled_in_is_enough(self):
        self.open_dialog()
        view = self.submit()
        self.assertEqual((view["image"], view["state"]), ("host", "running"))
        expect(self.at("tab-terminal")).to_be_visible()

    def test_everything_filled_in(self):
        self.open_dialog()
        for name, value in {"name": "full", "cpu": "0.5", "memory": "300", "processes": "50", "timeout": "10m",
                            "rules": "good.test 443\n*.zone.test"}.items():
            self.at(f"create-{name}").fill(value)
        self.at("create-more").click()
        self.at("create-env").fill("GREETING=good morning")
        self.at("create-labels").fill("team=blue\nstage=one")
        self.at("create-hostname").fill("boxhost")
        self.at("create-add-file").click()
        self.at("create-file-path-0").fill("hello.txt")
        self.at("create-file-text-0").fill("from the dialog")
        view = self.submit()
        limits = view["resource_limits"]
        self.assertEqual(view["name"], "full")
        self.assertEqual((limits["cpu"], limits["memory_mb"], limits["processes"]), (0.5, 300, 50))
        self.assertEqual((view["labels"]["team"], view["labels"]["stage"]), ("blue", "one"))
        self.assertEqual([rule["domain"] for rule in view["network"]["rules"]], ["good.test", "*.zone.test"])
        self.assertIsNotNone(view["expires_at"])
        self.assertEqual(self.inside(view["id"], 'echo "$GREETING"; hostname; cat hello.txt'),
                         "good morning\nboxhost\nfrom the dialog")

    def test_a_mistake_is_told_and_nothing_is_lost(self):
        self.open_dialog()
        self.at("create-name").fill("kept")
        self.at("create-memory").fill("much")
        self.at("create-submit").click()
        expect(self.at("create-error")).to_be_visible()
        self.visit.allow(400, "/api/v1/sandboxes")
        self.at("create-memory").fill("99999999")
        self.at("create-submit").click()
        expect(self.at("create-error")).to_contain_text("memory")
        expect(self.at("create-name")).to_have_value("kept")
        self.at("create-memory").fill("200")
        self.assertEqual(self.submit()["name"], "kept")

    def test_an_example_with_a_command(self):
        self.open_dialog()
        self.at("create-examples").click()
        self.at("create-examples-web").click()
        expect(self.at("create-name")).to_have_value("web")
        view = self.submit()
        self.assertEqual(view["name"], "web")
        expect(self.at("process-command")).to_contain_text("http.server")

    def test_left_again(self):
        before = self.server.get("/api/v1/sandboxes").json["sandboxes"]
        self.open_dialog()
        self.page.keyboard.press("Escape")
        expect(self.at("dialog-create")).to_have_count(0)
        self.at("new-sandbox").click()
        self.at("create-cancel").click()
        expect(self.at("dialog-create")).to_have_count(0)
        self.assertEqual(self.server.get("/api/v1/sandboxes").json["sandboxes"], before)


if __name__ == "__main__":
    main()
