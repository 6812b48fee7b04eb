"""Requests that a program made up from the server's own document: no answer is a fault of the server, and every answer
is one that the document knows.

The program is schemathesis, in an environment that tests/server/venv makes. Streams without an end and what would end
or freeze the one sandbox under test are left out; they have tests of their own.
"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import Server, main, path_of

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/root"), ".cache"))
VENV = Path(os.environ.get("CAISSON_VENV") or CACHE / "caisson-venv")
SECONDS = 45
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# 501: not in this version; 503 and 507 cannot happen here, but are answers and no faults.
CONFIG = """
[parameters]
"path.id" = "{box}"
# Somebody waits for a process that another made-up request has started, and that may never end.
"query.timeout_seconds" = 1

[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 501, 503, 507]
"""


class Fuzz(unittest.TestCase):
    @unittest.skipUnless((VENV / "bin/schemathesis").exists(), f"{VENV} has no schemathesis: run tests/server/venv")
    def test_made_up_requests(self):
        with Server("--open") as server, tempfile.TemporaryDirectory() as work:
            box = server.create(resource_limits={"timeout_seconds": 3600})
            config = Path(work, "schemathesis.toml")
            config.write_text(CONFIG.format(box=box), encoding="utf-8")
            command = [VENV / "bin/schemathesis", "--config-file", config, "run", f"{server.url}/openapi.json"]
            command += ["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "8"]
            command += ["--max-time", str(SECONDS), "--request-timeout", "20", "--seed", "1", "--no-color"]
            command += ["--continue-on-failure", "--no-shrink", "--warnings", "off", "--generation-database", "none"]
            command += ["--exclude-path-regex", "/(watch|events|output|terminal|ports)(/|$)"]
            command += ["--exclude-operation-id", "destroySandbox", "--exclude-operation-id", "pauseSandbox"]
            # A made-up reference would be asked of a registry of the world.
            command += ["--exclude-operation-id", "pullImage", "--exclude-operation-id", "stopSandbox"]
            done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=SECONDS * 4, check=False)
            faults = [line for line in server.log().split("\n") if " 500 " in line or " 502 " in line]
            self.assertEqual(faults, [])
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIsNone(server.process.poll(), "the server is gone")
            self.assertEqual(server.get("/healthz").status, 200)
            again = server.post("/api/v1/sandboxes", {})
            self.assertIn(again.status, (201, 429), again.body)
            for one in server.get("/api/v1/sandboxes").json["sandboxes"]:
                self.assertEqual(server.delete(path_of(one["id"])).status, 204)
            self.assertEqual(server.stop(), 0)
            server.wait_until_clean()


if __name__ == "__main__":
    main()
