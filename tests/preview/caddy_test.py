"""Previews as people have them: by https, through Caddy, with the file that `caisson caddy-config` prints."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from preview_case import (BIN, PATIENCE, PORT, VHOST, Link, PreviewCase, main, path_of, trusting,
                          wait_for)

MEGABYTES = 100
# What the printed file leaves to Caddy's defaults, which are for a machine of its own: port 80, an administration
# port, and the list of authorities that this machine trusts.
APART = "\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n"


class Caddy:
    """Running from the constructor to close(), with a folder of its own."""

    def __init__(self, config):
        program = shutil.which("caddy")
        assert program, "caddy is not installed"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="caisson-caddy-"))
        head, brace, rest = config.partition("\n{\n")
        config = f"{head}\n{{\n{APART}{rest}" if brace else f"{{\n{APART}}}\n{config}"
        (self.folder / "Caddyfile").write_text(config, encoding="utf-8")
        env = {"HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder),
               "PATH": os.environ["PATH"]}
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [program, "run", "--config", str(self.folder / "Caddyfile"), "--adapter", "caddyfile"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.folder)
        self.certificate = self.folder / "caddy/pki/authorities/local/root.crt"
        wait_for(self.ready, "Caddy's authority")

    def ready(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        return self.certificate.exists() and "END CERTIFICATE" in self.certificate.read_text(encoding="ascii")

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)


def printed(*flags, env=None):
    return subprocess.run([BIN / "caisson", "caddy-config", *flags], capture_output=True, text=True, check=False,
                          timeout=PATIENCE, env=env or {})


class BehindCaddy(PreviewCase):
    scheme = "https"
    certificates = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        config = printed("--vhost", f"{VHOST}:{cls.public_port}", "--upstream", f"127.0.0.1:{cls.server.port}",
                         "--internal", *cls.certificates)
        assert config.returncode == 0, config.stderr
        caddy = Caddy(config.stdout)
        cls.addClassCleanup(caddy.close)
        cls.link = Link(cls.public_port, trusting(caddy.certificate))
        wait_for(cls.answers, "Caddy")
        cls.box = cls().site()

    @classmethod
    def answers(cls):
        try:
            return cls.link.ask(f"{VHOST}:{cls.public_port}", "/healthz").status == 200
        except OSError:
            return False

    def own(self, box=None, port=None):
        return {"Cookie": self.enter(box or self.box, port)}


class Wildcard(BehindCaddy):
    def test_from_nothing_to_the_page(self):
        host = self.host(self.box)
        self.assertEqual(self.get(host, "/").status, 401)
        self.assertEqual(self.get(host, "/", headers={"Accept": "text/html"}).status, 302)
        cookie = self.enter(self.box)
        self.assertTrue(cookie.startswith("__Host-caisson-preview="), cookie)
        answer = self.get(host, "/?a=%20+", headers={"Cookie": f"{cookie}; mine=1"})
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(json.loads(answer.body)["line"], "GET /?a=%20+ HTTP/1.1")
        fields = self.fields(answer)
        self.assertEqual(fields["host"], [host])
        self.assertEqual(fields["x-forwarded-proto"], ["https"])
        self.assertEqual(fields["x-forwarded-for"], ["127.0.0.1"])
        self.assertEqual(fields["cookie"], ["mine=1"])
        self.assertNotIn(cookie.partition("=")[2].encode(), answer.body)

    def test_a_client_cannot_say_where_he_comes_from(self):
        spoofed = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "evil.test",
                   "X-Real-IP": "6.6.6.6", "Forwarded": "for=6.6.6.6"}
        answer = self.get(self.host(self.box), "/", headers=self.own() | spoofed)
        self.assertEqual(self.fields(answer)["x-forwarded-for"], ["127.0.0.1"])
        for word in (b"6.6.6.6", b"evil.test", b"gopher"):
            self.assertNotIn(word, answer.body)

    def test_a_token_stays_outside(self):
        token = {"Authorization": f"Bearer {self.server.token}"}
        for headers in (token, token | self.own()):
            answer = self.get(self.host(self.box), "/", headers=headers)
            self.assertEqual(answer.status, 200)
            self.assertNotIn("authorization", self.fields(answer))
            self.assertNotIn(b"cais_", answer.body)

    def test_cookies_of_a_program_are_for_its_host_alone(self):
        answer = self.get(self.host(self.box), "/cookies", headers=self.own())
        self.assertEqual(answer.headers.get_all("Set-Cookie"), ["mine=1; Path=/", "wide=1; Path=/", "second=2; HttpOnly"])
        self.assertIsNone(answer.headers["Clear-Site-Data"])
        self.assertIsNone(answer.headers["X-Accel-Redirect"])

    def test_a_redirect_stays_on_the_host(self):
        answer = self.get(self.host(self.box), "/away", headers=self.own())
        self.assertEqual(answer.headers["Location"], "/there?x=1")

    def test_events_come_one_by_one(self):
        own = self.own()
        connection, answer = self.link.open(self.host(self.box), "/events", headers=own)
        with contextlib.closing(connection):
            for number in range(3):
                self.assertEqual(answer.readline(), f"data: {number}\n".encode())
                self.assertEqual(answer.readline(), b"\n")
                # The next one is sent only now: what was read did not wait for it.
                self.assertEqual(self.get(self.host(self.box), "/next", headers=own).status, 200)
            self.assertEqual(answer.read(), b"")

    def test_large_bodies_pass_whole(self):
        own = self.own()
        size = MEGABYTES * 1_000_000 + 1
        down = self.get(self.host(self.box), f"/large?bytes={size}", headers=own)
        want = (bytes(range(256)) * (size // 256 + 1))[:size]
        self.assertEqual(len(down.body), size)
        self.assertEqual(hashlib.sha256(down.body).digest(), hashlib.sha256(want).digest())
        up = self.get(self.host(self.box), "/upload", method="POST", headers=own, body=want)
        self.assertEqual(json.loads(up.body)["sha256"], hashlib.sha256(want).hexdigest())

    def test_a_web_socket(self):
        host = self.host(self.box)
        own = self.own()
        with self.link.frames(host, "/ws") as nobody:
            self.assertEqual(nobody.status, 401)
        with self.link.frames(host, "/ws", own | {"Origin": f"https://x.{VHOST}"}) as stranger:
            self.assertIn(stranger.status, (401, 403))
        with self.link.frames(host, "/ws", own | {"Origin": f"https://{host}"}) as frames:
            self.assertEqual(frames.status, 101)
            self.assertNotIn("caisson-preview", frames.read())
            for text in ("", "hello", "x" * 100):
                frames.send(text)
                self.assertEqual(frames.read(), text)

    def test_siblings_are_strangers(self):
        other = self.site()
        cookies = {box: self.enter(box) for box in (self.box, other)}
        for box, foreign in ((self.box, other), (other, self.box)):
            self.assertEqual(self.get(self.host(box), "/", headers={"Cookie": cookies[foreign]}).status, 401)
            # A page of the one makes the browser ask the other, with the other's cookie.
            page = {"Cookie": cookies[box], "Origin": f"https://{self.host(foreign)}", "Sec-Fetch-Site": "same-site"}
            self.assertEqual(self.get(self.host(box), "/", headers=page).status, 401)
            self.assertEqual(self.get(self.host(box), "/", method="POST", headers=page, body=b"x").status, 401)

    def test_public(self):
        box = self.site()
        self.assertEqual(self.get(self.host(box), "/").status, 401)
        self.publish(box)
        self.assertEqual(self.get(self.host(box), "/").status, 200)
        self.assertEqual(self.get(self.host(box, PORT), "/").status, 200)

    def test_ask_says_which_names_there_are(self):
        box = self.site()
        ask = "/internal/ask?domain="
        for name in (VHOST, self.host(box), self.host(box, PORT)):
            self.assertEqual(self.server.get(ask + name, token="").status, 200, name)
        for name in ("", f"www.{VHOST}", "evil.test", f"{'a' * 26}.{VHOST}", f"0-{box}.{VHOST}"):
            self.assertEqual(self.server.get(ask + name, token="").status, 404, name)
        self.server.delete(path_of(box))
        wait_for(lambda: self.server.get(ask + self.host(box), token="").status == 404, "its end")


class OnDemand(BehindCaddy):
    certificates = ("--on-demand",)

    def test_a_certificate_for_each_name_that_there_is(self):
        self.assertEqual(self.get(self.host(self.box, PORT), "/", headers=self.own(port=PORT)).status, 200)
        with self.assertRaises(OSError):
            self.get(f"{'a' * 26}.{VHOST}", "/")


class Printed(PreviewCase):
    @classmethod
    def setUpClass(cls):
        pass  # needs no server

    def test_without_a_domain(self):
        done = printed()
        self.assertEqual(done.returncode, 1)
        self.assertIn("SANDBOX_VHOST", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_caddy_takes_each_of_them(self):
        by_variable = printed(env={"SANDBOX_VHOST": "box.test"})
        self.assertEqual(by_variable.stdout, printed("--vhost", "box.test").stdout)
        for flags in ((), ("--internal",), ("--internal", "--on-demand"), ("--email", "me@box.test")):
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "Caddyfile")
                file.write_text(printed("--vhost", "a.b.c.box.test", *flags).stdout, encoding="utf-8")
                done = subprocess.run(["caddy", "adapt", "--config", file, "--adapter", "caddyfile"], check=False,
                                      capture_output=True, text=True, timeout=PATIENCE, env={"HOME": folder})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('"*.a.b.c.box.test"', done.stdout)


if __name__ == "__main__":
    main()
