"""The way out of a sandbox, as a person sees and changes it: rules, what was denied, "allow this", ports, budgets."""

import functools
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import chromium  # noqa: E402, F401  (first: it may start this program again)
import way_out  # noqa: E402

if __name__ == "__main__":
    way_out.enter_own_world()  # before the first thread

from browser_case import BrowserCase, Server, expect, main, path_of  # noqa: E402
from upstream import Dns, Web  # noqa: E402
from way_out import PUBLIC, allowlist, rule  # noqa: E402


LOG_IN = """(token) => fetch('/auth/token', {
  method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({token}),
}).then((answer) => answer.status)"""


@functools.cache
def world():
    """A name server and a web server of the test's own."""
    dns = Dns()
    for name in ("good.test", "other.test"):
        dns.set(name, PUBLIC)
    return dns, Web(port=80)


class NetworkCase(BrowserCase):
    @classmethod
    def setUpClass(cls):
        dns, cls.web = world()
        cls.config = f'egress: {{dns_servers: ["{dns.address}"]}}\n'
        super().setUpClass()

    def fetch(self, box, url="http://other.test/"):
        return self.server.post(path_of(box, "exec"), {
            "command": f"curl -s -o /dev/null -w '%{{http_code}}' {url}"}).json["stdout"]

    def rule_row(self, domain):
        return self.page.locator(f'[data-testid=rule-row][data-domain="{domain}"]')


class Rules(NetworkCase):
    def test_allow_this(self):
        box = self.create(name="curious", network=allowlist(rule("good.test", 80)))
        self.assertEqual(self.fetch(box), "403")
        self.open_box(box, "network")
        row = self.at("egress-row").filter(has_text="other.test").first
        expect(row).to_have_attribute("data-outcome", "denied")
        self.at("egress-allow", row).click()
        expect(self.rule_row("other.test")).to_be_visible()
        self.assertEqual(self.fetch(box), "200")
        expect(self.page.locator('[data-testid=egress-row][data-outcome=allowed]').filter(has_text="other.test").first
               ).to_be_visible()
        self.at("egress-denied-only").check()
        expect(self.page.locator('[data-testid=egress-row][data-outcome=allowed]')).to_have_count(0)
        self.assertEqual({one["domain"] for one in self.server.get(path_of(box)).json["network"]["rules"]},
                         {"good.test", "other.test"})

    def test_a_rule_by_hand(self):
        box = self.create(name="closed")
        self.open_box(box, "network")
        expect(self.at("network-mode")).to_have_text("no network")
        self.at("rule-add").click()
        self.at("rule-domain-0").fill("other.test")
        self.at("rule-ports-0").fill("80")
        self.at("rules-save").click()
        expect(self.at("network-mode")).to_have_text("allowlist")
        self.assertEqual(self.fetch(box), "200")
        self.at("rule-remove-0").click()
        self.at("rules-save").click()
        expect(self.rule_row("other.test")).to_have_count(0)
        self.assertNotEqual(self.fetch(box), "200")

    def test_a_rule_that_cannot_be(self):
        self.visit.allow(400, "/api/v1/sandboxes/*/network")
        box = self.create(name="strict")
        self.open_box(box, "network")
        self.at("rule-add").click()
        self.at("rule-domain-0").fill("127.0.0.1")
        self.at("rules-save").click()
        expect(self.at("toast-error")).to_contain_text("domain")
        expect(self.at("toast-error")).to_contain_text("request")
        self.assertEqual(self.server.get(path_of(box)).json["network"]["rules"], [])


class Ports(NetworkCase):
    def test_a_port_without_a_domain_for_previews(self):
        self.visit.allow(501, "/api/v1/sandboxes/*/previews")
        box = self.create(name="web", files={"index.html": "<title>inside</title>"})
        self.server.post(path_of(box, "processes"), {"command": "python3 -m http.server 8123"})
        self.open_box(box, "network")
        expect(self.page.locator('[data-testid=port][data-port="8123"]')).to_be_visible()
        self.at("port-open-8123").click()
        with self.page.expect_popup() as opening:
            self.at("preview-open").click()
        expect(opening.value).to_have_title("inside")


