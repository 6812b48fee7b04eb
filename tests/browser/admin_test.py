"""What administrators do: tokens, users, secrets; what others are not even offered; images and volumes."""

from browser_case import BrowserCase, expect, main, path_of


class Tokens(BrowserCase):
    def row(self, label):
        return self.at("token-row").filter(has_text=label)

    def make(self, label, *without):
        self.enter("#/admin/tokens")
        self.at("token-new").click()
        self.at("field-label").fill(label)
        for scope in without:
            self.at(f"field-scope-{scope}").uncheck()
        self.at("dialog-submit").click()
        secret = self.at("fresh-token").inner_text()
        self.assertTrue(secret.startswith("cais_"), secret)
        return secret

    def test_a_token_is_shown_once_and_works_until_it_is_withdrawn(self):
        secret = self.make("for-ci")
        self.at("fresh-token-copy").click()
        self.page.wait_for_function("(secret) => navigator.clipboard.readText().then((text) => text === secret)",
                                    arg=secret)
        self.at("fresh-token-done").click()
        expect(self.row("for-ci")).to_be_visible()
        self.page.reload()
        expect(self.row("for-ci")).to_be_visible()
        self.assertNotIn(secret, self.page.content())
        self.assertEqual(self.server.get("/api/v1/sandboxes", token=secret).status, 200)
        self.at("token-withdraw", self.row("for-ci")).click()
        self.fill_form("withdraw")
        expect(self.at("token-state", self.row("for-ci"))).to_have_text("withdrawn")
        self.assertEqual(self.server.get("/api/v1/sandboxes", token=secret).status, 401)

    def test_who_may_only_look_is_offered_nothing_else(self):
        box = self.create(name="shown")
        secret = self.make("viewer", "use", "create")
        other = self.new_visit()
        self.log_in(secret, other)
        page = other.page
        page.goto(f"{self.server.url}/")
        expect(page.get_by_test_id("sandbox-row")).to_have_count(1)
        for name in ("new-sandbox", "nav-admin"):
            expect(page.get_by_test_id(name)).to_have_count(0)
        page.keyboard.press("n")
        expect(page.get_by_test_id("dialog-create")).to_have_count(0)
        page.goto(f"{self.server.url}/#/sandboxes/{box}/files")
        expect(page.get_by_test_id("tab-files")).to_be_visible()
        for name in ("pause", "fork", "snapshot", "destroy", "files-upload", "file-remove"):
            expect(page.get_by_test_id(name)).to_have_count(0)

    def test_a_withdrawn_token_ends_its_sessions(self):
        secret = self.make("leaver")
        self.at("fresh-token-done").click()
        other = self.new_visit()
        other.allow(401, "*")
        other.allowed_errors.append("ERR_INCOMPLETE_CHUNKED_ENCODING")  # its stream of events is cut
        self.log_in(secret, other)
        other.page.goto(f"{self.server.url}/")
        expect(other.page.get_by_test_id("screen-list")).to_be_visible()
        self.at("token-withdraw", self.row("leaver")).click()
        self.fill_form("withdraw")
        expect(self.at("token-state", self.row("leaver"))).to_have_text("withdrawn")
        other.page.get_by_test_id("nav-images").click()
        expect(other.page.get_by_test_id("screen-login")).to_be_visible()


class Users(BrowserCase):
    def user(self, tenant):
        return self.page.locator(f'[data-testid=user-row][data-tenant="{tenant}"]')

    def test_a_user_and_a_token_for_it(self):
        self.enter("#/admin/users")
        self.at("user-new").click()
        self.fill_form("user", tenant="red", name="Rosa", email="rosa@example.org")
        expect(self.user("red")).to_contain_text("Rosa")
        self.at("user-token", self.user("red")).click()
        self.at("dialog-submit").click()
        secret = self.at("fresh-token").inner_text()
        self.at("fresh-token-done").click()
        mine = self.create(name="of-the-administrator")
        other = self.new_visit()
        self.log_in(secret, other)
        other.page.goto(f"{self.server.url}/")
        expect(other.page.get_by_test_id("who-name")).to_have_text("Rosa")
        expect(other.page.get_by_test_id("list-empty")).to_be_visible()
        self.assertEqual(self.server.get(path_of(mine), token=secret).status, 404)
        self.at("user-edit", self.user("red")).click()
        self.fill_form("user", name="Rosalind")
        expect(self.user("red")).to_contain_text("Rosalind")

    def test_removed(self):
        self.enter("#/admin/users")
        self.at("user-new").click()
        self.fill_form("user", tenant="blue", name="Bo")
        self.at("user-remove", self.user("blue")).click()
        self.fill_form("remove-user")
        expect(self.user("blue")).to_have_count(0)


class Others(BrowserCase):
    stores = True

    def test_secrets_go_in_and_never_out(self):
        self.enter("#/admin/secrets")
        self.at("secret-new").click()
        self.fill_form("secret", name="github", value="canary-of-the-secret")
        expect(self.at("secret-row").filter(has_text="github")).to_be_visible()
        self.page.reload()
        expect(self.at("secret-row")).to_have_count(1)
        self.assertNotIn("canary-of-the-secret", self.page.content())
        self.at("secret-remove").click()
        self.fill_form("remove-secret")
        expect(self.at("secrets-none")).to_be_visible()

    def test_storage_and_metrics(self):
        self.enter("#/admin/storage")
        expect(self.at("panel-storage")).to_be_visible()
        self.at("admin-metrics").click()
        expect(self.at("metric-row").first).to_be_visible()

    def test_volumes(self):
        self.enter("#/volumes")
        expect(self.at("volumes-none")).to_be_visible()
        self.at("volume-new").click()
        self.fill_form("volume", name="cache", size="64")
        row = self.page.locator('[data-testid=volume-row][data-name="cache"]')
        expect(row).to_contain_text("64")
        self.at("volume-remove", row).click()
        self.fill_form("remove-volume")
        expect(row).to_have_count(0)

    def test_an_image_that_cannot_be_pulled(self):
        self.visit.allow(502, "/api/v1/images/pull")
        self.enter("#/images")
        self.at("image-pull").click()
        self.fill_form("pull", reference="127.0.0.1:9/none:1")
        expect(self.at("dialog-pull-failed")).to_be_visible()


if __name__ == "__main__":
    main()
