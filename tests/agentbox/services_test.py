"""What stands beside the nine methods: health, reflection, numbers, TLS, and the settings by their other names."""

import pathlib
import re
import socket
import ssl
import subprocess
import tempfile

import grpc
from google.protobuf import descriptor_pb2

from agentbox_case import PROTO, SERVICE, AgentboxCase, AgentboxServer, Api, main, messages_of

import harness
from harness import PATIENCE, wait_for
from upstream import Authority

HEALTH = "grpc.health.v1.Health"
health = messages_of("health_messages.proto", """syntax = "proto3";
package health_test;
message Ask { string service = 1; }
message Told { int32 status = 1; }
""")
_, SERVING, _, SERVICE_UNKNOWN = range(4)
reflection = messages_of("reflection_messages.proto", """syntax = "proto3";
package reflection_test;
message Ask {
  string host = 1;
  oneof question {
    string file_by_filename = 3;
    string file_containing_symbol = 4;
    string list_services = 7;
  }
}
message Files { repeated bytes file = 1; }
message Service { string name = 1; }
message Services { repeated Service service = 1; }
message Failure { int32 code = 1; string message = 2; }
message Told {
  string host = 1;
  Ask asked = 2;
  oneof answer {
    Files files = 4;
    Services services = 6;
    Failure failure = 7;
  }
}
""")


class Health(AgentboxCase):
    def ask(self, service, method="Check"):
        asked = health.Ask(service=service).SerializeToString()
        return health.Told.FromString(self.api.raw(method, asked, HEALTH)).status

    def test_check(self):
        for service in ("", SERVICE):
            self.assertEqual(self.ask(service), SERVING, service)
        self.assertEqual(self.status_of(lambda: self.ask("no.such.Service"))[0], grpc.StatusCode.NOT_FOUND)

    def test_watch(self):
        for service, wanted in (("", SERVING), (SERVICE, SERVING), ("no.such.Service", SERVICE_UNKNOWN)):
            call = self.api.raw_stream("Watch", health.Ask(service=service).SerializeToString(), HEALTH)
            self.assertEqual(health.Told.FromString(next(call)).status, wanted, service)
            call.cancel()


class HealthWithTokens(AgentboxCase):
    flags = ()

    def test_it_is_for_everybody(self):
        with Api(self.server.grpc) as nobody:
            self.assertEqual(health.Told.FromString(nobody.raw("Check", b"", HEALTH)).status, SERVING)


class Reflection(AgentboxCase):
    def ask(self, version, *questions):
        call = self.api.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                              request_serializer=reflection.Ask.SerializeToString,
                                              response_deserializer=reflection.Told.FromString)
        return list(call(iter(reflection.Ask(**one) for one in questions), timeout=PATIENCE))

    def test_both_versions(self):
        for version in ("v1", "v1alpha"):
            services, by_symbol, by_method, by_name, none = self.ask(
                version, {"list_services": ""}, {"file_containing_symbol": SERVICE},
                {"file_containing_symbol": f"{SERVICE}.Exec"}, {"file_by_filename": PROTO},
                {"file_containing_symbol": "no.such.Thing"})
            listed = {one.name for one in services.services.service}
            self.assertLessEqual({SERVICE, HEALTH, f"grpc.reflection.{version}.ServerReflection"}, listed)
            self.assertEqual(none.failure.code, grpc.StatusCode.NOT_FOUND.value[0])
            for told in (by_symbol, by_method, by_name):
                self.check_file(told.files.file[0])

    def check_file(self, data):
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        self.assertEqual((file.name, file.package), (PROTO, "sandbox.v1"))
        self.assertEqual(file.service[0].name, "SandboxService")
        self.assertEqual(len(file.service[0].method), 9)


class Numbers(AgentboxCase):
    NAME = "caisson_grpc_requests_total"

    def test_calls_are_counted_by_method_and_code(self):
        def seen(method, code):
            return self.metric(self.NAME, method=method, code=code)
        before = seen("ListSessions", "OK"), seen("GetSession", "NOT_FOUND")
        for _ in range(3):
            self.api.ListSessions()
            self.status_of(lambda: self.api.GetSession(session_id="nope"))
        wait_for(lambda: seen("ListSessions", "OK") - before[0] == 3, "three that went well")
        wait_for(lambda: seen("GetSession", "NOT_FOUND") - before[1] == 3, "three that were not found")

    def test_names_of_others_are_not_kept(self):
        """A peer cannot make the table grow."""
        for i in range(20):
            self.status_of(lambda i=i: self.api.raw(f"Method{i}"))
        self.assertNotIn("Method1", self.server.get("/metrics").body.decode())


