"""PipInstall: what is refused before pip is asked, and pip itself against an index of the test's own."""

import base64
import hashlib
import io
import os
import zipfile

from agentbox_case import DEFAULT_HOSTS, AgentboxCase, main

import way_out
from upstream import Dns, Web
from way_out import PUBLIC

WORDS = "pip install requires pypi.org and files.pythonhosted.org in allowed_hosts"
BOTH = DEFAULT_HOSTS[:2]
CONFIG = "[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\nretries = 0\n"


def told(done):
    return done.exit_code, done.stdout, done.stderr, done.timed_out


def prepared(case, **wish):
    """A session whose pip is Debian's, which does not touch what Debian's packages own unless it is told to."""
    session = case.session(**wish)
    case.assertTrue(case.api.WriteFile(session_id=session, path="pip.conf", content=CONFIG).success)
    case.says(session, "mkdir -p /root/.config/pip; mv pip.conf /root/.config/pip/pip.conf")
    return session


class Checks(AgentboxCase):
    def install(self, session, *packages):
        return self.api.PipInstall(session_id=session, packages=packages)

    def test_the_session_comes_first(self):
        self.assertEqual(told(self.install("nope", "bad package")), (-1, "", "Session not found", False))

    def test_then_the_hosts_literally(self):
        for hosts in (["example.com"], BOTH[:1], BOTH[1:], ["*.pypi.org", "*.pythonhosted.org"], ["*"],
                      ["pypi.org", "*.pythonhosted.org"], ["PYPI.ORG", BOTH[1]], ["pypi.org ", BOTH[1]], ["localhost"]):
            session = self.session(allowed_hosts=hosts)
            self.assertEqual(told(self.install(session, "bad package")), (-1, "", WORDS, False), hosts)
            self.api.DestroySession(session_id=session)

    def test_then_the_names(self):
        session = self.session()
        for bad in ("", " ", "-r", "--index-url=x", "_x", ".x", "a b", "a;b", "a'b", "$(id)", "`id`", "a\nb", "a\n", "ä",
                    "git+https://x/y", "./local", "/abs", "a @ https://x", "a>=1 ", "a >=1", "a==1+local", "a[", "a[x",
                    "a]x", "a[x]y", "a=", "a==1;python_version>'3'", "a[x y]", "a==1 b", "a,b", "a\0", "a==\n1",
                    "http://x"):
            done = self.install(session, "fine", bad, "worse one")
            self.assertEqual(told(done), (-1, "", f"Invalid package specifier: {bad}", False), repr(bad))

    def test_good_names_reach_pip(self):
        session = self.session()
        self.says(session, "printf '#!/bin/sh\\npwd; for x in \"$@\"; do echo \"[$x]\"; done; exit 3\\n' "
                           "> /usr/local/bin/pip; chmod 755 /usr/local/bin/pip")
        good = ("a", "A9", "a.b_c-d", "a[x]", "a[x,y.z-1]", "a==1.0", "a>=1,<2", "a~=1.*", "a!=1", "a[x]>=1.0,!=1.5", "a<2",
                "9lives", "a===1")
        done = self.install(session, *good)
        self.assertEqual((done.exit_code, done.timed_out, done.stderr), (3, False, ""))
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "/workspace")
        self.assertEqual(lines[1:3], ["[install]", "[--user]"])
        self.assertEqual([line for line in lines if line[1:-1] in good],
                         [f"[{one}]" for one in good])

    def test_none_is_pips_own_matter(self):
        done = self.install(prepared(self))
        self.assertEqual((done.exit_code, done.timed_out), (1, False), done)
        self.assertIn("You must give at least one requirement to install", done.stderr + done.stdout)


def wheel(name, version, text):
    """The smallest thing that pip installs."""
    info = f"{name}-{version}.dist-info"
    files = {f"{name}.py": text,
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    digests = {path: base64.urlsafe_b64encode(hashlib.sha256(one.encode()).digest()).decode().strip("=")
               for path, one in files.items()}
    record = "".join(f"{path},sha256={digests[path]},{len(one)}\n" for path, one in files.items()) + f"{info}/RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, one in (*files.items(), (f"{info}/RECORD", record)):
            archive.writestr(path, one)
    return packed.getvalue()


class Index(AgentboxCase):
    """The world is the test's own: names lead to its servers, and nothing leaves the machine."""

    @classmethod
    def setUpClass(cls):
        cls.dns = Dns()
        cls.dns.set("index.test", "127.0.0.1")
        for name in ("granted.test", *BOTH):
            cls.dns.set(name, PUBLIC)
        cls.web = Web()
        file = "tiny_thing-1.0-py3-none-any.whl"
        cls.web.pages |= {
            "/simple/tiny-thing/": ("text/html", f'<html><a href="/files/{file}">{file}</a></html>'.encode()),
            f"/files/{file}": ("application/octet-stream", wheel("tiny_thing", "1.0", "words = 'from the wheel'\n")),
        }
        cls.settings = {"pip_index_url": f"http://index.test:{cls.web.port}/simple", "pip_index_addresses": ["127.0.0.1"]}
        cls.config = f'egress: {{dns_servers: ["{cls.dns.address}"]}}\n'
        super().setUpClass()

    def setUp(self):
        self.web.forget()

    def test_it_installs_and_can_be_imported_at_once(self):
        for hosts in ([], BOTH, ["granted.test", *BOTH]):
            session = prepared(self, allowed_hosts=hosts)
            done = self.api.PipInstall(session_id=session, packages=["tiny-thing==1.0"])
            self.assertEqual((done.exit_code, done.timed_out), (0, False), done)
            self.assertIn("Successfully installed tiny", done.stdout)
            said = self.says(session, "python3 -c 'import tiny_thing as t; print(t.words); print(t.__file__)'")
            self.assertTrue(said.startswith("from the wheel\n/root/.local/lib/"), said)
            self.assertIn("/simple/tiny-thing/", self.web.targets())
            self.web.forget()

    def test_what_the_index_does_not_have(self):
        done = self.api.PipInstall(session_id=prepared(self), packages=["no-such-thing"])
        self.assertEqual((done.exit_code, done.timed_out), (1, False), done)
        self.assertIn("no-such-thing", done.stderr)

    def test_only_sessions_that_may_use_pip_reach_the_index(self):
        """And they reach its port, and nothing else that lies there."""
        url = f"http://index.test:{self.web.port}/simple/tiny-thing/"
        fetch = "curl -s -m 20 -o /dev/null -w '%{http_code}' "
        for hosts in (["granted.test"], BOTH[:1], ["localhost"], ["index.test"]):
            session = self.session(allowed_hosts=hosts)
            self.assertNotIn("200", self.execute(session, fetch + url).stdout, hosts)
            self.assertEqual(self.api.PipInstall(session_id=session, packages=["tiny-thing"]).stderr, WORDS)
        self.assertEqual(self.web.requests, [])
        session = self.session(allowed_hosts=BOTH)
        self.assertEqual(self.execute(session, fetch + url).stdout, "200")
        for other in (self.server.port, self.server.grpc_port, 80):
            self.assertNotIn("200", self.execute(session, f"{fetch} http://index.test:{other}/health").stdout)


if __name__ == "__main__":
    if os.geteuid() == 0:
        way_out.enter_own_world()
    main()
