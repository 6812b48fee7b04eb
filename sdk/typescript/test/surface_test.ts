// Every operation of the contract is reached by a method of the client, on a living server; and every JSON answer on
// the way has the fields that the contract names, and no others.
import { afterAll, expect, test } from 'vitest';
import { ApiError, type Bytes, operations, type OperationId } from '../src/index.js';
import { allOf, newClient } from './live.js';
import { answerSchemas, complaints, readContract } from './schema.js';

const contract = readContract();
const schemas = answerSchemas(contract);
const reached = new Set<OperationId>();
const odd: string[] = [];

const client = newClient({
  retries: 0,
  observe: ({ operation }) => reached.add(operation as OperationId),
  fetch: async (input, init) => {
    const response = await fetch(input, init);
    const operation = operationOf(String(input), init?.method ?? 'GET');
    const schema = schemas.get(operation);
    if (response.headers.get('Content-Type') === 'application/json' && init?.method !== 'HEAD') {
      const body: unknown = await response.clone().json();
      const wanted = response.ok ? schema : contract.components.schemas.Error;
      if (wanted !== undefined)
        odd.push(...complaints(contract, wanted, body, `${operation} ${response.status}`));
    }
    return response;
  },
});

// Which operation an address belongs to, found without the client's help.
function operationOf(url: string, method: string): string {
  const path = new URL(url).pathname;
  for (const [id, spec] of Object.entries(operations)) {
    const pattern = spec.path.replace(/\{path\}/, '.*').replace(/\{\w+\}/g, '[^/]+');
    if (spec.method === method && new RegExp(`^${pattern}$`).test(path)) return id;
  }
  return '';
}

/** The value, or undefined when the server refused with one of these codes: this host or state has no such thing. */
async function orRefused<T>(call: Promise<T>, ...codes: string[]): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ApiError && codes.includes(error.code)) return undefined;
    throw error;
  }
}

const box = await client.sandboxes.create({
  name: 'surface',
  files: { 'a.txt': 'one\n' },
  labels: { team: 'red' },
});
afterAll(async () => box.destroy());

test('the server', async () => {
  expect(await client.health()).toMatchObject({ status: 'ok' });
  await client.ready();
  expect((await client.server()).caller.scopes).toContain('admin');
  expect((await client.tools()).map((tool) => tool.name)).toContain('shell_exec');
  expect(await client.metrics()).toContain('# TYPE');
  expect(await client.openapi()).toHaveProperty('paths');
  expect(await client.docs()).toContain('<html');
  expect(await client.images.storage()).toHaveProperty('kind');
});

test('a sandbox', async () => {
  expect(box.info?.state).toBe('running');
  expect((await client.sandboxes.list()).map(({ id }) => id)).toContain(box.id);
  expect((await client.sandboxes.get(box.id)).info?.name).toBe('surface');
  expect((await box.setLimits({ memory_mb: 300 })).resource_limits.memory_mb).toBe(300);
  expect((await box.setNetwork({})).network.mode).toBe('none');
  expect((await box.setLabels({ team: 'blue' })).labels).toEqual({ team: 'blue' });
  expect((await box.setPublic(true)).public).toBe(true);
  expect((await box.pause()).state).toBe('paused');
  expect((await box.resume()).state).toBe('running');
  await orRefused(box.stop(), 'Busy', 'Unsupported');
  await orRefused(box.hibernate(), 'Unsupported');
  await orRefused(box.start(), 'Busy', 'Unsupported');
  expect(await box.usage()).toHaveProperty('cpu_seconds');
  expect((await box.recordUsage({ tokens: 12, cost_usd: 0.5 })).tokens).toBe(12);
  expect(Object.keys(await client.sandboxes.usage([box.id]))).toEqual([box.id]);
  expect((await box.logs({ limit: 5 })).rows[0]?.sandbox).toBe(box.id);
});

test('commands, processes and terminals', async () => {
  expect(await client.run({ command: 'cat', stdin: 'once' })).toMatchObject({ exit_code: 0, stdout: 'once' });
  expect(await box.exec('echo hi')).toMatchObject({ exit_code: 0, stdout: 'hi\n' });
  const attached = await box.attach('cat');
  await attached.write('x');
  await attached.closeInput();
  expect((await allOf(attached)).map((piece) => piece.text).join('')).toBe('x');
  const terminal = await box.terminal({ command: 'true' });
  await allOf(terminal);
  expect(await box.tool('shell_exec', { command: 'echo tool' })).toMatchObject({ success: true });

  const started = await box.processes.start({ command: 'cat; exit 3', terminal: true });
  await started.resize(30, 90);
  await started.write('line\n\u0004');
  expect((await box.processes.list()).map(({ id }) => id)).toEqual([started.id]);
  expect((await box.processes.get(started.id)).info.terminal).toBe(true);
  expect((await started.wait()).exit_code).toBe(3);
  await allOf(started.output());
  await orRefused(started.signal('TERM'), 'NotFound');
  await started.remove();
});

