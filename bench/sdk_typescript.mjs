// Calls of the package and the same calls by bare fetch(), in turn, on one connection each:
//
//     node sdk_typescript.mjs PACKAGE ROUNDS
//
// Prints one line per call: its name, medians of both and of their difference, in milliseconds.
import { pathToFileURL } from 'node:url';

const [entry, roundsText] = process.argv.slice(2);
const { Client } = await import(pathToFileURL(entry).href);
const rounds = Number(roundsText);
const warmUp = 200;
const url = process.env.CAISSON_URL;
const authorization = { Authorization: `Bearer ${process.env.CAISSON_TOKEN}` };

const client = new Client();
await withSandbox(await client.sandboxes.create(), async (sandbox) => {
  const base = `${url}/api/v1/sandboxes/${sandbox.id}`;
  const calls = {
    'GET /healthz': [() => bare(`${url}/healthz`), () => client.health()],
    'GET a sandbox': [() => bare(base), () => sandbox.refresh()],
    'PUT a file of 1 KiB': [
      () => bare(`${base}/files/a`, { method: 'PUT', body: 'x'.repeat(1024) }),
      () => sandbox.files.write('a', 'x'.repeat(1024)),
    ],
    'POST exec of true': [
      () => bare(`${base}/exec`, { method: 'POST', body: '{"argv":["true"]}', json: true }),
      () => sandbox.exec({ argv: ['true'] }),
    ],
  };
  for (const [name, [raw, sdk]] of Object.entries(calls)) {
    for (let i = 0; i < warmUp; i += 1) {
      await raw();
      await sdk();
    }
    const times = { raw: [], sdk: [], more: [] };
    for (let i = 0; i < rounds; i += 1) {
      // Whoever comes second finds warmer caches, so they take turns in that, too.
      const first = i % 2 === 0 ? await timed(raw) : await timed(sdk);
      const second = i % 2 === 0 ? await timed(sdk) : await timed(raw);
      const [ofRaw, ofSdk] = i % 2 === 0 ? [first, second] : [second, first];
      times.raw.push(ofRaw);
      times.sdk.push(ofSdk);
      times.more.push(ofSdk - ofRaw);
    }
    console.log([name, median(times.raw), median(times.sdk), median(times.more)].join('\t'));
  }
});

async function withSandbox(sandbox, work) {
  try {
    await work(sandbox);
  } finally {
    await sandbox.destroy();
  }
}

async function bare(address, { method = 'GET', body, json = false } = {}) {
  const headers = json ? { ...authorization, 'Content-Type': 'application/json' } : authorization;
  const response = await fetch(address, { method, body, headers });
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return response.json();
}

async function timed(call) {
  const begun = performance.now();
  await call();
  return performance.now() - begun;
}

function median(values) {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)].toFixed(4);
}
