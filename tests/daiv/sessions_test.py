"""Sessions: who may, what is refused and in which order, how they end and come back."""

import threading

from daiv_case import REPO, DaivCase, archive_of, packed

import kit
from harness import main, wait_for
from store_case import need, tar_of

GONE = {"detail": "Session not found or already closed"}
UNKNOWN = "ab" * 32


class Order(DaivCase):
    def test_health_and_version_need_no_key(self):
        for prefix in ("", "/api/v1"):
            self.assertEqual(self.call("GET", f"{prefix}/-/health/", key=None).json, {"status": "ok"})
            self.assertEqual(self.call("GET", f"{prefix}/-/version/", key=None).json, {"version": "v0.6.0"})

    def test_the_key(self):
        for method, path in (("POST", "/session/"), ("POST", f"/session/{UNKNOWN}/"), ("GET", f"/session/{UNKNOWN}/"),
                             ("DELETE", f"/api/v1/session/{UNKNOWN}/"), ("POST", f"/session/{UNKNOWN}/fs/ls")):
            body = None if method in ("GET", "DELETE") else {}
            for key, detail in ((None, "API Key header is missing"), ("", "API Key header is missing"),
                                ("wrong", "Invalid API Key")):
                answer = self.call(method, path, body, key=key)
                self.assertEqual((answer.status, answer.json), (403, {"detail": detail}), (method, path, key))

    def test_a_token_of_the_servers_own_opens_it_too_for_its_own_tenant(self):
        other = self.tenant("blue")
        answer = self.call("POST", "/session/", {"base_image": "host"}, key=other)
        self.assertEqual(answer.status, 200, answer.body)
        theirs = answer.json["session_id"]
        self.addCleanup(self.call, "DELETE", f"/session/{theirs}/?force=true", key=other)
        self.assertEqual(self.call("GET", f"/session/{theirs}/").status, 404)
        self.assertEqual(self.call("DELETE", f"/session/{theirs}/?force=true").status, 204)
        self.assertEqual(self.call("GET", f"/session/{theirs}/", key=other).status, 204)

    def test_malformed_json_comes_before_the_key_and_the_schema_after_it(self):
        headers = {"Content-Type": "application/json"}
        answer = self.call("POST", "/session/", raw=b"{", headers=headers, key=None)
        self.assertEqual(answer.status, 422)
        self.assertEqual(answer.json["detail"][0]["type"], "json_invalid")
        self.assertEqual(answer.json["detail"][0]["loc"], ["body", 1])
        answer = self.call("POST", "/session/", {})
        self.assertEqual((answer.status, answer.json), (422, {"detail": [
            {"type": "missing", "loc": ["body", "base_image"], "msg": "Field required", "input": {}}]}))
        answer = self.call("POST", f"/session/{UNKNOWN}/", {"commands": "ls"})
        self.assertEqual((answer.status, answer.json["detail"][0]["type"]), (422, "list_type"))
        answer = self.call("POST", f"/session/{UNKNOWN}/", {"commands": []})
        self.assertEqual((answer.status, answer.json), (404, GONE))

    def test_routes(self):
        answer = self.call("POST", "/session", {"base_image": "host"})
        self.assertEqual(answer.status, 307)
        self.assertTrue(answer.headers["Location"].endswith(f":{self.server.port}/session/"), answer.headers["Location"])
        self.assertEqual(self.call("GET", "/session/").status, 405)
        self.assertEqual(self.call("GET", "/session/").json, {"detail": "Method Not Allowed"})
        self.assertEqual(self.call("GET", "/session/a/b/c/d/").json, {"detail": "Not Found"})
        self.assertEqual(self.call("HEAD", "/-/health/").status, 405)

    def test_unknown_fields_and_nulls_are_fine(self):
        session = self.session(dockerfile=None, ephemeral=False, environment=None, memory_bytes=None, cpus=None,
                               egress=None, whatever=[1])
        self.assertEqual(self.run_one(session, "true", archive=None, timeout=None, more={}), ("", 0))

    def test_mistakes_have_words(self):
        for wish, status in (({"base_image": "no such image"}, (400, 422)), ({"base_image": ""}, (400, 422)),
                             ({"base_image": "host", "memory_bytes": -1}, (400, 422)),
                             ({"base_image": "host", "memory_bytes": 4096}, (400, 422)),
                             ({"base_image": "127.0.0.1:1/none:1"}, (400, 422))):
            answer = self.call("POST", "/session/", wish)
            self.assertIn(answer.status, status, (wish, answer.body))
            self.assertTrue(answer.json["detail"])
        self.assertEqual(self.server.get("/api/v1/sandboxes").json["sandboxes"], [])


