"""Files: browse, look, edit, bring in, take out, and compare with the image."""

import base64
import io
import tarfile

from browser_case import BrowserCase, expect, main, path_of

DROP = """([items]) => {
  const transfer = new DataTransfer();
  for (const [name, text] of items) transfer.items.add(new File([text], name));
  return transfer;
}"""
PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
                         "rkJggg==")


class Explorer(BrowserCase):
    def setUp(self):
        super().setUp()
        self.box = self.create(name="files", files={"a.txt": "first\nsecond\n", "folder/b.txt": "below"})

    def file(self, name):
        return self.page.locator(f'[data-testid=file-row][data-name="{name}"]')

    def open_file(self, name):
        self.at("file-open", self.file(name)).click()
        expect(self.at("file-view")).to_be_visible()

    def content(self, path):
        return self.inside(self.box, f"cat '{path}'")

    def test_browse(self):
        self.open_box(self.box, "files")
        expect(self.file("a.txt")).to_be_visible()
        self.at("file-open", self.file("folder")).click()
        expect(self.at("tab-files")).to_have_attribute("data-path", "/workspace/folder")
        expect(self.file("b.txt")).to_be_visible()
        self.at("files-up").click()
        expect(self.file("a.txt")).to_be_visible()
        self.at("path-edit").click()
        self.at("path-input").fill("/etc")
        self.at("path-input").press("Enter")
        expect(self.file("passwd")).to_be_visible()

    def test_edit_and_save(self):
        self.open_box(self.box, "files")
        self.open_file("a.txt")
        expect(self.at("file-editor")).to_have_value("first\nsecond\n")
        self.at("file-editor").fill("first\nchanged\n")
        self.page.keyboard.press("Control+s")
        expect(self.at("toast-info")).to_contain_text("saved")
        self.assertEqual(self.content("a.txt"), "first\nchanged\n")
        self.at("dialog-close").click()
        expect(self.at("file-view")).to_have_count(0)

    def test_what_another_one_wrote_is_not_overwritten(self):
        self.visit.allow(412, "/api/v1/sandboxes/*/files/*")
        self.open_box(self.box, "files")
        self.open_file("a.txt")
        self.at("file-editor").fill("mine")
        self.inside(self.box, "echo theirs >a.txt")
        self.at("file-save").click()
        expect(self.at("dialog-conflict")).to_be_visible()
        self.assertEqual(self.content("a.txt"), "theirs\n")
        self.at("dialog-submit", self.at("dialog-conflict")).click()
        expect(self.at("dialog-conflict")).to_have_count(0)
        expect(self.at("toast-info")).to_contain_text("saved")
        self.assertEqual(self.content("a.txt"), "mine")

    def test_upload_by_drag(self):
        self.open_box(self.box, "files")
        expect(self.file("a.txt")).to_be_visible()
        transfer = self.page.evaluate_handle(DROP, [[["dropped.txt", "dropped text"], ["two words.txt", "x"]]])
        self.at("tab-files").dispatch_event("drop", {"dataTransfer": transfer})
        expect(self.file("dropped.txt")).to_be_visible()
        expect(self.file("two words.txt")).to_be_visible()
        self.assertEqual(self.content("dropped.txt"), "dropped text")

    def test_upload_by_choice(self):
        self.open_box(self.box, "files")
        expect(self.file("a.txt")).to_be_visible()
        self.at("files-picker").set_input_files(
            [{"name": "chosen.bin", "mimeType": "application/octet-stream", "buffer": bytes(range(256)) * 400}])
        expect(self.file("chosen.bin")).to_be_visible()
        self.assertEqual(self.inside(self.box, "wc -c <chosen.bin").strip(), "102400")

    def test_downloads(self):
        self.open_box(self.box, "files")
        with self.page.expect_download() as waiting:
            self.at("file-download", self.file("a.txt")).click()
        self.assertEqual(waiting.value.suggested_filename, "a.txt")
        with open(waiting.value.path(), "rb") as file:
            self.assertEqual(file.read(), b"first\nsecond\n")
        with self.page.expect_download() as waiting:
            self.at("file-download", self.file("folder")).click()
        with open(waiting.value.path(), "rb") as file, tarfile.open(fileobj=io.BytesIO(file.read())) as tar:
            self.assertTrue(any(name.endswith("b.txt") for name in tar.getnames()), tar.getnames())

    def test_new_rename_remove(self):
        self.open_box(self.box, "files")
        self.at("files-new").click()
        self.at("files-new-folder").click()
        self.fill_form("new-folder", name="made")
        expect(self.file("made")).to_have_attribute("data-type", "folder")
        self.at("file-rename", self.file("a.txt")).click()
        self.fill_form("rename", to="renamed.txt")
        expect(self.file("renamed.txt")).to_be_visible()
        expect(self.file("a.txt")).to_have_count(0)
        self.at("file-remove", self.file("folder")).click()
        self.fill_form("remove")
        expect(self.file("folder")).to_have_count(0)
        self.assertEqual(self.inside(self.box, "ls").split(), ["made", "renamed.txt"])

    def test_pictures_and_what_is_no_text(self):
        self.server.put(path_of(self.box, "files/dot.png"), PIXEL)
        self.inside(self.box, "printf 'a\\0b' >raw.bin; head -c 3000000 /dev/zero >big.txt")
        self.open_box(self.box, "files")
        self.open_file("dot.png")
        expect(self.at("file-image")).to_be_visible()
        self.assertEqual(self.at("file-image").evaluate("(image) => image.decode().then(() => image.naturalWidth)"), 1)
        for name in ("raw.bin", "big.txt"):
            self.at("dialog-close").click()
            self.open_file(name)
            expect(self.at("file-no-preview")).to_be_visible()

    def test_a_folder_of_many_files_is_shown_in_parts(self):
        self.inside(self.box, "mkdir many; cd many; seq -f 'f%05g' 1 2000 | xargs touch")
        self.open_box(self.box, "files")
        self.at("file-open", self.file("many")).click()
        expect(self.file("f00001")).to_be_visible()
        self.assertLessEqual(self.at("file-row").count(), 500)


