"""A server whose sandboxes can be machines: the kernel of the test VM, which `./dev setup` fetches, and a small image. The
image of this host's own system folders, which a machine has when nobody names one, has gigabytes.

    class Mine(StoreCase):
        before_start = staticmethod(machines.set_up)
        def test_one(self):
            box = self.create(tier="microvm", **machines.small(self))
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "images"))
import kit  # noqa: E402
from harness import BIN  # noqa: E402
from store_case import outside, tar_of  # noqa: E402

PROGRAMS = ("qemu-system-x86_64", "mkfs.erofs", "mmdebstrap")
IMAGE = "local/machine:1"
NOBODY = 65534  # as on the host's image
SLOW = "minutes of an emulated processor: CAISSON_MACHINES=1 asks for them"


def wanted():
    return os.environ.get("CAISSON_MACHINES") == "1"


def kernel():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(os.environ.get("CAISSON_VM_CACHE") or pathlib.Path(home, "caisson-vm"))


def missing():
    """What there can be no machines without, or None."""
    for program in PROGRAMS:
        if shutil.which(program) is None:
            return f"machines need {program}, which is not installed"
    return None if (kernel() / "release").is_file() else f"{kernel()} holds no kernel: ./dev setup fetches it"


def set_up(server):
    """Before it starts. Where there can be none, the server has no such tier."""
    if missing() is None:
        outside(BIN / "caisson", "vm", "setup", "--from", kernel(), "--no-trial", "--state-dir", server.state)


def root_of(layout, into):
    """The layers of the kit's image, one over the other; they remove nothing."""
    def blob(descriptor):
        return layout / "blobs" / descriptor["digest"].replace(":", "/")

    index = json.loads((layout / "index.json").read_text(encoding="utf-8"))
    for layer in json.loads(blob(index["manifests"][0]).read_bytes())["layers"]:
        outside("tar", "--extract", "--zstd" if "zstd" in layer["mediaType"] else "--gzip", "--file", blob(layer),
                "--directory", into)


def small(case):
    """What a create has to say beside the tier. The image comes with the first one: one layer, with Python in it."""
    if case.image(IMAGE).status != 200:
        with tempfile.TemporaryDirectory(prefix="caisson-machine-") as work:
            root_of(kit.image("python"), work)
            case.import_image(tar_of(work), IMAGE)
    return {"image": IMAGE, "user": NOBODY}
