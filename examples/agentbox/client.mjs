#!/usr/bin/env node
// A client of the gRPC port, in JavaScript, by gRPC-Web as a page would speak it, or by gRPC itself.
//
//     npm install
//     protoc -I ../../api --descriptor_set_out=sandbox.bin sandbox/v1/sandbox.proto
//     node client.mjs sandbox.bin http://localhost:50051 [--native]
//
// Nothing is generated: the messages are read from the descriptor set. A server that asks for a token finds it in
// CAISSON_TOKEN.
import { createFileRegistry, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { createGrpcWebTransport } from "@connectrpc/connect-web";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

function withToken(next) {
  return (request) => {
    if (process.env.CAISSON_TOKEN) request.header.set("authorization", `Bearer ${process.env.CAISSON_TOKEN}`);
    return next(request);
  };
}

/** A client with a function for each of the nine methods. */
export function connect(descriptors, baseUrl, native = false) {
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
  const make = native ? createGrpcTransport : createGrpcWebTransport;
  const transport = make({ baseUrl, interceptors: [withToken] });
  return createClient(registry.getService("sandbox.v1.SandboxService"), transport);
}

/** One session. */
export class Sandbox {
  constructor(client, session) {
    this.client = client;
    this.session = session;
  }

  static async create(client, wish = {}) {
    return new Sandbox(client, (await client.createSession(wish)).session);
  }

  get id() {
    return this.session.sessionId;
  }

  run(command, timeout = 30, workdir = "/workspace") {
    return this.client.exec({ sessionId: this.id, command, timeout, workdir });
  }

  stream(command, options = {}) {
    return this.client.execStream({ sessionId: this.id, command, workdir: "/workspace" }, options);
  }

  async write(path, content, mode = "w") {
    const done = await this.client.writeFile({ sessionId: this.id, path, content, mode });
    if (!done.success) throw new Error(`Failed to write file: ${done.error}`);
  }

  async read(path) {
    const done = await this.client.readFile({ sessionId: this.id, path });
    if (!done.success) throw new Error(`Failed to read file: ${done.error}`);
    return done.content;
  }

  async destroy() {
    return (await this.client.destroySession({ sessionId: this.id })).success;
  }
}

async function main([descriptors, url = "http://localhost:50051", way = ""]) {
  const client = connect(descriptors, url, way === "--native");
  const sandbox = await Sandbox.create(client, { allowedHosts: ["localhost"] });
  try {
    console.log("host name:", (await sandbox.run("hostname")).stdout.trim() === sandbox.session.containerId);
    console.log("python:", (await sandbox.run("python3 --version")).stdout.trim());
    await sandbox.write("hello.py", "print('hello from', __file__)\n");
    console.log("file:", (await sandbox.read("hello.py")).trim());
    console.log("run:", (await sandbox.run("python3 hello.py")).stdout.trim());
    for await (const part of sandbox.stream("for i in 1 2 3; do echo line $i; done; exit 7")) {
      console.log(`${part.type}:`, part.type === "exit" ? part.exitCode : part.data.trim().replaceAll("\n", " "));
    }
    const late = await sandbox.run("sleep 60", 1);
    console.log("timeout:", late.exitCode, late.stderr, late.timedOut);
    await sandbox.read("/etc/passwd").catch((error) => console.log("refused:", error.message));
    const { sessions } = await client.listSessions({});
    console.log("listed:", sessions.some((one) => one.sessionId === sandbox.id));
  } finally {
    await sandbox.destroy();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(process.argv.slice(2));
