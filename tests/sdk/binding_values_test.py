"""Python without a server, where no sandbox is needed: the declaration, its parser, and what one asks of it."""

import copy
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "server")]
from harness import PATIENCE, main  # noqa: E402

import caisson  # noqa: E402
import caisson.local  # noqa: E402
from caisson.local import (  # noqa: E402
    CapabilityDeclaration,
    CapabilityParseError,
    CapabilityParser,
    EgressFilter,
    FilesystemConfig,
    FilesystemMode,
    FilesystemPolicy,
    HeaderInjection,
    NetworkEgressRule,
    ResourceLimits,
    ResourceMonitor,
    SandboxError,
    SandboxTier,
    check_egress,
    check_limits,
    validate_path_access,
)

SOURCES = Path(os.environ.get("CAISSON_SOURCE", HERE.parent.parent)) / "sdk/python/src"


def python(program, *paths):
    """What a fresh interpreter says to this program, with nothing but these folders to import from."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, env=environment,
                          timeout=PATIENCE, check=False)


class Package(unittest.TestCase):
    def test_every_name_is_also_the_packages_own(self):
        for name in caisson.local.__all__:
            self.assertIs(getattr(caisson, name), getattr(caisson.local, name), name)

    def test_importing_the_package_loads_nothing_of_it(self):
        done = python("import sys, caisson\nprint('caisson.local' in sys.modules, 'caisson._native' in sys.modules)",
                      Path(caisson.__path__[0]).parent)
        self.assertEqual((done.stdout, done.stderr), ("False False\n", ""))

    def test_without_the_compiled_module_the_rest_works_and_a_local_name_says_what_to_do(self):
        done = python("import caisson\ntry:\n    caisson.SandboxManager\nexcept ImportError as error:\n    print(error)",
                      SOURCES)
        self.assertIn("need the compiled module caisson._native", done.stdout, done.stderr)
        self.assertIn("CAISSON_BUILD=", done.stdout)


class Declaration(unittest.TestCase):
    def test_defaults_are_those_of_an_empty_file(self):
        declared = CapabilityDeclaration()
        self.assertEqual(declared, CapabilityParser.from_string(""))
        self.assertEqual(declared.sandbox_tier, SandboxTier.seccomp)
        self.assertEqual(declared.filesystem_config, FilesystemConfig(mode=FilesystemMode.read_only, writable_paths=[]))
        self.assertEqual(repr(declared.resource_limits),
                         "ResourceLimits(max_memory_mb=512, max_cpu_seconds=30.0, max_cost_usd=0.1, max_tokens=100000)")
        self.assertEqual((declared.network_egress_rules, declared.permissions, declared.env_allowlist), ([], [], None))
        self.assertEqual(NetworkEgressRule(domain="a.example").rate_limit_per_min, 60)

    def test_a_value_that_cannot_be_is_refused_when_it_is_built(self):
        for build, words in (
            (lambda: ResourceLimits(max_memory_mb=0), "max_memory_mb: must be from 1"),
            (lambda: ResourceLimits(max_cpu_seconds=-1), "max_cpu_seconds: must be greater than 0"),
            (lambda: ResourceLimits(max_tokens="many"), "max_tokens: must be a whole number, found 'many'"),
            (lambda: NetworkEgressRule(domain=""), "domain"),
            (lambda: NetworkEgressRule(domain="a.example", ports=[0]), "ports"),
            (lambda: NetworkEgressRule(domain="a.example", ports=[70000]), "ports: must be a list of whole numbers"),
            (lambda: NetworkEgressRule(domain="a.example", ports="443"), "ports: must be a list"),
            (lambda: FilesystemConfig(mode="append"), "append"),
            (lambda: CapabilityDeclaration(permissions=["fly"]), "fly"),
            (lambda: CapabilityDeclaration(sandbox_tier="jail"), "jail"),
            (lambda: CapabilityDeclaration(env_allowlist=["1A"]), "env_allowlist"),
        ):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                build()

    def test_words_and_mappings_become_values(self):
        declared = CapabilityDeclaration(
            sandbox_tier="native", filesystem_config={"mode": "read_write", "writable_paths": ["/data"]},
            resource_limits={"max_tokens": 7}, network_egress_rules=[{"domain": "a.example", "ports": [443]}])
        self.assertIs(declared.sandbox_tier, SandboxTier.seccomp)
        self.assertIs(declared.filesystem_config.mode, FilesystemMode.read_write)
        self.assertEqual(declared.resource_limits, ResourceLimits(max_tokens=7))
        self.assertEqual(declared.network_egress_rules, [NetworkEgressRule(domain="a.example", ports=[443])])

    def test_values_are_plain_they_copy_compare_and_pickle(self):
        declared = CapabilityDeclaration(network_egress_rules=[NetworkEgressRule(domain="a.example")],
                                         permissions=["read_env"])
        twin = pickle.loads(pickle.dumps(declared))
        self.assertEqual(copy.deepcopy(twin), declared)
        twin.network_egress_rules.append(NetworkEgressRule(domain="b.example"))
        self.assertNotEqual(twin, declared)


class Parser(unittest.TestCase):
    TEXT = textwrap.dedent("""\
        sandbox_tier: gvisor
        resource_limits: {max_memory_mb: 256, max_cpu_seconds: 15}
        network_egress_rules:
          - {domain: "*.example.com", ports: [443], rate_limit_per_min: 30}
          - {domain: api.example.org, methods: [GET], path_prefixes: [/v1/], max_bytes: 1000, inspect: true,
             inject: [{header: Authorization, secret: key, prefix: "Bearer "}]}
        filesystem_config: {mode: read_write, writable_paths: [/tmp/work]}
        permissions: [read_env, spawn_subprocess]
        env_allowlist: [PATH, HOME]
        """)

    def test_every_field_of_a_file_arrives(self):
        declared = CapabilityParser.from_string(self.TEXT)
        self.assertEqual(declared, CapabilityDeclaration(
            sandbox_tier=SandboxTier.gvisor, resource_limits=ResourceLimits(max_memory_mb=256, max_cpu_seconds=15.0),
            network_egress_rules=[
                NetworkEgressRule(domain="*.example.com", ports=[443], rate_limit_per_min=30),
                NetworkEgressRule(domain="api.example.org", methods=["GET"], path_prefixes=["/v1/"], max_bytes=1000,
                                  inspect=True, inject=[HeaderInjection(header="Authorization", secret="key", prefix="Bearer ")])],
            filesystem_config=FilesystemConfig(mode=FilesystemMode.read_write, writable_paths=["/tmp/work"]),
            permissions=["read_env", "spawn_subprocess"], env_allowlist=["PATH", "HOME"]))

    def test_files_are_read_by_any_kind_of_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "cap.yaml")
            path.write_text(self.TEXT)
            self.assertEqual(CapabilityParser.from_file(path), CapabilityParser.from_file(str(path)))
            with self.assertRaises(CapabilityParseError):
                CapabilityParser.from_file(path.with_name("none.yaml"))

    def test_a_mistake_is_an_error_that_names_the_line(self):
        with self.assertRaises(CapabilityParseError) as caught:
            CapabilityParser.from_string("resource_limits:\n  max_memory: 5\n")
        self.assertRegex(str(caught.exception),
                         r'^capability validation error: line 2, column 3: unknown field "max_memory"')
        self.assertEqual(caught.exception.code, "InvalidArgument")

    def test_errors_pickle_with_all_they_know(self):
        error = pickle.loads(pickle.dumps(SandboxError("no", code="Denied", field="a.b", errno=1)))
        self.assertEqual((str(error), error.code, error.field, error.errno), ("no", "Denied", "a.b", 1))


class Questions(unittest.TestCase):
    RULES = [NetworkEgressRule(domain="api.example.com", ports=[443]), NetworkEgressRule(domain="*.example.org")]

    def test_egress(self):
        judge = EgressFilter(self.RULES)
        for url, allowed in (("https://api.example.com/v1/chat", True), ("https://api.example.com:80/", False),
                             ("http://a.b.example.org/", True), ("https://example.org/", False),
                             ("https://evil.example/", False), ("https://user@api.example.com/", False), ("no url at all", False)):
            self.assertIs(judge.is_allowed(url), allowed, url)
            self.assertIs(check_egress(url, self.RULES), allowed, url)
        self.assertFalse(EgressFilter([]).is_allowed("https://api.example.com/"))
        self.assertEqual(judge.rules_for_domain("API.Example.com"), self.RULES[:1])
        self.assertEqual(judge.rules_for_domain("\n"), [])
        decision = judge.check("https://A.example.org:8443/x")
        self.assertTrue(decision)
        self.assertEqual((decision.rule_index, decision.host, decision.port), (1, "a.example.org", 8443))

    def test_paths(self):
        config = FilesystemConfig(mode=FilesystemMode.read_write, writable_paths=["/tmp/work", "out"])
        policy = FilesystemPolicy(config, "/srv/job")
        self.assertTrue(policy.can_read("/etc/hosts"))
        self.assertFalse(policy.can_write(Path("/etc/hosts")))
        self.assertTrue(policy.can_write("/tmp/work/a/../b"))
        self.assertTrue(policy.can_write("/srv/job/out/x"))
        self.assertIsNone(policy.deny_reason("/etc/hosts", "read"))
        self.assertEqual(policy.deny_reason("/tmp/work/../x", "write"),
                         'write of "/tmp/x" denied: not under any of writable_paths')
        self.assertTrue(validate_path_access("/tmp/work/x", "write", config))
        self.assertFalse(validate_path_access("/", "read", FilesystemConfig(mode=FilesystemMode.none)))
        with self.assertRaisesRegex(ValueError, "known: read, write"):
            validate_path_access("/", "execute", config)


class Account(unittest.TestCase):
    def test_tokens_and_cost(self):
        monitor = ResourceMonitor(ResourceLimits(max_tokens=1000, max_cost_usd=0.01))
        monitor.start()
        monitor.record_tokens(350)
        monitor.record_cost(0.0035)
        self.assertEqual(monitor.check_limits(), (True, None))
        monitor.record_tokens(800)
        self.assertEqual(monitor.check_limits(), (False, "Token limit exceeded: 1150 tokens used, limit is 1000"))
        with self.assertRaises(SandboxError) as caught:
            monitor.start()
        self.assertEqual(caught.exception.code, "Busy")
        monitor.stop()
        monitor.stop()
        used = monitor.snapshot()
        self.assertEqual(sorted(used), ["cost_usd", "cpu_seconds", "elapsed_seconds", "peak_memory_mb", "tokens_used"])
        self.assertEqual((used["tokens_used"], used["cost_usd"]), (1150, 0.0035))
        self.assertGreater(used["elapsed_seconds"], 0)
        for wrong in (lambda: monitor.record_tokens(-1), lambda: monitor.record_cost(float("nan")),
                      lambda: monitor.record_memory(-1.0)):
            self.assertRaises(ValueError, wrong)

    def test_a_process_can_be_looked_at(self):
        monitor = ResourceMonitor(ResourceLimits(max_memory_mb=1))
        monitor.start(pid=os.getpid())
        self.assertRegex(monitor.check_limits()[1], "Memory limit exceeded: .* MiB used, limit is 1 MiB")
        monitor.stop()
        monitor.record_memory(4096.0)
        self.assertEqual(monitor.snapshot()["peak_memory_mb"], 4096.0)

    def test_a_snapshot_against_limits(self):
        limits = ResourceLimits(max_cpu_seconds=10.0, max_memory_mb=512)
        self.assertEqual(check_limits({}, limits), (True, None))
        self.assertEqual(check_limits({"cpu_seconds": 5.0, "peak_memory_mb": 512}, limits), (True, None))
        self.assertEqual(check_limits({"cpu_seconds": 15.0}, limits),
                         (False, "CPU limit exceeded: 15.0 s used, limit is 10.0 s"))


if __name__ == "__main__":
    main()
