"""Real clients, as people use them, through the way out of a sandbox: with the proxy variables that every command has,
and without them. The hosts are the test's own, at public addresses of its own world."""

import shutil
import subprocess

from upstream import PATIENCE, Authority
from way_out import PUBLIC, PUBLIC6, WayOut, rule

VARIABLES = "HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy NO_PROXY no_proxy"


class ClientCase(WayOut):
    capability = {"filesystem_config": {"mode": "read_write", "writable_paths": ["/tmp"]},
                  "resource_limits": {"max_memory_mb": 2048, "max_cpu_seconds": 60}}
    names = ()  # hosts that are allowed, on ports
    ports = (80, 443)
    programs = ()  # that must be installed

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        missing = [name for name in cls.programs if not shutil.which(name)]
        if missing:
            raise AssertionError(f"these programs are not installed: {' '.join(missing)}")
        cls.authority = Authority(cls.folder)
        shutil.copy(cls.authority.certificate, cls.work / "ca.pem")
        for name in (*cls.names, "refused.test"):
            cls.dns.set(name, PUBLIC, PUBLIC6)
        cls.rules = [rule(name, *cls.ports) for name in cls.names]

    @classmethod
    def outside(cls, *words, **more):
        """A program of the test's own side."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                              timeout=PATIENCE * 8, **more)
        if done.returncode != 0:
            raise AssertionError(f"{words[0]}: {done.stdout}{done.stderr}")
        return done.stdout

    def shell(self, script, variables=True, rules=None):
        """A shell inside; ends with the first command that fails."""
        head = "set -e; export HOME=/tmp; " + ("" if variables else f"unset {VARIABLES}; ")
        return self.run_command(self.rules if rules is None else rules, "/bin/sh", "-c", head + script)

    def works(self, script, *words, variables=(True, False)):
        """Both ways, and says all of the words."""
        for with_variables in variables:
            with self.subTest(variables=with_variables):
                done = self.shell(script, with_variables)
                self.assertEqual(done.code, 0, done.stdout + done.stderr)
                for word in words:
                    self.assertIn(word, done.stdout)

    def fails(self, script, variables=(True, False)):
        """Both ways; and what it asked for has not arrived anywhere."""
        for with_variables in variables:
            with self.subTest(variables=with_variables):
                done = self.shell(script, with_variables)
                self.assertNotEqual(done.code, 0, done.stdout + done.stderr)
                self.assertNotIn("refused.test", self.dns.names_asked())
