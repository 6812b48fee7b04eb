"""The event stream, as the web page reads it."""

import http.client
import json

from sandboxer_case import SandboxerCase
from harness import main
from pictures import picture
from store_case import tar_of


class Listener:
    """Lines of an event stream, one object at a time."""

    def __init__(self, case, token=None):
        self.connection, self.answer = case.open("GET", "/events", token=token)

    def next(self):
        while True:
            line = self.answer.readline()
            if not line:
                raise EOFError("the stream ended")
            if line.startswith(b"data: "):
                assert self.answer.readline() == b"\n"
                return json.loads(line[6:])
            assert line == b"\n" or line.startswith(b":"), line

    def until(self, kind):
        seen = []
        while True:
            seen.append(self.next())
            if seen[-1]["type"] == kind:
                return seen


class Events(SandboxerCase):
    def test_the_stream_has_its_head(self):
        answer = Listener(self).answer
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream; charset=utf-8")
        self.assertEqual(answer.headers["Cache-Control"], "no-cache")
        self.assertEqual(answer.headers["X-Accel-Buffering"], "no")

    def test_a_life_is_told_in_its_order(self):
        events = Listener(self)
        box = self.make(label="one")
        started = events.next()
        self.assertEqual((started["type"], started["container_id"], started["data"]), ("container_started", box["id"], {}))
        self.assertIsInstance(started["timestamp"], float)
        self.good("PUT", self.at(box, "pause"))
        paused = events.next()
        self.assertEqual(paused["type"], "sandbox_paused")
        self.assertNotIn("data", paused)
        self.good("DELETE", self.at(box, "pause"))
        self.assertEqual(events.next()["type"], "sandbox_unpaused")
        self.good("PATCH", self.at(box), {"label": "two"})
        self.assertEqual(events.next()["data"], {"label": "two"})
        self.good("PATCH", self.at(box), {"public": True})
        self.assertEqual(events.next()["data"], {"public": True})
        child = self.fork(box, "three")
        first, second = events.next(), events.next()
        self.assertEqual((first["type"], first["container_id"]), ("container_started", child["id"]))
        self.assertEqual((second["type"], second["container_id"], second["data"]),
                         ("sandbox_forked", child["id"], {"parent_id": box["id"], "label": "three"}))
        self.good("POST", self.at(box, "coalesce", child["id"]))
        *ended, last = events.until("sandbox_coalesced")
        self.assertEqual([(one["type"], one["container_id"]) for one in ended], [("container_stopped", box["id"])])
        self.assertEqual((last["container_id"], last["data"]),
                         (child["id"], {"terminated_sandboxes": [box["id"]], "final_sandbox": child["id"]}))
        self.good("DELETE", self.at(child))
        stopped = events.next()
        self.assertEqual((stopped["type"], stopped["container_id"], stopped["data"]),
                         ("container_stopped", child["id"], {}))

    def test_an_end_of_itself_is_told_when_it_can_be_seen(self):
        events = Listener(self)
        box = self.make(args=["sh", "-c", "echo bye"])
        events.until("container_stopped")
        self.assertEqual(self.show(box)["status"], "terminated")
        self.assertEqual(self.logs(box), "bye")

    def test_others_hear_nothing(self):
        other = self.tenant("deaf")
        # Images belong to tenants.
        brought = self.ask("POST", "/api/v1/images/import?reference=busybox", token=other,
                           raw=tar_of(picture("busybox")), headers={"Content-Type": "application/x-tar"})
        self.assertEqual(brought.status, 201, brought.body)
        events = Listener(self, token=other)
        self.make(label="of somebody else")
        box = self.make(token=other, label="own")
        self.assertEqual(events.next()["container_id"], box["id"])

    def test_the_stream_ends_with_the_server(self):
        events = Listener(self)
        self.server.stop()
        with self.assertRaises((EOFError, ConnectionError, http.client.HTTPException)):
            while True:
                events.next()
        self.server.start()


if __name__ == "__main__":
    main()
