// What a client of the official TypeScript SDK does with a server, told as one line of JSON.
//
//     node drive_sdk.mjs v1|legacy|auto|modern http URL TOKEN
//     node drive_sdk.mjs v1|legacy|auto|modern stdio COMMAND ARGUMENT…
//
// v1 is the line of packages before 2026; the others are modes of the one that replaces it.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [mode, way, ...rest] = process.argv.slice(2);
const require = createRequire(`${process.env.CAISSON_CLIENTS}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)));

async function client() {
  const identity = { name: 'driver', version: '1' };
  if (mode === 'v1') {
    const { Client } = await load('@modelcontextprotocol/sdk/client/index.js');
    return new Client(identity);
  }
  const { Client } = await load('@modelcontextprotocol/client');
  const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };
  return new Client(identity, { versionNegotiation: { mode: modes[mode] } });
}

async function transport() {
  const v1 = mode === 'v1';
  if (way === 'stdio') {
    const { StdioClientTransport } = await load(
      v1 ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio',
    );
    return new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env });
  }
  const { StreamableHTTPClientTransport } = await load(
    v1 ? '@modelcontextprotocol/sdk/client/streamableHttp.js' : '@modelcontextprotocol/client',
  );
  const headers = { Authorization: `Bearer ${rest[1]}` };
  return new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers } });
}

const one = await client();
const link = await transport();
await one.connect(link);
const tools = (await one.listTools()).tools.map((tool) => tool.name);
const written = await one.callTool({ name: 'write', arguments: { path: 'f', content: 'hello' } });
const sandbox = written.structuredContent.sandbox;
// Output schemas are checked by the client against what came.
const ran = await one.callTool({ name: 'run', arguments: { command: 'cat f', sandbox } });
const failed = await one.callTool({ name: 'read', arguments: { path: 'none', sandbox } });
let progress = 0;
await one.callTool(
  { name: 'run', arguments: { command: 'timeout 1.2 tail -f /dev/null; true', sandbox } },
  ...(mode === 'v1' ? [undefined] : []),
  { onprogress: () => (progress += 1) },
);
const file = await one.readResource({ uri: `caisson://${sandbox}/files/workspace/f` });
const result = {
  server: one.getServerVersion()?.name,
  tools: tools.length,
  stdout: ran.structuredContent.stdout,
  failed: failed.isError,
  progress: progress > 0,
  file: file.contents[0].text,
};
if (mode === 'v1' || mode === 'legacy') await link.terminateSession?.();
await one.close();
console.log(JSON.stringify(result));
