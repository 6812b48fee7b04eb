"""One real server for the tests of a file, and a client of it."""

import os
import ssl
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SDK = Path(__file__).resolve().parent.parent
ROOT = Path(os.environ.get("CAISSON_SOURCE", SDK.parent.parent))
sys.path[:0] = [str(SDK / "src"), str(ROOT / "tests/server")]

import caisson  # noqa: E402
from harness import Server  # noqa: E402
from relay import Relay  # noqa: E402

CONFIG = "sandbox:\n  max_concurrent: 200\n"


class ClientCase(unittest.TestCase):
    server = client = None

    @classmethod
    def setUpClass(cls):
        if ClientCase.server is None:
            ClientCase.server = Server(config=CONFIG)
            unittest.addModuleCleanup(ClientCase.server.close)
            ClientCase.server.start()
            ClientCase.client = caisson.Client(ClientCase.server.url, ClientCase.server.token)
            unittest.addModuleCleanup(ClientCase.client.close)

    def sandbox(self, **fields):
        """A sandbox for this test."""
        sandbox = self.client.create(**fields)
        self.addCleanup(sandbox.__exit__, None, None, None)
        return sandbox

    def relay(self, certificate=None):
        relay = Relay(self.server.port, certificate)
        self.addCleanup(relay.close)
        return relay

    def tls_relay(self):
        """(a relay that speaks TLS, a context that trusts it)"""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pem = Path(folder.name, "both.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", pem, "-out", f"{pem}.crt"], check=True, capture_output=True, timeout=30)
        pem.write_bytes(pem.read_bytes() + Path(f"{pem}.crt").read_bytes())
        return self.relay(pem), ssl.create_default_context(cafile=f"{pem}.crt")
