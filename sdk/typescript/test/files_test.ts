// Files: ranges, conditions, streams, names that are hard to write.
import { describe, expect, test } from 'vitest';
import {
  AnswerError,
  DeniedError,
  NotFoundError,
  PreconditionFailedError,
  RangeNotSatisfiableError,
} from '../src/index.js';
import { sandbox } from './live.js';

describe('a file', () => {
  test('is read whole, in part, as a stream, and only if it changed', async () => {
    await using box = await sandbox();
    const { etag } = await box.files.write('a.txt', 'hello');
    expect(await box.files.readText('a.txt', { range: { first: 1, last: 3 } })).toBe('ell');
    expect(await box.files.readText('a.txt', { range: { first: 3 } })).toBe('lo');
    await expect(box.files.read('a.txt', { range: { first: 9 } })).rejects.toBeInstanceOf(
      RangeNotSatisfiableError,
    );
    await expect(box.files.read('a.txt', { bytesMax: 4 })).rejects.toBeInstanceOf(AnswerError);
    expect(await new Response(await box.files.readStream('a.txt')).text()).toBe('hello');
    expect(await box.files.readIfChanged('a.txt', etag)).toBeUndefined();
    await box.files.write('a.txt', 'other');
    expect((await box.files.readIfChanged('a.txt', etag))?.bytes.length).toBe(5);
  });

  test('is written with conditions and permissions', async () => {
    await using box = await sandbox();
    const { etag } = await box.files.write('run', '#!/bin/sh\necho ran\n', { mode: '0755', ifNew: true });
    expect((await box.exec({ argv: ['./run'] })).stdout).toBe('ran\n');
    await expect(box.files.write('run', '', { ifNew: true })).rejects.toBeInstanceOf(PreconditionFailedError);
    await expect(box.files.write('run', '', { ifMatch: '"other"' })).rejects.toBeInstanceOf(
      PreconditionFailedError,
    );
    expect((await box.files.write('run', 'x', { ifMatch: etag })).size).toBe(1);
  });

  test('is sent in every form that people have bytes in', async () => {
    await using box = await sandbox();
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const part of ['a', 'b', 'c']) controller.enqueue(new TextEncoder().encode(part));
        controller.close();
      },
    });
    const forms = [
      'abc',
      new TextEncoder().encode('abc'),
      new TextEncoder().encode('abc').buffer,
      new Blob(['abc']),
      stream,
    ];
    for (const form of forms) {
      await box.files.write('form', form as Uint8Array);
      expect(await box.files.readText('form')).toBe('abc');
    }
  });

  test.each(['with space', 'ü€😀', 'a?b#c%20d', 'deep/er/file', 'quote\'"', 'back\\slash', '%2e%2e'])(
    'may be called %j',
    async (name) => {
      await using box = await sandbox();
      await box.files.write(name, name);
      expect(await box.files.readText(name)).toBe(name);
      expect((await box.files.stat(`/workspace/${name}`)).path).toBe(`/workspace/${name}`);
    },
  );

  test('outside of the workspace is named by its absolute path, and `..` is refused by the server', async () => {
    await using box = await sandbox();
    expect((await box.files.stat('/etc/hostname')).type).toBe('file');
    expect((await box.files.stat('.')).type).toBe('folder');
    for (const path of ['..', '../x', 'a/../b', '/workspace/../etc/passwd']) {
      await expect(box.files.read(path)).rejects.toBeInstanceOf(DeniedError);
    }
    await expect(box.files.head('nothing')).rejects.toBeInstanceOf(NotFoundError);
  });
});
