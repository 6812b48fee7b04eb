// Streams over a wire that breaks, and calls whose answers are lost.
import { describe, expect, test } from 'vitest';
import { ConnectionLostError, DeadlineError, ExhaustedError, NotFoundError } from '../src/index.js';
import { allOf, client, newClient, sandbox, until, Wire } from './live.js';

describe('a stream that breaks', () => {
  test('of a process goes on without a gap or a repetition', async () => {
    await using box = await sandbox();
    await using wire = await Wire.lay();
    const far = newClient({ url: wire.url }).sandboxes.named(box.id);
    const process = await box.processes.start({
      command: 'for i in 1 2 3; do echo $i; read word; done; exit 5',
    });
    const here = await far.processes.get(process.id);
    const output = here.output();
    let text = '';
    for await (const piece of output) {
      text += piece.text;
      wire.cut();
      await process.write('\n');
    }
    expect(text).toBe('1\n2\n3\n');
    expect(await output.exit).toMatchObject({ exit_code: 5 });
    const rest = await allOf(here.output({ stdout_offset: 4 }));
    expect(rest.map((piece) => piece.text)).toEqual(['3\n']);
  });

  test('of events goes on behind the last one', async () => {
    await using wire = await Wire.lay();
    await using box = await sandbox();
    const types: string[] = [];
    for await (const event of newClient({ url: wire.url }).events({ sandbox: box.id })) {
      types.push(event.type);
      wire.cut();
      if (types.length === 1) await box.pause();
      if (types.length === 2) await box.resume();
      if (types.length === 3) break;
    }
    expect(types[0]).toBe('sandbox.created');
    expect(new Set(types).size).toBe(3);
  });

  test('of changes is an error, because some may be missed', async () => {
    await using wire = await Wire.lay();
    await using box = await sandbox();
    const watch = await newClient({ url: wire.url })
      .sandboxes.named(box.id)
      .files.watch('', { recursive: true });
    await box.files.write('one/a.txt', 'x');
    const changes = watch[Symbol.asyncIterator]();
    expect((await changes.next()).value).toMatchObject({ folder: true, path: 'one', changes: ['created'] });
    wire.cut();
    await expect(allOf(watch)).rejects.toBeInstanceOf(ConnectionLostError);
  });

  test('of a command is an error, and so is its end', async () => {
    await using wire = await Wire.lay();
    await using box = await sandbox();
    const run = await newClient({ url: wire.url })
      .sandboxes.named(box.id)
      .execStream('echo x; exec sleep 60');
    const seen = async () => {
      for await (const _ of run) wire.cut();
    };
    await expect(seen()).rejects.toBeInstanceOf(ConnectionLostError);
    await expect(run.exit).rejects.toBeInstanceOf(ConnectionLostError);
  });

  test('that is silent for too long is broken', async () => {
    await using box = await sandbox();
    const impatient = newClient({ streamSilenceMs: 100 }).sandboxes.named(box.id);
    const run = await impatient.execStream('sleep 60');
    await expect(run.drain()).rejects.toThrow('silent');
  });
});

describe('an answer that is lost', () => {
  test('is asked for again where nothing can be done twice', async () => {
    await using wire = await Wire.lay();
    await using box = await sandbox();
    const attempts: number[] = [];
    const far = newClient({ url: wire.url, observe: ({ attempt }) => attempts.push(attempt) });
    wire.answersToLose = 2;
    expect((await far.sandboxes.get(box.id)).id).toBe(box.id);
    expect(attempts).toEqual([0, 1, 2]);
    wire.answersToLose = 1;
    await far.sandboxes.named(box.id).files.write('a', 'once');
    wire.answersToLose = 1;
    await far.sandboxes.named(box.id).destroy(); // the second one is told that there is no such sandbox
    await expect(client.sandboxes.get(box.id)).rejects.toBeInstanceOf(NotFoundError);
  });

  test('of a create is given again, and one sandbox was made', async () => {
    await using wire = await Wire.lay();
    const attempts: number[] = [];
    const far = newClient({ url: wire.url, observe: ({ attempt }) => attempts.push(attempt) });
    wire.answersToLose = 1;
    await using box = await far.sandboxes.create({ labels: { lost: 'answer' } });
    expect(attempts).toEqual([0, 1]);
    const made = (await client.sandboxes.list()).filter(({ info }) => info?.labels.lost === 'answer');
    expect(made.map(({ id }) => id)).toEqual([box.id]);
  });

  test('of a command is an error that says it may have been done, unless the caller chose a key', async () => {
    await using wire = await Wire.lay();
    await using box = await sandbox();
    const far = newClient({ url: wire.url }).sandboxes.named(box.id);
    wire.answersToLose = 1;
    const error = await far.exec('echo once >> lost').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ConnectionLostError);
    expect(error).toMatchObject({ sent: true });
    wire.answersToLose = 1;
    const again = await far.exec('echo once >> keyed; cat keyed', { idempotencyKey: 'mine' });
    expect(again.stdout).toBe('once\n');
    expect((await box.exec('cat lost keyed')).stdout).toBe('once\nonce\n');
  });

  test('of a write with a condition is not asked for again', async () => {
    await using wire = await Wire.lay();
    await using box = await sandbox();
    wire.answersToLose = 1;
    const far = newClient({ url: wire.url }).sandboxes.named(box.id);
    await expect(far.files.write('a', 'x', { ifNew: true })).rejects.toBeInstanceOf(ConnectionLostError);
  });
});

describe('nobody there', () => {
  test('is an error that says nothing was sent', async () => {
    const wire = await Wire.lay();
    const gone = newClient({ url: wire.url });
    await wire[Symbol.asyncDispose]();
    await expect(gone.sandboxes.create()).rejects.toMatchObject({ name: 'ConnectionLostError', sent: false });
  });

  test('somebody who never answers is an error in time', async () => {
    await using box = await sandbox();
    await expect(box.exec('sleep 60', { timeoutMs: 100 })).rejects.toBeInstanceOf(DeadlineError);
    const stop = AbortSignal.timeout(100);
    await expect(box.exec('sleep 60', { signal: stop })).rejects.toMatchObject({ name: 'TimeoutError' });
    // The server has seen that nobody waits.
    await until(async () => (await box.usage()).processes <= 1);
  });
});

test('a limit is waited for as the server says, and then told', async () => {
  const { token } = await client.tokens.create({
    tenant: 'small',
    scopes: ['create', 'read'],
    max_sandboxes: 1,
  });
  const attempts: number[] = [];
  const small = newClient({
    token,
    retries: 1,
    observe: ({ attempt, operation }) => operation === 'createSandbox' && attempts.push(attempt),
  });
  await using first = await small.sandboxes.create();
  await expect(small.sandboxes.create()).rejects.toBeInstanceOf(ExhaustedError);
  expect(attempts).toEqual([0, 0, 1]);
  expect(first.info?.state).toBe('running');
});
