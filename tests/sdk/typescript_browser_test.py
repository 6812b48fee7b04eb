"""The TypeScript package in a browser: the same modules, a page of the server's origin, its cookie or a token."""

import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "browser")]
from browser_case import BrowserCase, main  # noqa: E402
from typescript_package import Package, missing  # noqa: E402

PLACE = "/package-under-test/"
PROGRAM = """
async (token) => {
  const { Client, NotFoundError } = await import('/package-under-test/index.js');
  const client = new Client(token === '' ? {} : { token });
  const told = [client.url === location.origin];
  told.push(await client.sandboxes.use({}, async (sandbox) => {
    await sandbox.files.write('a.txt', new Blob(['from a page']));
    const said = [(await sandbox.exec('cat a.txt')).stdout];
    const run = await sandbox.execStream('echo out; exit 3');
    for await (const piece of run) said.push(piece.stream + ' ' + piece.text.trim());
    said.push((await run.exit).exit_code);
    const cat = await sandbox.attach('cat');
    await cat.write('ping');
    await cat.closeInput();
    for await (const piece of cat) said.push(piece.text);
    const terminal = await sandbox.terminal({ rows: 10, cols: 20, command: 'stty size' });
    for await (const piece of terminal) said.push(piece.text.trim());
    return said;
  }));
  told.push(await client.sandboxes.get('a'.repeat(26)).catch((error) => error instanceof NotFoundError));
  return told;
}
"""
WANTED = [True, ["from a page", "stdout out", 3, "ping", "10 20"], True]


class Browser(BrowserCase):
    @classmethod
    def setUpClass(cls):
        if missing():
            raise unittest.SkipTest(missing())
        super().setUpClass()
        cls.package = Package(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="caisson-typescript-")))
        cls.package.build()

    def tell(self, token):
        self.visit.allow(404, f"/api/v1/sandboxes/{'a' * 26}")
        self.page.route(f"**{PLACE}**", self.serve)
        self.go()  # the console: a page of the server's own, which may load modules from there
        return self.page.evaluate(PROGRAM, token)

    def serve(self, route):
        name = route.request.url.split(PLACE)[1]
        route.fulfill(path=self.package.folder / "dist" / name, content_type="text/javascript")

    def test_with_the_cookie_of_a_login(self):
        self.log_in()
        self.assertEqual(self.tell(""), WANTED)

    def test_with_a_token(self):
        self.assertEqual(self.tell(self.server.token), WANTED)


if __name__ == "__main__":
    main()
