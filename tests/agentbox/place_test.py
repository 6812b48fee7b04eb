"""The sandbox as a command of a session sees it: environment, files, limits, and a tenant's storage."""

import pathlib

import grpc

from agentbox_case import AgentboxCase, main

MIB = 1 << 20


class Place(AgentboxCase):
    env = {"CANARY_OF_THE_SERVER": "seen", "HTTP_PROXY": "http://127.0.0.1:9", "no_proxy": "x"}

    def setUp(self):
        self.made = self.info()
        self.session_id = self.made.session_id

    def environment(self, session=None):
        return dict(line.split("=", 1) for line in self.says(session or self.session_id, "env").splitlines())

    def test_environment(self):
        seen = self.environment()
        self.assertTrue(seen["PATH"].startswith("/usr/local/bin:"), seen["PATH"])
        self.assertEqual((seen["HOME"], seen["HOSTNAME"], seen["LC_CTYPE"], seen["PWD"]),
                         ("/root", self.made.container_id, "C.UTF-8", "/workspace"))
        self.assertNotIn("CANARY_OF_THE_SERVER", seen)
        self.assertEqual([name for name in seen if "proxy" in name.lower()], [])

    def test_output_of_python_is_utf8(self):
        self.assertEqual(self.says(self.session_id, r"python3 -c 'print(chr(233), chr(0x20ac), chr(0x1f600))'"), "é € 😀\n")

    def test_folders(self):
        self.assertEqual(self.says(self.session_id, "ls -A /workspace /mnt/user-data/uploads /mnt/user-data/outputs"),
                         "/mnt/user-data/outputs:\n\n/mnt/user-data/uploads:\n\n/workspace:\n")
        for folder in ("/workspace", "/mnt/user-data/outputs", "/tmp", "/root"):
            self.assertEqual(self.says(self.session_id, f"cd {folder} && echo x > new && cat new"), "x\n", folder)

    def test_the_whole_root_is_writable_and_goes_with_the_session(self):
        self.says(self.session_id, "echo x > /usr/local/bin/new; echo x > /etc/new; echo x >> /etc/passwd; rm /etc/hostname || :")
        other = self.session()
        self.assertEqual(self.says(other, "ls /usr/local/bin/new /etc/new 2>/dev/null; grep -cx x /etc/passwd; :"), "0\n")
        self.assertFalse(pathlib.Path("/etc/new").exists())

    def test_the_root_has_a_size(self):
        done = self.execute(self.session_id, "df -P / | tail -n 1 | awk '{print $2}'")
        self.assertGreater(int(done.stdout), 0, done)

    def test_privileges(self):
        self.assertEqual(self.says(self.session_id, "id -u; grep NoNewPrivs /proc/self/status"), "0\nNoNewPrivs:\t1\n")

    def test_limits(self):
        self.assertEqual(self.says(self.session_id, "ulimit -v").strip(), "unlimited")
        boxes = self.server.get("/api/v1/sandboxes").json["sandboxes"]
        self.assertEqual(len(boxes), 1)
        limits = self.server.get(f"/api/v1/sandboxes/{boxes[0]['id']}").json["resource_limits"]
        self.assertEqual((limits["memory_mb"], limits["cpu"]), (4096, 4))
        for name in ("processes", "disk_mb"):
            self.assertGreater(limits.get(name) or 0, 0, limits)

    def test_processes_of_all_commands_share_one_space(self):
        self.says(self.session_id, "sleep 2236.1 </dev/null >/dev/null 2>&1 &")
        self.assertTrue(self.running(self.session_id, "sleep 2236.1"))
        self.assertFalse(self.running(self.session(), "sleep 2236.1"))

    def test_no_network_of_the_host(self):
        """Not even to our own two ports, whatever the list says."""
        session = self.session(allowed_hosts=["localhost", "127.0.0.1"])
        for port in (self.server.port, self.server.grpc_port):
            for host in ("127.0.0.1", "localhost", "10.0.0.1"):
                code = ("import socket; "
                        f"socket.create_connection((\"{host}\", {port}), 3)")
                self.assertNotEqual(self.execute(session, f"python3 -c '{code}'").exit_code, 0, (host, port))


