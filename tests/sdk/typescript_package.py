"""The TypeScript package in a folder of its own, built as people get it, with the tools that npm gave us."""

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "sdk" / "typescript"
CONTRACT = ROOT / "api" / "openapi.yaml"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
TOOLS = pathlib.Path(os.environ.get("CAISSON_SDK_NODE") or CACHE / "caisson-sdk-node")
SLOW = 300  # seconds for what takes a few on a machine that is not overloaded


def missing():
    """What is not there, in words; or nothing."""
    if not shutil.which("node"):
        return "node is not installed"
    if not (TOOLS / "node_modules").is_dir():
        return f"the npm packages are not there: tests/sdk/typescript-packages {TOOLS}"
    return ""


class Package:
    """A copy, so that nothing is made in the tree."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        ours = shutil.ignore_patterns("node_modules", "dist")
        shutil.copytree(SOURCE, self.folder, ignore=ours, dirs_exist_ok=True)
        (self.folder / "node_modules").symlink_to(TOOLS / "node_modules")

    def run(self, *words, folder=None, **env):
        """What the command printed; its exit status is 0."""
        env = {**os.environ, "CAISSON_CONTRACT": str(CONTRACT), "NO_COLOR": "1", **env}
        done = subprocess.run(["node", *map(str, words)], cwd=folder or self.folder, env=env, timeout=SLOW, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def tool(self, name):
        """The program of an npm package."""
        return (self.folder / "node_modules" / ".bin" / name).resolve()

    def build(self):
        self.run(self.tool("tsc"), "-p", "tsconfig.build.json")

    def user(self, folder):
        """A folder of somebody who has installed the package, with Node's types and `ws` beside it."""
        folder = pathlib.Path(folder)
        packages = folder / "node_modules"
        (packages / "@caisson").mkdir(parents=True)
        (packages / "@caisson" / "sdk").symlink_to(self.folder)
        for name in ("ws", "@types"):
            (packages / name).symlink_to(TOOLS / "node_modules" / name)
        return folder