test('code and contexts', async () => {
  expect(await box.runCode('print(1)\n1 + 1')).toMatchObject({ value: '2', stdout: '1\n', error: null });
  expect((await box.runCode('1 / 0')).error).toMatchObject({ name: 'ZeroDivisionError' });
  const stream = await box.runCodeStream('print("one")\n3');
  expect((await allOf(stream)).map((piece) => piece.text).join('')).toBe('one\n');
  expect(await stream.result).toMatchObject({ value: '3' });
  {
    await using context = await box.contexts.create({ imports: ['math'] });
    await context.run('x = 40');
    expect(await context.run('x + math.floor(2.5)')).toMatchObject({ value: '42' });
    expect((await box.contexts.list()).map(({ id }) => id)).toEqual([context.id]);
    await context.interrupt();
    expect(await (await context.runStream('x')).drain()).toMatchObject({ value: '40' });
  }
  expect(await box.contexts.list()).toEqual([]);
});

test('files', async () => {
  const { files } = box;
  expect((await files.write('b/c.txt', 'two')).size).toBe(3);
  expect(await files.readText('b/c.txt')).toBe('two');
  expect((await files.head('b/c.txt')).size).toBe(3);
  expect((await files.stat('b/c.txt')).type).toBe('file');
  expect((await files.list('b')).map(({ name }) => name)).toEqual(['c.txt']);
  await files.makeFolder('d/e');
  await files.move('b/c.txt', 'd/f.txt');
  const archive = await new Response(await files.archive('d')).arrayBuffer();
  expect((await files.unpack('copy', archive)).entries).toBeGreaterThan(1);
  expect((await files.remove('copy', { recursive: true })).removed).toBeGreaterThan(1);
  await using watch = await files.watch();
  await files.write('g.txt', '');
  for await (const change of watch) if (change.path === 'g.txt') break;
});

test('ports', async () => {
  expect((await box.ports.list()).listening).toEqual([]);
  await orRefused(box.ports.preview(8000), 'Unsupported', 'InvalidArgument', 'NotFound', 'Busy');
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
    const body: { body?: Bytes } = method === 'GET' || method === 'HEAD' ? {} : { body: 'x' };
    expect((await box.ports.fetch(8000, 'x', { method, ...body })).status).toBe(502);
  }
});

test('snapshots', async () => {
  const first = await box.snapshot({ name: 'surface-first' });
  expect((await box.snapshots()).map(({ id }) => id)).toContain(first.id);
  expect((await client.snapshots.list()).map(({ id }) => id)).toContain(first.id);
  expect((await client.snapshots.get('surface-first')).id).toBe(first.id);
  await using fork = await box.fork({ name: 'surface-fork' });
  await fork.files.write('new.txt', 'n');
  expect((await box.merge(fork)).applied.map(({ path }) => path)).toContain('/workspace/new.txt');
  expect((await client.snapshots.diff(first.id, `sandbox:${box.id}`)).changes.length).toBeGreaterThan(0);
  expect(new TextDecoder().decode(await client.snapshots.patch(first.id, box.id))).toContain('new.txt');
  await orRefused(box.undo({ snapshot: first.id, end_processes: true }), 'Busy', 'Unsupported');
  await orRefused(box.promote('native'), 'InvalidArgument');
  await orRefused(client.images.build({ reference: 'surface/built:1', snapshot: first.id }), 'Unsupported');
  await client.snapshots.remove(first.id);
});

test('images and volumes', async () => {
  await box.files.write('root/etc/made', 'by hand');
  const root = await new Response(await box.files.archive('root')).arrayBuffer();
  const image = await client.images.import('surface/hand:1', root);
  expect((await client.images.list()).map(({ digest }) => digest)).toContain(image.digest);
  expect((await client.images.get('surface/hand:1')).digest).toBe(image.digest);
  expect(
    (await new Response(await client.images.export('surface/hand:1')).arrayBuffer()).byteLength,
  ).toBeGreaterThan(512);
  await client.images.remove('surface/hand:1');
  await expect(client.images.pull('127.0.0.1:9/none:1')).rejects.toBeInstanceOf(ApiError);
  await client.images.collectGarbage();
  await orRefused(client.volumes.put('surface', 1 << 20), 'Unsupported');
  await client.volumes.list();
  await orRefused(client.volumes.remove('surface'), 'NotFound', 'Unsupported');
});

test('events, the audit, and who may call', async () => {
  for await (const event of client.events({ sandbox: box.id })) {
    expect(event.sandbox).toBe(box.id);
    break;
  }
  expect((await client.audit.query({ limit: 3 })).rows).toHaveLength(3);
  expect((await client.audit.verify()).intact).toBe(true);
  const token = await client.tokens.create({ scopes: ['read'], tenant: 'surface' });
  expect((await client.tokens.list()).map(({ id }) => id)).toContain(token.id);
  await client.tokens.revoke(token.id);
  expect((await client.users.put('surface', { name: 'Rosa Red' })).name).toBe('Rosa Red');
  expect((await client.users.list()).map(({ tenant }) => tenant)).toContain('surface');
  expect(
    await client.users.importListings({ tenant: 'surface', sandboxes: [], executions: [] }),
  ).toHaveProperty('skipped');
  await client.users.remove('surface');
  await client.secrets.put('SURFACE', 's');
  expect(await client.secrets.list()).toContain('SURFACE');
  await client.secrets.remove('SURFACE');
});

test('every operation was reached', async () => {
  await (await client.sandboxes.create()).destroy();
  const missing = Object.keys(operations).filter((id) => !reached.has(id as OperationId));
  expect(missing).toEqual([]);
});

test('no answer has more or less than the contract says', () => {
  expect(odd).toEqual([]);
});
