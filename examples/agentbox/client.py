#!/usr/bin/env python3
"""A client of the gRPC port, in Python: python3-grpcio, and messages made from api/sandbox/v1/sandbox.proto.

    protoc -I api --python_out=/tmp/messages sandbox/v1/sandbox.proto
    PYTHONPATH=/tmp/messages examples/agentbox/client.py localhost:50051

A server that asks for a token finds it in CAISSON_TOKEN.
"""

import os
import sys

import grpc
from sandbox.v1 import sandbox_pb2 as messages

SERVICE = "sandbox.v1.SandboxService"


class Sandbox:
    """One session, from its creation to the end of the block."""

    def __init__(self, address, **wish):
        self.channel = grpc.insecure_channel(address)
        token = os.environ.get("CAISSON_TOKEN")
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self.info = self.call("CreateSession", messages.CreateSessionRequest(**wish)).session

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("DestroySession", messages.DestroySessionRequest(session_id=self.info.session_id))
        self.channel.close()

    def call(self, method, request, answer=None):
        answer = answer or getattr(messages, f"{method}Response")
        call = self.channel.unary_unary(f"/{SERVICE}/{method}", request_serializer=type(request).SerializeToString,
                                        response_deserializer=answer.FromString)
        return call(request, metadata=self.metadata)

    def run(self, command, timeout=30):
        return self.call("Exec", messages.ExecRequest(session_id=self.info.session_id, command=command, timeout=timeout))

    def stream(self, command):
        call = self.channel.unary_stream(f"/{SERVICE}/ExecStream",
                                         request_serializer=messages.ExecStreamRequest.SerializeToString,
                                         response_deserializer=messages.ExecStreamResponse.FromString)
        return call(messages.ExecStreamRequest(session_id=self.info.session_id, command=command),
                    metadata=self.metadata)

    def write(self, path, content):
        done = self.call("WriteFile", messages.WriteFileRequest(session_id=self.info.session_id, path=path,
                                                                content=content))
        if not done.success:
            raise OSError(done.error)

    def read(self, path):
        done = self.call("ReadFile", messages.ReadFileRequest(session_id=self.info.session_id, path=path))
        if not done.success:
            raise OSError(done.error)
        return done.content

    def sessions(self):
        return self.call("ListSessions", messages.ListSessionsRequest()).sessions


def main():
    address = sys.argv[1] if len(sys.argv) > 1 else "localhost:50051"
    with Sandbox(address, allowed_hosts=["localhost"]) as sandbox:
        print("host name:", sandbox.run("hostname").stdout.strip() == sandbox.info.container_id)
        print("python:", sandbox.run("python3 --version").stdout.strip())
        sandbox.write("hello.py", "print('hello from', __file__)\n")
        print("file:", sandbox.read("hello.py").strip())
        print("run:", sandbox.run("python3 hello.py").stdout.strip())
        for part in sandbox.stream("for i in 1 2 3; do echo line $i; done; exit 7"):
            print("exit:" if part.type == "exit" else f"{part.type}:",
                  part.exit_code if part.type == "exit" else part.data.strip().replace("\n", " "))
        late = sandbox.run("sleep 60", timeout=1)
        print("timeout:", late.exit_code, late.stderr, late.timed_out)
        try:
            sandbox.read("/etc/passwd")
        except OSError as error:
            print("refused:", error)
        print("listed:", sandbox.info.session_id in [one.session_id for one in sandbox.sessions()])


if __name__ == "__main__":
    main()
