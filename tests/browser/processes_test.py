"""Commands and processes: run one and see what it says, start one and steer it."""

from browser_case import BrowserCase, expect, main, path_of


class Run(BrowserCase):
    def setUp(self):
        super().setUp()
        self.box = self.create(name="runs")
        self.open_box(self.box, "run")

    def run_command(self, command):
        self.at("run-input").fill(command)
        self.at("run-input").press("Enter")
        return self.at("run").first

    def test_output_and_status(self):
        run = self.run_command("echo to-out; echo to-err >&2; exit 7")
        expect(self.at("run-end", run)).to_contain_text("7")
        expect(self.at("run-output", run)).to_contain_text("to-out")
        expect(run.locator(".err")).to_contain_text("to-err")

    def test_output_comes_while_it_runs(self):
        run = self.run_command("echo started; cat /proc/sys/kernel/random/uuid >/dev/null; sleep 1000")
        expect(self.at("run-output", run)).to_contain_text("started")
        expect(self.at("run-end", run)).to_have_count(0)
        self.at("run-kill", run).click()
        expect(self.at("run-end", run)).to_be_visible()

    def test_history(self):
        expect(self.at("run-end", self.run_command("echo first"))).to_be_visible()
        expect(self.at("run-end", self.run_command("echo second"))).to_be_visible()
        expect(self.at("run")).to_have_count(2)
        self.at("run-input").press("ArrowUp")
        expect(self.at("run-input")).to_have_value("echo second")
        self.at("run-input").press("ArrowUp")
        expect(self.at("run-input")).to_have_value("echo first")

    def test_a_flood_stays_within_bounds(self):
        run = self.run_command("yes | head -c 20000000; echo the-end")
        expect(self.at("run-output", run)).to_contain_text("the-end")
        self.assertLess(len(self.at("run-output", run).inner_text()), 600_000)


class Processes(BrowserCase):
    def setUp(self):
        super().setUp()
        self.box = self.create(name="processes")
        self.open_box(self.box, "processes")

    def start(self, command):
        self.at("process-start").click()
        self.fill_form("process", command=command)
        row = self.at("process-row").filter(has_text=command)
        expect(row).to_be_visible()
        return row

    def test_start_output_input(self):
        row = self.start("read word; echo got-$word; sleep 1000")
        expect(self.at("process-state", row)).to_have_text("running")
        self.at("process-input").fill("hello")
        self.at("process-send").click()
        expect(self.at("process-output-text")).to_contain_text("got-hello")

    def test_signals(self):
        row = self.start("trap 'echo caught; exit 5' TERM; echo armed; sleep 1000 & wait")
        expect(self.at("process-output-text")).to_contain_text("armed")
        self.at("process-signal", row).click()
        self.at("process-signal-term", row).click()
        expect(self.at("process-state", row)).to_contain_text("5")
        expect(self.at("process-output-text")).to_contain_text("caught")

    def test_remove(self):
        row = self.start("sleep 1001")
        self.at("process-remove", row).click()
        expect(row).to_have_count(0)
        self.assertEqual(self.server.get(path_of(self.box, "processes")).json["processes"], [])

    def test_one_that_others_started(self):
        self.server.post(path_of(self.box, "processes"), {"command": "sleep 1002"})
        expect(self.at("process-row").filter(has_text="sleep 1002")).to_be_visible()


if __name__ == "__main__":
    main()