class Sessions(DaivCase):
    def test_a_foreign_sandbox_is_no_session(self):
        box = self.create(name="victim")
        for name in (box, "victim", box[:12]):
            self.assertEqual(self.call("POST", f"/session/{name}/", {"commands": ["id"]}).status, 404)
            self.assertEqual(self.call("DELETE", f"/session/{name}/?force=true").status, 204)
        self.assertEqual(self.shell(box, "echo alive"), "alive\n")

    def test_where_a_command_stands(self):
        session = self.session(environment={"A": "1", "HOME": "/nope"})
        self.assertEqual(self.run_one(session, "pwd; pwd -P; id -u; id -g; umask; echo $HOME $A $XDG_CACHE_HOME")[0],
                         f"{REPO}\n{REPO}\n1000\n1000\n0022\n/home/daiv-sandbox 1 /home/daiv-sandbox/.cache\n")
        self.assertEqual(self.run_one(session, "cd /repo && pwd -P && echo x > /repo/y && cat /workspace/repo/y")[0],
                         "/repo\nx\n")
        places = "/workspace /workspace/repo /workspace/skills /workspace/tmp /workdir /home/daiv-sandbox /repo"
        self.assertEqual(self.run_one(session, f"stat -c %u:%g:%a {places} | sort -u")[0], "1000:1000:755\n")
        self.assertNotEqual(self.run_one(session, "touch /x")[1], 0)

    def test_removing_the_work_folder_does_not_brick_it(self):
        session = self.session()
        self.run_one(session, f"echo x > a; rm -rf {REPO}")
        self.assertEqual(self.run_one(session, "ls -A; pwd"), (f"{REPO}\n", 0))
        self.assertIsNone(self.fs(session, "write", path=f"{REPO}/b", content=packed(b"b"))["error"])

    def test_limits_hold(self):
        session = self.session(memory_bytes=64 << 20, cpus=0.5)
        code = self.run_one(session, "python3 -c 'x = bytearray(256 << 20)'; echo $?")[0]
        self.assertIn(code.strip().split("\n")[-1], ("1", "137"))
        self.assertEqual(self.run_one(session, "echo alive"), ("alive\n", 0))

    def test_no_network_unless_asked_for(self):
        session = self.session()
        self.assertEqual(self.run_one(session, "cat /sys/class/net/*/operstate 2>/dev/null | wc -l; "
                                               "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)' 2>/dev/null; echo $?")[0].split()[-1], "1")

    def test_the_network_is_the_internet_by_name_and_nothing_inside(self):
        session = self.session(network_enabled=True)
        shown = self.server.get(f"/api/v1/sandboxes/{session}").json["network"]["rules"]
        self.assertEqual([rule["domain"] for rule in shown], ["*"])
        for host in ("10.0.0.1", "169.254.169.254", "127.0.0.1", "localhost", "[::1]"):
            said = self.run_one(session, f"curl -s -m 5 -o /dev/null -w '%{{http_code}}' http://{host}:{self.server.port}/-/health/")[0]
            self.assertNotIn("200", said, host)

    def test_an_egress_policy_and_its_change(self):
        policy = {"policy": {"default": "deny", "intercept": "credentialed", "rules": [{"host": "*.example.com"}]}}
        session = self.session(egress=policy)
        shown = lambda: [rule["domain"] for rule in self.server.get(f"/api/v1/sandboxes/{session}").json["network"]["rules"]]
        self.assertEqual(shown(), ["*.example.com"])
        policy["policy"]["rules"] = [{"host": "other.example"}]
        self.assertEqual(self.call("PUT", f"/session/{session}/egress/", policy).status, 204)
        self.assertEqual(shown(), ["other.example"])
        self.call("DELETE", f"/session/{session}/?force=false")
        policy["policy"]["rules"] = [{"host": "third.example"}]
        self.assertEqual(self.call("PUT", f"/session/{session}/egress/", policy).status, 204)
        self.assertEqual(self.server.get(f"/api/v1/sandboxes/{session}").json["state"], "stopped")
        self.assertEqual(self.call("GET", f"/session/{session}/").status, 204)
        self.assertEqual(shown(), ["third.example"])
        self.assertEqual(self.call("PUT", f"/session/{self.session()}/egress/", policy).status, 409)
        self.assertEqual(self.call("POST", f"/session/{session}/egress/", policy).status, 405)
        for bad in ({"policy": {"default": "perhaps"}}, {"policy": {"rules": [{}]}}, {"policy": {"rules": [{"host": "a b"}]}}):
            self.assertEqual(self.call("PUT", f"/session/{session}/egress/", bad).status, 422, bad)

    def test_a_label_is_no_way_to_the_secrets_of_others(self):
        self.assertEqual(self.server.put("/api/v1/secrets/github-token", {"value": "kept"}).status, 204)
        box = self.create(labels={"daiv.sandbox.type": "cmd_executor", "daiv.sandbox.egress": "github github-token"})
        self.assertEqual(self.call("DELETE", f"/session/{box}/?force=true").status, 204)
        self.assertIn("github-token", self.server.get("/api/v1/secrets").body.decode())

    def test_close_stops_and_the_next_call_starts_it_again(self):
        session = self.session()
        self.run_one(session, "echo kept > a; sleep 1000 & echo x > /home/daiv-sandbox/y")
        self.assertEqual(self.call("DELETE", f"/session/{session}/?force=false").status, 204)
        self.assertEqual(self.call("GET", f"/session/{session}/").status, 204)
        self.assertEqual(self.run_one(session, "cat a /home/daiv-sandbox/y; ps -e -o comm= 2>/dev/null | grep -c sleep")[0],
                         "kept\nx\n0\n")
        self.call("DELETE", f"/session/{session}/?force=false")
        self.assertEqual(self.fs(session, "read", path=f"{REPO}/a")["content"], "kept")
        self.assertEqual(self.call("DELETE", f"/session/{session}/?force=true").status, 204)
        self.assertEqual(self.call("GET", f"/session/{session}/").json, GONE)
        self.assertEqual(self.call("DELETE", f"/session/{session}/").status, 204)

    def test_close_without_a_word_removes_what_the_older_api_made(self):
        session = self.session(extract_patch=True)
        self.assertEqual(self.call("DELETE", f"/session/{session}/").status, 204)
        self.assertEqual(self.call("GET", f"/session/{session}/").status, 404)
        newer = self.session()
        self.assertEqual(self.call("DELETE", f"/session/{newer}/").status, 204)
        self.assertEqual(self.call("GET", f"/session/{newer}/").status, 204)

    def test_it_survives_the_server(self):
        session = self.session()
        self.run_one(session, "echo kept > a")
        self.assertEqual(self.seed(session, repo_archive=archive_of({"s": b"1"})).status, 204)
        self.server.stop()
        self.server.start()
        self.assertEqual(self.run_one(session, "cat a s")[0], "kept\n1")
        self.assertEqual(self.seed(session, repo_archive=archive_of({"s": b"1"})).json,
                         {"detail": "Session already seeded"})

    def test_calls_of_one_session_go_in_order_and_others_are_not_held_up(self):
        one, two = self.session(), self.session()
        said = []
        held = threading.Thread(target=lambda: said.append(
            self.run_one(one, "echo begin > t; while ! test -e go; do sleep 0.01; done; cat t")[0]))
        held.start()
        wait_for(lambda: self.server.get(f"/api/v1/sandboxes/{one}/files/repo/t").status == 200, "the first call")
        second = threading.Thread(target=lambda: said.append(self.run_one(one, "echo second >> t; cat t")[0]))
        second.start()
        self.assertEqual(self.run_one(two, "echo free"), ("free\n", 0))
        self.assertEqual(self.call("GET", "/-/health/", key=None).json, {"status": "ok"})
        self.assertEqual(said, [])
        self.server.put(f"/api/v1/sandboxes/{one}/files/repo/go", b"")
        held.join()
        second.join()
        self.assertEqual(sorted(said, key=len), ["begin\n", "begin\nsecond\n"])

    def test_eight_at_once(self):
        sessions = [self.session() for _ in range(8)]
        results = {}
        wait = "touch t; while ! test -e go; do sleep 0.01; done; echo done"
        threads = [threading.Thread(target=lambda s=s: results.__setitem__(s, self.run_one(s, wait))) for s in sessions]
        for thread in threads:
            thread.start()
        for session in sessions:  # all of them are under way at one time
            wait_for(lambda s=session: self.server.get(f"/api/v1/sandboxes/{s}/files/repo/t").status == 200, "a command")
        self.assertEqual(self.call("GET", "/-/health/", key=None).status, 200)
        self.assertEqual(results, {})
        for session in sessions:
            self.server.put(f"/api/v1/sandboxes/{session}/files/repo/go", b"")
        for thread in threads:
            thread.join()
        self.assertEqual(set(results.values()), {("done\n", 0)})


