import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEditor, forFile, lineEnds } from '../src/lib/lines';

test('line ends are known', () => {
  assert.equal(lineEnds(''), 'lf');
  assert.equal(lineEnds('a\nb\n'), 'lf');
  assert.equal(lineEnds('a\r\nb\r\n'), 'crlf');
  assert.equal(lineEnds('a\r\nb\n'), 'mixed');
  assert.equal(lineEnds('a\rb'), 'mixed');
});

test('what was read is what is written', () => {
  for (const text of ['a\nb\n', 'a\r\nb\r\n', 'no end']) {
    assert.equal(forFile(forEditor(text), lineEnds(text)), text);
  }
});
