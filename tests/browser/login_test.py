"""Who comes in, who does not, and what is left in the browser when somebody leaves."""

from browser_case import BrowserCase, expect, main


class Login(BrowserCase):
    def type_token(self, token):
        self.at("login-token").fill(token)
        self.at("login-submit").click()

    def test_a_wrong_token_is_told_and_stays_out(self):
        self.visit.allow(401, "/auth/token")
        self.go()
        self.type_token("cais_" + "a" * 52)
        expect(self.at("login-error")).to_be_visible()
        expect(self.at("screen-login")).to_be_visible()
        self.assertEqual(self.visit.context.cookies(), [])

    def test_an_empty_token_asks_nobody(self):
        self.go()
        self.type_token("  ")
        expect(self.at("login-error")).to_be_visible()

    def test_in_and_out(self):
        self.go("#/images")
        self.type_token(self.server.token)
        expect(self.at("screen-images")).to_be_visible()
        expect(self.at("who")).to_be_visible()
        self.page.reload()
        expect(self.at("screen-images")).to_be_visible()
        self.at("logout").click()
        expect(self.at("screen-login")).to_be_visible()
        self.page.reload()
        expect(self.at("screen-login")).to_be_visible()
        self.assertEqual(self.visit.context.request.get(f"{self.server.url}/api/v1/sandboxes").status, 401)

    def test_no_script_can_read_what_lets_in(self):
        self.go()
        self.type_token(self.server.token)
        expect(self.at("screen-list")).to_be_visible()
        cookies = self.visit.context.cookies()
        self.assertEqual([(one["httpOnly"], one["path"]) for one in cookies], [(True, "/")])
        self.assertIn(cookies[0]["sameSite"], ("Strict", "Lax"))
        kept = self.page.evaluate(
            "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, location.href])")
        secret = self.server.token.split("_")[-1]
        self.assertNotIn(secret, kept)
        self.assertNotIn(cookies[0]["value"], kept)
        self.assertNotIn(secret, self.page.content())

    def test_a_session_that_ends_leads_to_the_login(self):
        self.visit.allow(401, "*")
        self.enter()
        expect(self.at("screen-list")).to_be_visible()
        self.visit.context.clear_cookies()
        self.at("nav-images").click()
        expect(self.at("screen-login")).to_be_visible()


class Open(BrowserCase):
    flags = ("--open",)

    def test_an_open_server_asks_for_nothing(self):
        self.go()
        expect(self.at("screen-list")).to_be_visible()
        expect(self.at("logout")).to_have_count(0)


if __name__ == "__main__":
    main()
