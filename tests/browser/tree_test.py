"""The list of sandboxes: a tree of forks that follows what happens elsewhere."""

from browser_case import BrowserCase, expect, main, path_of


class Tree(BrowserCase):
    def fork(self, box, **wish):
        answer = self.server.post(path_of(box, "fork"), wish)
        self.assertEqual(answer.status, 201, answer.body)
        self.addCleanup(self.server.delete, path_of(answer.json["id"]))
        return answer.json["id"]

    def names(self):
        return self.at("row-link").all_inner_texts()

    def test_an_empty_server_says_how_to_begin(self):
        self.enter()
        expect(self.at("list-empty")).to_be_visible()

    def test_forks_stand_below_what_they_came_from(self):
        root = self.create(name="root")
        other = self.create(name="other")
        child = self.fork(root, name="child")
        grandchild = self.fork(child, name="grandchild")
        self.enter()
        for box, level in ((root, 1), (child, 2), (grandchild, 3), (other, 1)):
            expect(self.row(box)).to_have_attribute("aria-level", str(level))
        order = self.names()
        self.assertEqual([one for one in order if one != "other"], ["root", "child", "grandchild"])
        self.at("row-toggle", self.row(root)).click()
        expect(self.row(child)).to_have_count(0)
        expect(self.row(grandchild)).to_have_count(0)
        expect(self.row(other)).to_be_visible()
        self.at("row-toggle", self.row(root)).click()
        expect(self.row(grandchild)).to_be_visible()

    def test_it_follows_what_others_do(self):
        self.enter()
        box = self.create(name="from-elsewhere")
        expect(self.row(box)).to_be_visible()
        expect(self.row(box).locator("[data-state]")).to_have_attribute("data-state", "running")
        self.server.post(path_of(box, "pause"))
        expect(self.row(box).locator("[data-state]")).to_have_attribute("data-state", "paused")
        self.server.post(path_of(box, "resume"))
        expect(self.row(box).locator("[data-state]")).to_have_attribute("data-state", "running")
        self.server.delete(path_of(box))
        expect(self.row(box)).to_have_count(0)
        self.at("show-ended").check()
        expect(self.row(box)).to_be_visible()

    def test_filter(self):
        keep = self.create(name="alpha", labels={"team": "blue"})
        hide = self.create(name="beta")
        self.enter()
        expect(self.row(hide)).to_be_visible()
        for words in ("alph", "team=blue", keep[:10], "BLUE alpha"):
            self.at("list-filter").fill(words)
            expect(self.row(hide)).to_have_count(0)
            expect(self.row(keep)).to_be_visible()
        self.at("list-filter").fill("no such thing")
        expect(self.at("list-none")).to_be_visible()

    def test_time_left_and_usage(self):
        box = self.create(name="short", resource_limits={"timeout_seconds": 3000})
        free = self.create(name="long")
        self.enter()
        expect(self.at("row-left", self.row(box))).to_contain_text("m")
        expect(self.row(free)).to_be_visible()
        # Two readings make a line.
        expect(self.row(box).get_by_label("memory").first).to_be_visible()
        expect(self.row(box).locator("svg polyline, svg path").first).to_be_attached()

    def test_a_row_leads_to_its_sandbox(self):
        box = self.create(name="chosen")
        self.enter()
        self.at("row-link", self.row(box)).click()
        expect(self.at("sandbox-name")).to_have_text("chosen")
        expect(self.at("sandbox-id")).to_have_text(box)


if __name__ == "__main__":
    main()
