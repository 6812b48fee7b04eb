"""A sandbox that moves into a stronger tier, and settings that name the weakest one."""

import os
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "server")]

import harness  # noqa: E402
from harness import path_of  # noqa: E402
from store_case import StoreCase, need, query  # noqa: E402

SAME = ("id", "name", "labels", "resource_limits", "user", "workdir", "created_at", "expires_at", "image", "tools", "hostname",
        "storage", "persistent")
UNTRUSTED = "promote-untrusted"


class Promote(StoreCase):
    def setUp(self):
        need(self, "runsc")

    def promote(self, box, tier="gvisor", **more):
        return self.server.post(path_of(box, "promote"), {"tier": tier, **more})

    def shown(self, box):
        return self.told(self.server.get(path_of(box)))

    def check_promotion(self, **wish):
        box = self.create(name="moves-" + wish["storage"], labels={"a": "b"}, env={"MINE": "1"},
                          resource_limits={"memory_mb": 300, "timeout_seconds": 500}, **wish)
        self.shell(box, "mkdir d; echo state >d/a; chmod 640 d/a; ln -s d/a link")
        before = self.shown(box)
        after = self.told(self.promote(box))
        self.assertEqual({name: after[name] for name in SAME}, {name: before[name] for name in SAME})
        self.assertEqual((after["tier"], after["record"]["tier"], after["state"]), ("gvisor", "gvisor", "running"))
        self.assertEqual(self.shown(box)["record"], after["record"])
        self.assertNotEqual(self.shell(box, "uname -r").strip(), os.uname().release)
        self.assertEqual(self.shell(box, "cat link; echo $MINE; echo more >>d/b; cat d/b"), "state\n1\nmore\n")
        self.refused(self.promote(box), 400, "InvalidArgument", "tier")
        self.refused(self.promote(box, "native"), 400, "InvalidArgument", "tier")
        return box

    def test_files_on_disk(self):
        box = self.check_promotion(storage="disk")
        rows = self.told(self.server.get(query("/api/v1/audit", sandbox=box, action="sandbox.promote")))["rows"]
        self.assertEqual(sorted(row["outcome"] for row in rows), ["allowed", "failed", "failed"])

    def test_files_in_memory(self):
        self.check_promotion(storage="memory")

    def test_what_runs_is_asked_for_first(self):
        box = self.create(storage="disk")
        process = self.background(box)
        self.shell(box, "echo kept >a")
        self.refused(self.promote(box), 409, "Busy")
        self.assertTrue(self.told(self.server.get(path_of(box, f"processes/{process}")))["running"])
        self.assertEqual(self.told(self.promote(box, end_processes=True))["tier"], "gvisor")
        self.assertEqual(self.shell(box, "cat a"), "kept\n")
        self.assertEqual(self.server.get(path_of(box, f"processes/{process}")).status, 404)

    def test_the_network_and_the_gate_go_on(self):
        rules = {"mode": "allowlist", "rules": [{"domain": "example.com"}]}
        box = self.create(storage="disk", network=rules)
        before = self.shown(box)["network"]
        self.told(self.promote(box))
        self.assertEqual(self.shown(box)["network"], before)
        self.assertIn("HTTPS_PROXY", self.shell(box, "env"))

    def test_who_may_not(self):
        box = self.create()
        other = self.tenant("others")
        self.assertEqual(self.server.post(path_of(box, "promote"), {"tier": "gvisor"}, token=other).status, 404)
        reader = self.tenant("admins", "read")
        self.refused(self.server.post(path_of(box, "promote"), {"tier": "gvisor"}, token=reader), 403, "Denied")
        self.refused(self.promote(box, "tank"), 400, "InvalidArgument", "tier")


class Least(StoreCase):
    config = f"""
tiers:
  tenants: {{careful: gvisor}}
profiles:
  {UNTRUSTED}: {{tier: gvisor, minimum_tier: gvisor}}
"""

    def setUp(self):
        need(self, "runsc")

    def test_a_profile(self):
        self.refused(self.server.post("/api/v1/sandboxes", {"profile": UNTRUSTED, "tier": "native"}), 403, "Denied", "tier")
        box = self.create(profile=UNTRUSTED)
        self.assertEqual(self.told(self.server.get(path_of(box)))["tier"], "gvisor")

    def test_a_tenant(self):
        token = self.tenant("careful")
        self.assertEqual(self.server.get("/api/v1/server", token=token).json["minimum_tier"], "gvisor")
        self.assertEqual(self.server.get("/api/v1/server").json["minimum_tier"], "native")
        answer = self.server.post("/api/v1/sandboxes", {}, token=token)
        self.refused(answer, 403, "Denied", "tier")
        self.assertIn("tiers.tenants", answer.json["error"]["message"])


if __name__ == "__main__":
    harness.main()