class Changes(BrowserCase):
    """What is different from the image needs a store on disk."""

    stores = True

    def setUp(self):
        super().setUp()
        self.box = self.create(name="changes", storage="disk", filesystem={"root": "writable"})

    def change(self, path):
        return self.at("change").filter(has=self.page.get_by_text(path, exact=True))

    def test_against_the_image(self):
        self.inside(self.box, "echo fresh >new.txt")
        self.open_box(self.box, "files")
        self.at("files-diff").click()
        expect(self.change("/workspace/new.txt")).to_have_attribute("data-kind", "added")
        self.change("/workspace/new.txt").get_by_role("button").click()
        expect(self.at("patch")).to_contain_text("fresh")

    def test_against_a_snapshot(self):
        self.inside(self.box, "printf 'one\\ntwo\\n' >kept.txt; echo gone >gone.txt")
        shot = self.server.post(path_of(self.box, "snapshots"), {"name": "before"}).json
        self.inside(self.box, "printf 'one\\nTWO\\n' >kept.txt; rm gone.txt")
        self.open_box(self.box, "files")
        self.at("files-diff").click()
        self.at("diff-from").select_option(f"snapshot:{shot['id']}")
        expect(self.change("/workspace/gone.txt")).to_have_attribute("data-kind", "removed")
        expect(self.change("/workspace/kept.txt")).to_have_attribute("data-kind", "modified")
        self.change("/workspace/kept.txt").get_by_role("button").click()
        expect(self.at("patch")).to_contain_text("TWO")
        expect(self.at("patch")).to_contain_text("two")


if __name__ == "__main__":
    main()
