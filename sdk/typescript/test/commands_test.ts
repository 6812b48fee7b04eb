// Commands, their output as it comes, their input as it is written, and their ends.
import { describe, expect, test } from 'vitest';
import { AlreadyExistsError, ArgumentError, InvalidArgumentError, NotFoundError } from '../src/index.js';
import { allOf, client, newClient, sandbox, until } from './live.js';

const textOf = (pieces: { stream: string; text: string }[], stream = 'stdout') =>
  pieces
    .filter((piece) => piece.stream === stream)
    .map((piece) => piece.text)
    .join('');

describe('a sandbox', () => {
  test('is destroyed at the end of its block, and it is no error when it is gone by then', async () => {
    let id = '';
    {
      await using box = await sandbox();
      id = box.id;
    }
    await expect(client.sandboxes.get(id)).rejects.toBeInstanceOf(NotFoundError);
    await using gone = await sandbox();
    await gone.destroy();
  });

  test('is destroyed after a piece of work, also when that fails', async () => {
    let id = '';
    const work = client.sandboxes.use({}, async (box) => {
      id = box.id;
      throw new Error('no');
    });
    await expect(work).rejects.toThrow('no');
    await expect(client.sandboxes.get(id)).rejects.toBeInstanceOf(NotFoundError);
  });

  test('errors have the field, the code and the id of the request', async () => {
    const call = client.sandboxes.create({ resource_limits: { cpu: 5000 } });
    const error = await call.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(InvalidArgumentError);
    expect(error).toMatchObject({
      name: 'InvalidArgumentError',
      code: 'InvalidArgument',
      status: 400,
      field: 'resource_limits.cpu',
    });
    expect((error as InvalidArgumentError).requestId).toMatch(/^\w+$/);
    await using box = await sandbox({ name: 'taken' });
    expect(box.info?.name).toBe('taken');
    await expect(sandbox({ name: 'taken' })).rejects.toBeInstanceOf(AlreadyExistsError);
  });
});

describe('a command', () => {
  test('that fails is a result', async () => {
    await using box = await sandbox();
    const result = await box.exec({ argv: ['sh', '-c', 'cat; echo no >&2; exit 3'], stdin: 'in' });
    expect(result).toMatchObject({ exit_code: 3, stdout: 'in', stderr: 'no\n', timed_out: false });
    expect(await box.exec({ command: 'sleep 60', timeout_seconds: 0.2 })).toMatchObject({ timed_out: true });
  });

  test('shows its output while it runs', async () => {
    await using box = await sandbox();
    // It ends only when somebody has seen its first line.
    const run = await box.execStream(
      'echo first; until [ -e go ]; do sleep 0.02; done; echo second >&2; exit 4',
    );
    const seen = [];
    for await (const piece of run) {
      seen.push(piece);
      if (piece.text === 'first\n') await box.files.write('go', '');
    }
    expect([textOf(seen), textOf(seen, 'stderr')]).toEqual(['first\n', 'second\n']);
    expect(await run.exit).toEqual({ exit_code: 4, signal: 0, timed_out: false, oom_killed: false });
    expect((await run.started).process).toBeGreaterThan(0);
  });

  test('passes every byte through, and more than fits in one piece', async () => {
    await using box = await sandbox();
    const run = await box.execStream('head -c 3000000 /dev/urandom | tee all');
    const pieces = await allOf(run);
    const bytes = Buffer.concat(pieces.map((piece) => piece.bytes));
    expect(pieces.length).toBeGreaterThan(1);
    expect(bytes.equals(Buffer.from(await box.files.read('all')))).toBe(true);
  });

  test.each(['leave', 'close', 'abort'])('dies when its reader hangs up: %s', async (how) => {
    await using box = await sandbox();
    const running = async () =>
      (await box.exec('cat /proc/[0-9]*/cmdline | tr "\\0" " "')).stdout.includes('sleep 54321');
    const stop = new AbortController();
    const run = await box.execStream('echo x; exec sleep 54321', { signal: stop.signal });
    if (how === 'leave') for await (const _ of run) break;
    if (how === 'close') await run.close();
    if (how === 'abort') {
      stop.abort();
      await expect(run.drain()).rejects.toMatchObject({ name: 'AbortError' });
    }
    await until(async () => !(await running()));
    await expect(run.exit).rejects.toBeDefined();
  });
});

describe('a command with live input', () => {
  test('is talked to, and ends with its input', async () => {
    await using box = await sandbox();
    await using cat = await box.attach({ command: 'cat; echo bye >&2' });
    const read = cat[Symbol.asyncIterator]();
    await cat.write('ping');
    expect((await read.next()).value).toMatchObject({ stream: 'stdout', text: 'ping' });
    await cat.closeInput();
    expect((await read.next()).value).toMatchObject({ stream: 'stderr', text: 'bye\n' });
    expect((await read.next()).done).toBe(true);
    expect(await cat.exit).toMatchObject({ exit_code: 0 });
  });

  test('takes signals, and more than one message of input', async () => {
    await using box = await sandbox();
    await using counting = await box.attach('head -c 1000000 | wc -c; exec sleep 60');
    const read = counting[Symbol.asyncIterator]();
    await counting.write(new Uint8Array(1_000_000));
    expect((await read.next()).value.text.trim()).toBe('1000000');
    await counting.signal('TERM', true);
    await allOf(counting);
    expect(await counting.exit).toMatchObject({ signal: 15 });
  });

  test('that is refused is a typed error', async () => {
    await using box = await sandbox();
    await expect(box.attach({ command: 'x', argv: ['y'] })).rejects.toBeInstanceOf(InvalidArgumentError);
    const nobody = client.sandboxes.named('a'.repeat(26));
    await expect(nobody.attach('true')).rejects.toBeInstanceOf(NotFoundError);
    await expect(nobody.terminal()).rejects.toBeInstanceOf(NotFoundError);
  });

  test('needs a WebSocket, and says where to get one', async () => {
    const lame = newClient({ WebSocket: undefined });
    if ('WebSocket' in globalThis) return;
    await expect(lame.sandboxes.named('a'.repeat(26)).terminal()).rejects.toBeInstanceOf(ArgumentError);
  });
});

describe('a terminal', () => {
  test('has a size, and can be left and taken up again', async () => {
    await using box = await sandbox();
    const first = await box.terminal({
      rows: 33,
      cols: 111,
      command: 'stty size; read word; stty size; echo got $word',
    });
    for await (const piece of first) if (piece.text.includes('33 111')) break;
    const again = await box.terminal({ process: first.started.process });
    await again.resize(22, 77);
    await again.write('hello\n');
    const shown = textOf(await allOf(again));
    expect(shown).toContain('33 111'); // what was shown before is shown again
    expect(shown).toContain('22 77');
    expect(shown).toContain('got hello');
    expect(await again.exit).toMatchObject({ exit_code: 0 });
  });
});
