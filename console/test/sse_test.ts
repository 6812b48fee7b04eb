import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SseParser } from '../src/lib/sse';

test('events, whole and in pieces', () => {
  const parser = new SseParser();
  assert.deepEqual(parser.push('retry: 2000\n\nid: 1\nevent: a\nda'), []);
  assert.deepEqual(parser.push('ta: {"x":1}\n\n: ping\n\ndata: one\ndata: two\n\n'), [
    { id: '1', event: 'a', data: '{"x":1}' },
    { id: '1', event: 'message', data: 'one\ntwo' },
  ]);
});

test('a line end may be split between two pieces', () => {
  const parser = new SseParser();
  assert.deepEqual(parser.push('data: x\r'), []);
  assert.deepEqual(parser.push('\n\r\n'), [{ id: '', event: 'message', data: 'x' }]);
});
