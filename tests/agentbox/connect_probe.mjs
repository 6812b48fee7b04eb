// What agentbox's TypeScript clients rely on, asked through Connect: one line of JSON with what was seen.
//
//     node connect_probe.mjs DESCRIPTORS URL [--native]
import { Code } from "@connectrpc/connect";
import { connect, Sandbox } from "./client.mjs";

const [descriptors, url, way = ""] = process.argv.slice(2);
const client = connect(descriptors, url, way === "--native");
const seen = {};
const sandbox = await Sandbox.create(client, { allowedHosts: ["localhost"] });

async function codeOf(promise) {
  try {
    await promise;
    return "OK";
  } catch (error) {
    return `${Code[error.code]}: ${error.rawMessage}`;
  }
}

async function all(stream) {
  const found = [];
  for await (const one of stream) found.push(one);
  return found;
}

seen.created = typeof sandbox.session.createdAt;
seen.tenant = sandbox.session.tenantId === undefined;
seen.unknown = await codeOf(client.getSession({ sessionId: "nope" }));
seen.invalid = (await codeOf(client.createSession({ sessionId: "a/b" }))).split(":")[0];
seen.destroyed = (await client.destroySession({ sessionId: "nope" })).success; // an empty message
seen.missing = await client.exec({ sessionId: "nope", command: "true" });
seen.missing = [seen.missing.exitCode, seen.missing.stderr, seen.missing.timedOut];

await sandbox.write("empty", "");
const empty = await client.readFile({ sessionId: sandbox.id, path: "empty" });
seen.empty = [empty.success, empty.content, empty.error === undefined];
const none = await client.readFile({ sessionId: sandbox.id, path: "none" });
seen.none = [none.success, none.content === undefined, none.error];

const text = "aé€😀\r\n\0".repeat(1000);
await sandbox.write("text", text);
seen.text = (await sandbox.read("text")) === text;

// A stream is read while its command runs: the command waits for what we write after its first word.
await sandbox.run("mkfifo fifo");
const parts = [];
for await (const one of sandbox.stream("echo ask; read x < fifo; echo $x; exit 3")) {
  parts.push([one.type, one.data, one.exitCode ?? null]);
  if (one.data === "ask\n") await sandbox.run("echo answer > fifo");
}
seen.parts = parts;
seen.nothing = (await all(client.execStream({ sessionId: sandbox.id, command: "" }))).length;
seen.lost = (await all(client.execStream({ sessionId: "nope", command: "x" }))).map((one) => [one.type, one.data]);
let bytes = 0;
for await (const one of sandbox.stream("head -c 5000000 /dev/zero")) bytes += one.data.length;
seen.bytes = bytes;

// Who stops reading ends the command, and so does a deadline.
const leave = new AbortController();
try {
  for await (const one of sandbox.stream("echo up; sleep 1259.1", { signal: leave.signal })) {
    if (one.data === "up\n") leave.abort();
  }
} catch (error) {
  seen.aborted = Code[error.code];
}
seen.late = (await codeOf(client.exec({ sessionId: sandbox.id, command: "sleep 1259.2", timeout: 60 },
  { timeoutMs: 1000 }))).split(":")[0];
const running = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 1259'";
for (let tries = 0; tries < 300; ++tries) {
  seen.left = (await sandbox.run(running)).stdout.trim();
  if (seen.left === "0") break;
}

const many = await Promise.all(Array.from({ length: 20 }, (_, i) => sandbox.run(`echo ${i}`)));
seen.many = many.every((one, i) => one.stdout === `${i}\n`);
seen.ended = [await sandbox.destroy(), await sandbox.destroy()];
console.log(JSON.stringify(seen));