class Tls(AgentboxCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
        folder.chmod(0o755)
        cls.authority = Authority(folder)
        cls.authority.context("localhost", "127.0.0.1")
        chain, key = cls.authority.files("localhost")
        for file in (chain, key):
            file.chmod(0o644)
        cls.settings = {"tls_certificate_file": str(chain), "tls_key_file": str(key)}
        super().setUpClass()

    @classmethod
    def connect(cls):
        trusted = grpc.ssl_channel_credentials(cls.authority.certificate.read_bytes())
        cls.api = Api(f"localhost:{cls.server.grpc_port}", trusted)
        cls.addClassCleanup(cls.api.close)

    def test_grpc(self):
        session = self.session()
        self.assertEqual(self.says(session, "echo hi"), "hi\n")
        self.assertEqual(self.whole(session, "head -c 3000000 /dev/zero | tr '\\0' x"), ("x" * 3000000, "", 0))

    def test_grpc_web(self):
        context = ssl.create_default_context(cafile=str(self.authority.certificate))
        connection = harness.http.client.HTTPSConnection("localhost", self.server.grpc_port, timeout=PATIENCE,
                                                         context=context)
        connection.request("POST", f"/{SERVICE}/ListSessions", b"\0\0\0\0\0",
                           {"content-type": "application/grpc-web+proto"})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.read()[:5]), (200, b"\0\0\0\0\0"))
        connection.close()

    def test_alpn(self):
        for offered, chosen in ((["h2"], "h2"), (["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1")):
            context = ssl.create_default_context(cafile=str(self.authority.certificate))
            context.set_alpn_protocols(offered)
            with socket.create_connection(("127.0.0.1", self.server.grpc_port), PATIENCE) as link, \
                    context.wrap_socket(link, server_hostname="localhost") as shaken:
                self.assertEqual(shaken.selected_alpn_protocol(), chosen)

    def test_without_tls_nothing_is_said(self):
        with Api(self.server.grpc) as plain:
            self.assertEqual(self.status_of(lambda: plain.ListSessions(deadline=PATIENCE))[0], grpc.StatusCode.UNAVAILABLE)


class Settings(AgentboxCase):
    """agentbox's own variables."""

    def serve(self, env, settings=None, flags=("--open",)):
        server = AgentboxServer(*flags, settings=settings, env=env)
        self.addCleanup(server.close)
        return server.start()

    def refuses(self, *words, **more):
        server = AgentboxServer("--open", **more)
        self.addCleanup(server.close)
        with self.assertRaises(AssertionError) as caught:
            server.start()
        for word in words:
            self.assertIn(word, str(caught.exception))

    def by_variable(self, port):
        """A server whose port is named by nothing else."""
        server = AgentboxServer("--open", env={"GRPC_PORT": port})
        server.flags = [flag for flag in server.flags if flag not in ("--grpc-listen", "127.0.0.1:0")]
        self.addCleanup(server.close)
        return server

    def test_the_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        server = self.by_variable(str(port)).start()
        self.assertEqual(server.grpc_port, port)
        with Api(server.grpc) as api:
            self.assertEqual(list(api.ListSessions().sessions), [])

    def test_a_port_that_is_none(self):
        for value in ("x", "-1", "70000"):
            with self.assertRaises(AssertionError) as caught:
                self.by_variable(value).start()
            self.assertIn("GRPC_PORT", str(caught.exception))

    def test_runtimes(self):
        self.refuses("SANDBOX_RUNTIME", "crun", env={"SANDBOX_RUNTIME": "crun"})
        self.refuses("SANDBOX_RUNTIME", "runsc", env={"SANDBOX_RUNTIME": "runsc"})
        server = self.serve({"SANDBOX_RUNTIME": "runc"})
        with Api(server.grpc) as api:
            session = api.CreateSession().session.session_id
            self.assertEqual(api.Exec(session_id=session, command="echo hi").stdout, "hi\n")

    def test_image_timeout_and_storage(self):
        server = self.serve({"SANDBOX_IMAGE": "host", "SESSION_TIMEOUT": "1", "STORAGE_PATH": "/nowhere/tenants"},
                            {"image": None, "sweep_seconds": 1})
        with Api(server.grpc) as api:
            first = api.CreateSession(tenant_id="t").session.session_id
            self.assertEqual(api.Exec(session_id=first, command="echo kept > kept; cat kept").stdout, "kept\n")
            wait_for(lambda: not api.ListSessions().sessions, "the end of an idle session")
            again = api.CreateSession(tenant_id="t").session.session_id
            self.assertEqual(api.Exec(session_id=again, command="cat kept").stdout, "kept\n")
        self.assertEqual(server.stop(), 0)
        self.assertFalse(pathlib.Path("/nowhere").exists(), "what is kept lies in volumes, which have a limit")

    def test_a_timeout_that_is_none(self):
        for value in ("x", "-1", "1.5.2"):
            self.refuses("SESSION_TIMEOUT", env={"SESSION_TIMEOUT": value})

    def test_a_short_key_is_refused(self):
        self.refuses("the key that signs proxy tokens", env={"SIGNING_KEY": "short", "PROXY_HOST": "egress-proxy"})

    def test_unknown_settings_are_named(self):
        self.refuses("listn", settings={"listn": "127.0.0.1:0"})

    def test_half_of_tls_is_refused(self):
        self.refuses("tls_key_file", settings={"tls_certificate_file": "/nonexistent"})

    def test_config_check_knows_them(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("agentbox: {listen: '127.0.0.1:50051', image: host, session_timeout_seconds: 5}\n")
            file.flush()
            done = subprocess.run([harness.BIN / "caisson", "config", "check", file.name], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIsNotNone(re.search(r"session_timeout_seconds: 5", done.stdout), done.stdout)


class NotOpen(AgentboxCase):
    def test_an_open_port_on_every_address_is_refused(self):
        server = AgentboxServer("--open")
        server.flags[server.flags.index("--grpc-listen") + 1] = "0.0.0.0:0"
        self.addCleanup(server.close)
        with self.assertRaises(AssertionError):
            server.start()


if __name__ == "__main__":
    main()