class Busy(DaivCase):
    env = DaivCase.env | {"DAIV_SANDBOX_SESSION_LOCK_WAIT_SECONDS": "0"}

    def test_a_session_in_use_is_said_to_be_busy(self):
        session = self.session()
        held = threading.Thread(target=lambda: self.run_one(session, "touch t; while ! test -e go; do sleep 0.01; done"))
        held.start()
        wait_for(lambda: self.server.get(f"/api/v1/sandboxes/{session}/files/repo/t").status == 200, "the first call")
        answer = self.call("POST", f"/session/{session}/", {"commands": ["true"]})
        self.assertEqual((answer.status, answer.json), (409, {"detail": "Session is busy"}))
        self.server.put(f"/api/v1/sandboxes/{session}/files/repo/go", b"")
        held.join()


class Reaped(DaivCase):
    env = DaivCase.env | {"DAIV_SANDBOX_REAPER_INTERVAL_SECONDS": "1", "DAIV_SANDBOX_SESSION_GRACE_SECONDS": "0",
                          "DAIV_SANDBOX_RUNNING_SESSION_MAX_IDLE_SECONDS": "1"}

    def test_stopped_and_idle_ones_go(self):
        stopped, idle = self.session(), self.session()
        self.call("DELETE", f"/session/{stopped}/?force=false")
        there = lambda: {box["id"] for box in self.server.get("/api/v1/sandboxes").json["sandboxes"]}
        wait_for(lambda: not there() & {stopped, idle}, "the reaper")
        self.assertEqual(self.call("GET", f"/session/{idle}/").status, 404)


class FromAnImage(DaivCase):
    def test_busybox(self):
        need(self, "mmdebstrap")
        self.import_image(tar_of(kit.image("busybox")), "kit/busybox:1")
        session = self.session(base_image="kit/busybox:1", extract_patch=True)
        self.assertEqual(self.run_one(session, "false | true")[1] != 0, True)
        self.assertEqual(self.run_one(session, "true | true")[1], 0)
        self.assertEqual(self.run_one(session, "pwd; id -u")[0], f"{REPO}\n1000\n")
        self.assertIn("+new", self.patch(session, archive_of({"a": b"old\n"}), "echo new > a"))


if __name__ == "__main__":
    main()
