"""The audit in the console: rows, filters, the verdict about the chain, and what was changed behind its back."""

import contextlib
import sqlite3

from browser_case import BrowserCase, expect, main, path_of


class Record(BrowserCase):
    def test_rows_and_filters(self):
        box = self.create(name="seen")
        self.inside(box, "true")
        self.enter("#/audit")
        expect(self.at("audit-row").first).to_be_visible()
        self.at("audit-sandbox").fill(box)
        self.at("audit-action").fill("sandbox.")
        self.at("audit-apply").click()
        row = self.page.locator('[data-testid=audit-row][data-action="sandbox.create"]')
        expect(row).to_have_count(1)
        self.at("audit-open", row).click()
        expect(self.at("audit-detail")).to_contain_text("request")
        self.at("audit-outcome").select_option("denied")
        self.at("audit-apply").click()
        expect(self.at("audit-none")).to_be_visible()

    def test_older_rows(self):
        box = self.create(name="busy")
        for _ in range(110):
            self.inside(box, "true")
        self.enter("#/audit")
        expect(self.at("audit-row")).to_have_count(100)
        self.at("audit-older").click()
        expect(self.at("audit-row").nth(100)).to_be_visible()

    def test_of_one_sandbox(self):
        one, other = self.create(name="one"), self.create(name="other")
        for box in (one, other):
            self.inside(box, f"echo {box}")
        self.open_box(one, "audit")
        expect(self.page.locator('[data-testid=audit-row][data-action="exec"]')).to_have_count(1)
        expect(self.at("audit-table")).not_to_contain_text(other[:12])

    def test_verify(self):
        self.create(name="chained")
        self.enter("#/audit")
        self.at("verify").click()
        expect(self.at("verify-result")).to_have_attribute("data-intact", "true")


class Changed(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.delete(path_of(cls.server.create(name="genuine")))
        cls.server.stop()
        with contextlib.closing(sqlite3.connect(cls.server.state / "server/caisson.db")) as database, database:
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                database.execute(f"DROP TRIGGER {name}")
            database.execute("UPDATE audit SET object = 'another story' WHERE sequence = 2")
        cls.server.start()

    def test_a_row_that_was_changed_is_found(self):
        self.enter("#/audit")
        self.at("verify").click()
        expect(self.at("verify-result")).to_have_attribute("data-intact", "false")
        expect(self.at("verify-result")).to_contain_text("at row 2")


if __name__ == "__main__":
    main()
