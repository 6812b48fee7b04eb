"""pip and npm against registries of the test's own, each with one package made by hand."""

import base64
import hashlib
import io
import json
import pathlib
import sys
import tarfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import way_out
from client_case import ClientCase
from upstream import Web


def wheel(name, version):
    """The smallest thing that pip installs."""
    info = f"{name}-{version}.dist-info"
    files = {f"{name}.py": "words = 'from the wheel'\n",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    def line(path, text):
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().strip("=")
        return f"{path},sha256={digest},{len(text)}\n"
    record = "".join(line(*one) for one in files.items()) + f"{info}/RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in (*files.items(), (f"{info}/RECORD", record)):
            archive.writestr(path, text)
    return packed.getvalue()


def tarball(name, version):
    """The smallest thing that npm installs."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in (("package/package.json", json.dumps({"name": name, "version": version, "main": "index.js"})),
                           ("package/index.js", "module.exports = 'from the tarball';\n")):
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


class Packages(ClientCase):
    names = ("pypi.test", "npm.test")
    ports = (443,)
    programs = ("npm", "node", "openssl")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.web = Web(port=443, context=cls.authority.context("pypi.test", "npm.test"))
        file = "tiny_thing-1.0-py3-none-any.whl"
        packed = tarball("tiny-thing", "1.0.0")
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(packed).digest()).decode()
        version = {"name": "tiny-thing", "version": "1.0.0", "main": "index.js",
                   "dist": {"tarball": "https://npm.test/tiny-thing/-/tiny-thing-1.0.0.tgz", "integrity": integrity}}
        document = {"name": "tiny-thing", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        cls.web.pages |= {
            "/simple/tiny-thing/": ("text/html", f'<html><a href="/files/{file}">{file}</a></html>'.encode()),
            f"/files/{file}": ("application/octet-stream", wheel("tiny_thing", "1.0")),
            "/tiny-thing": ("application/json", json.dumps(document).encode()),
            "/tiny-thing/-/tiny-thing-1.0.0.tgz": ("application/octet-stream", packed),
        }

    def test_pip(self):
        install = ("/usr/bin/python3 -m pip install -q --isolated --disable-pip-version-check --no-cache-dir "
                   "--retries 0 --cert ca.pem --target /tmp/target --index-url https://{}/simple tiny-thing; ")
        self.works(install.format("pypi.test") + "PYTHONPATH=/tmp/target /usr/bin/python3 -c "
                   "'import tiny_thing; print(tiny_thing.words)'", "from the wheel")
        self.fails(install.format("refused.test"))

    def test_npm(self):
        install = ("mkdir /tmp/project; cp ca.pem /tmp/project; cd /tmp/project; npm install --silent --no-audit "
                   "--no-fund --fetch-retries=0 --cache /tmp/cache --cafile /tmp/project/ca.pem "
                   "--registry https://{}/ tiny-thing; ")
        self.works(install.format("npm.test") + "node -p 'require(\"tiny-thing\")'", "from the tarball")
        self.fails(install.format("refused.test"))


if __name__ == "__main__":
    way_out.main()
