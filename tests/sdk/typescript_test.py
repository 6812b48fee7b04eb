"""The TypeScript package: it fits the contract, its types hold, and it works on a real server, as do its examples."""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import Server, main  # noqa: E402
from typescript_package import ROOT, SOURCE, Package, missing  # noqa: E402

EXAMPLES = ROOT / "examples" / "typescript"


class TypeScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if missing():
            raise unittest.SkipTest(missing())
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="caisson-typescript-")))
        cls.package = Package(cls.folder / "sdk")
        cls.package.build()

    def test_the_lock_file_names_no_registry(self):
        lock = (SOURCE / "package-lock.json").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'"resolved": "[^"]*"', lock), [])

    def test_nothing_is_needed_to_run(self):
        modules = list((self.package.folder / "dist").rglob("*.js"))
        named = [re.findall(r"^(?:import|export)\b(?:.* from)? '([^']+)';$", path.read_text(encoding="utf-8"), re.MULTILINE)
                 for path in modules]
        self.assertGreater(len(sum(named, [])), len(modules), "imports are found at all")
        self.assertEqual([name for name in sum(named, []) if not name.startswith(("./", "../"))], [])

    def test_types(self):
        self.package.run(self.package.tool("tsc"), "--noEmit")

    def test_live(self):
        folder = os.environ.get("CAISSON_TEST_RESULTS") or self.folder
        results = pathlib.Path(folder, "sdk_typescript_vitest.xml")
        with Server() as server:
            told = self.package.run(self.package.tool("vitest"), "run", "--reporter=default", "--reporter=junit",
                                    f"--outputFile.junit={results}", CAISSON_URL=server.url, CAISSON_TOKEN=server.token)
            print(told)
            self.check_examples(server)
            self.assertEqual(server.get("/api/v1/sandboxes").json["sandboxes"], [], "every sandbox was destroyed")

    def check_examples(self, server):
        user = self.package.user(self.folder / "user")
        shutil.copytree(EXAMPLES, user, dirs_exist_ok=True)
        self.package.run(self.package.tool("tsc"), "-p", user / "tsconfig.json")
        env = {"CAISSON_URL": server.url, "CAISSON_TOKEN": server.token}
        for example in sorted(user.glob("dist/*.js")):
            with self.subTest(example=example.stem):
                told = self.package.run(example, folder=user, **env)
                wanted = (EXAMPLES / f"{example.stem}.txt").read_text(encoding="utf-8")
                self.assertEqual(told, wanted)


if __name__ == "__main__":
    main()