class ReadOnly(AgentboxCase):
    settings = {"read_only_root": True}

    def test_only_four_places_are_writable(self):
        session = self.session()
        for folder in ("/workspace", "/mnt/user-data/outputs", "/tmp", "/root"):
            self.assertEqual(self.says(session, f"echo x > {folder}/new && cat {folder}/new"), "x\n", folder)
        for folder in ("/", "/usr", "/usr/local/bin", "/etc", "/var/lib", "/mnt", "/mnt/user-data"):
            self.assertNotEqual(self.execute(session, f"echo x > {folder}/new").exit_code, 0, folder)
        self.assertTrue(self.api.WriteFile(session_id=session, path="a/b", content="x").success)


class Storage(AgentboxCase):
    settings = {"storage": True, "storage_mb": 16}

    def test_sessions_of_a_tenant_share_it(self):
        a, b = self.session(tenant_id="shared"), self.session(tenant_id="shared")
        self.says(a, "echo w > w; mkdir d; echo o > /mnt/user-data/outputs/o")
        self.assertEqual(self.says(b, "cat w /mnt/user-data/outputs/o; ls -d d"), "w\no\nd\n")
        self.assertTrue(self.api.WriteFile(session_id=b, path="d/by_b", content="b").success)
        self.assertEqual(self.api.ReadFile(session_id=a, path="d/by_b").content, "b")
        self.assertEqual(self.says(a, "stat -c %u w d /workspace /mnt/user-data/outputs"), "0\n" * 4)

    def test_it_stays_after_the_session_and_the_server(self):
        session = self.api.CreateSession(tenant_id="lasting").session.session_id
        self.says(session, "echo kept > kept; echo x > /tmp/gone; echo out > /mnt/user-data/outputs/out")
        self.assertTrue(self.api.DestroySession(session_id=session).success)
        again = self.api.CreateSession(tenant_id="lasting").session.session_id
        self.assertEqual(self.says(again, "cat kept /mnt/user-data/outputs/out; ls /tmp"), "kept\nout\n")
        self.server.stop()
        self.server.start()
        self.connect()
        third = self.session(tenant_id="lasting")
        self.assertEqual(self.says(third, "cat kept /mnt/user-data/outputs/out"), "kept\nout\n")

    def test_tenants_and_nobody_are_apart(self):
        a, b, nobody = self.session(tenant_id="one"), self.session(tenant_id="two"), self.session()
        self.says(a, "echo secret > secret; echo secret > /mnt/user-data/outputs/secret")
        for other in (b, nobody):
            self.assertEqual(self.says(other, "ls -A /workspace /mnt/user-data/outputs | grep secret; :"), "")
        self.says(nobody, "echo x > mine")
        self.assertEqual(self.says(self.session(), "ls -A"), "")

    def test_a_tenants_name_is_no_path(self):
        for name in ("../x", "..", "a/../b", "/var/tmp"):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, lambda name=name: self.api.CreateSession(tenant_id=name))

    def test_names_that_differ_little(self):
        first = self.session(tenant_id="Name")
        self.says(first, "echo x > x")
        for name in ("name", "Name.", "Name-", "NAME"):
            self.assertEqual(self.says(self.session(tenant_id=name), "ls -A"), "", name)

    def test_quota(self):
        session = self.session(tenant_id="full")
        for folder in ("/workspace", "/mnt/user-data/outputs"):
            done = self.execute(session, f"head -c {40 * MIB} /dev/zero > {folder}/big; rc=$?; "
                                         f"wc -c < {folder}/big; exit $rc")
            self.assertNotEqual(done.exit_code, 0, (folder, done))
            self.assertLess(int(done.stdout), 20 * MIB)
            self.assertGreater(int(done.stdout), 4 * MIB)
        other = self.session(tenant_id="not-full")
        self.says(other, f"head -c {4 * MIB} /dev/zero > fine")


if __name__ == "__main__":
    main()
