"""The life of a sandbox in the header and the tab of snapshots: pause, stop, fork, snapshot, undo, destroy."""

from browser_case import BrowserCase, expect, main, path_of


class Life(BrowserCase):
    stores = True

    def state(self, word):
        expect(self.at("sandbox-state")).to_have_text(word)

    def test_pause_and_resume(self):
        box = self.create(name="life")
        self.open_box(box)
        self.state("running")
        self.at("pause").click()
        self.state("paused")
        self.assertEqual(self.server.get(path_of(box)).json["state"], "paused")
        self.at("resume").click()
        self.state("running")

    def test_one_that_rests_wakes_by_itself(self):
        box = self.create(name="idle", resource_limits={"rest_seconds": 1})
        self.enter("#/sandboxes")
        dot = self.row(box).locator(".dot")
        expect(dot).to_have_attribute("data-state", "resting", timeout=20000)
        never = self.server.request("PATCH", path_of(box, "limits"), {"rest_seconds": 0})
        self.assertEqual(never.status, 200, never.body)
        self.inside(box, "true")
        expect(dot).to_have_attribute("data-state", "running", timeout=20000)

    def test_stop_and_start(self):
        box = self.create(name="kept", persistent=True)
        self.inside(box, "echo still-here >note")
        self.open_box(box)
        self.at("stop").click()
        self.state("stopped")
        self.at("start").click()
        self.state("running")
        self.assertEqual(self.inside(box, "cat note"), "still-here\n")

    def test_destroy_asks_first(self):
        box = self.create(name="doomed")
        self.open_box(box)
        self.at("destroy").click()
        self.at("dialog-cancel").click()
        self.state("running")
        self.at("destroy").click()
        self.fill_form("destroy")
        expect(self.at("screen-list")).to_be_visible()
        expect(self.row(box)).to_have_count(0)
        self.assertIn(self.server.get(path_of(box)).status, (404, 410))

    def test_an_end_elsewhere_is_seen_here(self):
        box = self.create(name="ends")
        self.open_box(box)
        self.state("running")
        self.server.delete(path_of(box))
        self.state("ended")
        expect(self.at("destroy")).to_have_count(0)

    def test_one_that_does_not_exist(self):
        self.visit.allow(404, "/api/v1/sandboxes/*")
        self.enter("#/sandboxes/aaaaaaaaaaaaaaaaaaaaaaaaaa/run")
        expect(self.at("sandbox-missing")).to_be_visible()

    def test_fork(self):
        box = self.create(name="parent", storage="disk")
        self.inside(box, "echo shared >note")
        self.open_box(box)
        self.at("fork").click()
        self.fill_form("fork", name="offspring")
        expect(self.at("sandbox-name")).to_have_text("offspring")
        child = self.at("sandbox-id").inner_text()
        self.addCleanup(self.server.delete, path_of(child))
        self.inside(child, "echo own >>note")
        self.assertEqual(self.inside(child, "cat note"), "shared\nown\n")
        self.assertEqual(self.inside(box, "cat note"), "shared\n")
        self.at("parent-link").click()
        expect(self.at("sandbox-id")).to_have_text(box)
        expect(self.at("child-link")).to_have_text("offspring")

    def test_another_title(self):
        box = self.create(name="plain")
        self.open_box(box)
        self.at("rename").click()
        self.fill_form("rename-sandbox", title="A better title")
        expect(self.at("sandbox-name")).to_have_text("A better title")
        self.go()
        expect(self.at("row-link", self.row(box))).to_have_text("A better title")
        self.assertEqual(self.server.get(path_of(box)).json["name"], "plain")

    def test_undo(self):
        box = self.create(name="steps", storage="disk", checkpoint="each_call")
        for step in ("one", "two"):
            answer = self.server.post(path_of(box, "tools/execute"), {
                "tool": "file_write", "arguments": {"path": "note", "content": step}})
            self.assertEqual(answer.status, 200, answer.body)
        self.open_box(box)
        self.at("undo").click()
        self.fill_form("undo", calls="1")
        expect(self.at("toast-info")).to_be_visible()
        self.assertEqual(self.server.get(path_of(box, "files/note")).body, b"one")


class Snapshots(BrowserCase):
    stores = True

    def setUp(self):
        super().setUp()
        self.box = self.create(name="origin", storage="disk")
        self.inside(self.box, "echo before >note")
        self.open_box(self.box, "snapshots")

    def take(self, name):
        self.at("take-snapshot").click()
        self.fill_form("snapshot", name=name)
        row = self.at("snapshot-row").filter(has_text=name)
        expect(row).to_be_visible()
        self.addCleanup(self.server.delete, f"/api/v1/snapshots/{row.get_attribute('data-id')}")
        return row

    def test_take_and_go_back(self):
        expect(self.at("snapshots-none")).to_be_visible()
        row = self.take("safe")
        self.inside(self.box, "echo after >note; touch more")
        self.at("snapshot-back", row).click()
        self.fill_form("back")
        expect(self.at("toast-info").last).to_contain_text("Back at safe")
        self.assertEqual(self.inside(self.box, "ls; cat note"), "note\nbefore\n")

    def test_going_back_under_a_running_process_says_why_not(self):
        row = self.take("calm")
        self.visit.allow(409, "/api/v1/sandboxes/*/undo")
        self.server.post(path_of(self.box, "processes"), {"command": "sleep 1000"})
        self.at("snapshot-back", row).click()
        self.at("dialog-submit").click()
        expect(self.at("dialog-error")).to_be_visible()
        self.at("field-end").check()
        self.fill_form("back")
        self.assertEqual(self.inside(self.box, "cat note"), "before\n")

    def test_a_new_one_from_it(self):
        row = self.take("seed")
        self.at("snapshot-fork", row).click()
        self.at("create-name").fill("grown")
        self.at("create-submit").click()
        expect(self.at("sandbox-name")).to_have_text("grown")
        grown = self.at("sandbox-id").inner_text()
        self.addCleanup(self.server.delete, path_of(grown))
        self.assertEqual(self.inside(grown, "cat note"), "before\n")

    def test_the_picture_of_the_family(self):
        self.take("first")
        answer = self.server.post(path_of(self.box, "fork"), {"name": "branch"})
        self.addCleanup(self.server.delete, path_of(answer.json["id"]))
        expect(self.at("family-sandbox").filter(has_text="branch")).to_be_visible()
        expect(self.at("family-sandbox").filter(has_text="origin")).to_be_visible()
        expect(self.at("family-snapshot").filter(has_text="first")).to_be_visible()
        self.at("family-sandbox").filter(has_text="branch").click()
        expect(self.at("sandbox-name")).to_have_text("branch")

    def test_an_image_of_it(self):
        row = self.take("baked")
        self.at("snapshot-build", row).click()
        self.fill_form("build", reference="baked:1")
        self.at("nav-images").click()
        image = self.at("image-row").filter(has_text="baked:1")
        expect(image).to_be_visible()
        self.at("image-remove", image).click()
        self.fill_form("remove-image")
        expect(image).to_have_count(0)

    def test_remove(self):
        row = self.take("unwanted")
        self.at("snapshot-remove", row).click()
        self.fill_form("remove-snapshot")
        expect(row).to_have_count(0)


if __name__ == "__main__":
    main()
