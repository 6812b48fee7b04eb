#!/usr/bin/env python3
"""A client of sandboxer's API, with nothing but Python's own library.

    examples/sandboxer/client.py http://localhost:8080 [IMAGE]

A server that asks for a token finds it in CAISSON_TOKEN. The image needs a shell; without one it is busybox.
"""

import json
import os
import sys
import urllib.request


class Sandbox:
    """One sandbox, from its creation to the end of the block."""

    def __init__(self, url, path="/sandboxes", **wish):
        self.url = url
        self.info = self.call("POST", path, wish)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("DELETE", self.path())

    def path(self, *parts):
        return "/".join(("/sandboxes", self.info["id"], *parts))

    def open(self, method, path, body=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token := os.environ.get("CAISSON_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        data = json.dumps(body).encode() if body is not None else None
        return urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers, method=method))

    def call(self, method, path, body=None):
        with self.open(method, path, body) as answer:
            return json.load(answer)

    def run(self, code):
        return self.call("POST", self.path("execute"), {"code": code})

    def follow(self, code):
        with self.open("POST", self.path("execute?stream=true"), {"code": code}) as answer:
            for line in answer:
                yield json.loads(line)

    def fork(self, label):
        return Sandbox(self.url, self.path("fork"), label=label)


def main():
    url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
    image = sys.argv[2] if len(sys.argv) > 2 else "busybox"
    serve = "mkdir -p /www; echo a page >/www/index.html; exec httpd -f -p 8080 -h /www"
    with Sandbox(url, image=image, label="root", args=["sh", "-c", serve]) as root:
        print("hello:", root.run("echo hello from $(hostname)")["stdout"])
        for part in root.follow("for i in 1 2 3; do echo line $i; done; exit 7"):
            print(f"{part['type']}:", part["output"])
        root.run("echo what the parent wrote >/note")
        with root.fork("a branch") as branch:
            print("in the fork:", branch.run("cat /note")["stdout"])
            print(root.call("GET", root.path("tree"))["tree"])
        with root.open("GET", root.path("proxy", "")) as page:
            print("its page:", page.read().decode().strip())


if __name__ == "__main__":
    main()
