// Server-sent events and output, wherever the pieces are cut.
import { expect, test } from 'vitest';
import { fromBase64 } from '../src/bytes.js';
import { EventParser } from '../src/events.js';
import { eventCharsMax } from '../src/limits.js';
import { PieceMaker } from '../src/output.js';
import { AnswerError } from '../src/index.js';

const text =
  'retry: 2000\n\n: still here\n\nid: 6-0\nevent: stdout\ndata: {"a":1}\n\ndata: x\ndata: y\r\n\r\n';
const wanted = [
  { id: '6-0', name: 'stdout', data: '{"a":1}' },
  { id: '6-0', name: 'message', data: 'x\ny' },
];

test('events are the same, wherever the text is cut', () => {
  for (let at = 0; at <= text.length; at += 1) {
    const parser = new EventParser();
    expect([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))]).toEqual(wanted);
  }
});

test('an event has a limit', () => {
  const parser = new EventParser();
  expect(() => parser.push(`data: ${'x'.repeat(eventCharsMax)}`)).toThrow(AnswerError);
  const lines = new EventParser();
  expect(() => lines.push('data: x\n'.repeat(eventCharsMax / 8 + 1))).toThrow(AnswerError);
});

test('a letter that is cut in two comes whole, and half a letter at the end is shown as such', () => {
  const maker = new PieceMaker();
  const bytes = new TextEncoder().encode('ü€');
  const pieces = [...bytes].map((byte) => maker.make('stdout', Uint8Array.of(byte)));
  expect(pieces.map((piece) => piece.text).join('')).toBe('ü€');
  expect(pieces.map((piece) => piece.offset)).toEqual([0, 1, 2, 3, 4]);
  maker.make('stderr', bytes.subarray(0, 1));
  expect([...maker.rest()]).toMatchObject([{ stream: 'stderr', text: '\uFFFD', offset: 1 }]);
});

test('base64 is the same with and without a Buffer', () => {
  expect([...fromBase64('AP9hYg==')]).toEqual([0, 255, 97, 98]);
});