class Previews(NetworkCase):
    """A server with a domain for previews; the port is this world's own."""

    url = "http://box.localhost:8088"
    places = (".box.localhost:8088",)
    flags = ("--listen", "127.0.0.1:8088", "--vhost", url)

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags)
        cls.addClassCleanup(cls.server.close)
        cls.server.start(listen=False)

    def log_in(self, token=None, visit=None):
        """By the page: only a browser knows that names below localhost are this machine."""
        page = (visit or self.visit).page
        page.goto(self.url)
        self.assertEqual(page.evaluate(LOG_IN, token or self.server.token), 200)
        page.goto("about:blank")

    def open_port(self):
        box = self.create(name="site", files={"index.html": "<title>preview</title><h1>from inside</h1>"})
        self.server.post(path_of(box, "processes"), {"command": "python3 -m http.server 8123"})
        self.open_box(box, "network")
        self.at("port-open-8123").click()
        expect(self.at("preview-url")).to_contain_text("box.localhost:8088")
        return box

    def test_in_a_new_tab(self):
        box = self.open_port()
        with self.page.expect_popup() as opening:
            self.at("preview-open").click()
        expect(opening.value).to_have_title("preview")
        self.assertIn(box, opening.value.url)
        self.assertNotIn("ticket", opening.value.url)
        # A stranger with the same address is not let in.
        stranger = self.new_visit()
        stranger.allow(401, "*")
        stranger.page.goto(opening.value.url)
        expect(stranger.page).not_to_have_title("preview")

    def test_in_a_frame(self):
        self.visit.allow(404, "/favicon.ico")
        self.open_port()
        self.at("preview-here").click()
        expect(self.page.frame_locator("[data-testid=preview-frame]").locator("h1")).to_have_text("from inside")

    def test_public_and_private(self):
        box = self.open_port()
        address = self.at("preview-url").inner_text()
        self.at("visibility").click()
        self.fill_form("visibility")
        expect(self.at("sandbox-public")).to_be_visible()
        stranger = self.new_visit()
        stranger.allow(401, "*")
        stranger.allow(404, "/favicon.ico")
        stranger.page.goto(address)
        expect(stranger.page).to_have_title("preview")
        self.at("visibility").click()
        self.fill_form("visibility")
        expect(self.at("sandbox-public")).to_have_count(0)
        stranger.page.goto(address)
        expect(stranger.page).not_to_have_title("preview")
        self.assertFalse(self.server.get(path_of(box)).json["public"])


class Budget(NetworkCase):
    def test_usage_and_limits(self):
        box = self.create(name="counted", budget={"max_tokens": 1000, "max_cost_usd": 2.5})
        self.inside(box, "true")
        self.open_box(box, "budget")
        for meter in ("tokens", "money", "cpu", "memory", "processes", "time", "network", "disk"):
            expect(self.at(f"meter-{meter}")).to_be_visible()
        expect(self.at("meter-tokens")).to_contain_text(re.compile("of 1.?000"))
        expect(self.at("meter-money")).to_contain_text("2.5")
        expect(self.at("meter-time")).to_contain_text("1 command")
        self.at("change-limits").click()
        self.fill_form("limits", memory_mb="700", processes="99")
        expect(self.at("meter-processes")).to_contain_text("99")
        limits = self.server.get(path_of(box)).json["resource_limits"]
        self.assertEqual((limits["memory_mb"], limits["processes"]), (700, 99))

    def test_a_longer_life(self):
        box = self.create(name="short", resource_limits={"timeout_seconds": 300})
        self.open_box(box, "settings")
        before = self.server.get(path_of(box)).json["expires_at"]
        self.at("ttl-1h").click()
        expect(self.at("toast-info")).to_be_visible()
        self.assertGreater(self.server.get(path_of(box)).json["expires_at"], before)


if __name__ == "__main__":
    main()
