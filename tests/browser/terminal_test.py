"""Terminals: keys go in, a screen comes back, and neither a reload nor a lost connection ends what runs."""

import re

from browser_case import BrowserCase, expect, main, path_of


class Terminal(BrowserCase):
    def setUp(self):
        super().setUp()
        self.box = self.create(name="shell")

    def screen(self):
        return self.page.locator(".xterm-rows:visible")

    def wait_until_open(self):
        expect(self.at("terminal-status")).to_have_attribute("data-status", "open")

    def type(self, text):
        self.page.locator(".xterm-screen:visible").click()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def open_terminal(self):
        self.open_box(self.box, "terminal")
        self.wait_until_open()

    def processes(self):
        return [one for one in self.server.get(path_of(self.box, "processes")).json["processes"] if one["running"]]

    def test_keys_and_output(self):
        self.open_terminal()
        self.type("echo $((6 * 7))-$((20 + 3))")
        expect(self.screen()).to_contain_text("42-23")

    def test_its_size_follows_the_window(self):
        self.open_terminal()
        self.type("trap 'echo now $(stty size)' WINCH; echo ready$((1))")
        expect(self.screen()).to_contain_text("ready1")
        self.type("echo before $(stty size)")
        expect(self.screen()).to_contain_text(re.compile(r"before \d+ \d+"))
        before = re.search(r"before (\d+) (\d+)", self.screen().inner_text())
        self.page.set_viewport_size({"width": 900, "height": 500})
        # A shell tells after the next command at the latest.
        self.type("true")
        expect(self.screen()).to_contain_text(re.compile(r"now \d+ \d+"))
        after = re.findall(r"now (\d+) (\d+)", self.screen().inner_text())[-1]
        self.assertLess(int(after[0]), int(before[1]))
        self.assertLess(int(after[1]), int(before[2]))

    def test_a_reload_finds_the_same_shell(self):
        self.open_terminal()
        self.type("MARK=stays-$((40 + 2)); echo set-$MARK")
        expect(self.screen()).to_contain_text("set-stays-42")
        self.page.reload()
        self.wait_until_open()
        expect(self.screen()).to_contain_text("set-stays-42")
        self.type("echo again-$MARK")
        expect(self.screen()).to_contain_text("again-stays-42")
        self.assertEqual(len(self.processes()), 1)

    def test_a_lost_connection_is_taken_up_again(self):
        self.visit.allowed_errors.append("WebSocket|ERR_INTERNET_DISCONNECTED")
        self.page.route_web_socket(re.compile("/terminal"), self.pass_on)
        self.sockets = []
        self.open_terminal()
        self.type("MARK=$((100 + 1)); echo first-$MARK")
        expect(self.screen()).to_contain_text("first-101")
        self.sockets[-1].close(code=1001, reason="the network of this test")
        expect(self.at("terminal-status")).to_have_attribute("data-status", "open")
        expect(self.screen()).to_contain_text("first-101")
        self.type("echo second-$MARK")
        expect(self.screen()).to_contain_text("second-101")
        self.assertEqual((len(self.sockets), len(self.processes())), (2, 1))

    def pass_on(self, socket):
        socket.connect_to_server()
        self.sockets.append(socket)

    def test_several_side_by_side(self):
        self.open_terminal()
        self.type("echo one$((1))")
        expect(self.screen()).to_contain_text("one1")
        self.at("terminal-new").click()
        expect(self.at("terminal-tab")).to_have_count(2)
        self.wait_until_open()
        expect(self.screen()).not_to_contain_text("one1")
        self.type("echo two$((2))")
        expect(self.screen()).to_contain_text("two2")
        self.at("terminal-tab").first.click()
        expect(self.screen()).to_contain_text("one1")
        self.at("terminal-close").first.click()
        expect(self.at("terminal-tab")).to_have_count(1)
        expect(self.screen()).to_contain_text("two2")

    def test_it_stays_while_another_tab_is_shown(self):
        self.open_terminal()
        self.type("echo stay$((3))")
        expect(self.screen()).to_contain_text("stay3")
        self.choose_tab("files")
        self.choose_tab("terminal")
        expect(self.screen()).to_contain_text("stay3")

    def test_its_end_is_told(self):
        self.open_terminal()
        self.type("exit 3")
        expect(self.at("terminal-status")).to_have_attribute("data-status", "ended")
        expect(self.at("terminal-status")).to_contain_text("3")
        self.at("terminal-again").click()
        self.wait_until_open()

    def test_copy(self):
        self.open_terminal()
        self.type("echo copied-$((50 + 5))")
        expect(self.screen()).to_contain_text("copied-55")
        self.at("terminal-copy").click()
        self.page.wait_for_function("navigator.clipboard.readText().then((text) => text.includes('copied-55'))")


if __name__ == "__main__":
    main()
