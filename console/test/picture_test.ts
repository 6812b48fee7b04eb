import assert from 'node:assert/strict';
import { test } from 'node:test';
import { imageType } from '../src/lib/paths';
import { dataAddress, mayHoldScripts } from '../src/lib/picture';

test('a drawing may hold scripts, a photograph may not', () => {
  assert.ok(mayHoldScripts(imageType('a.svg')));
  assert.ok(mayHoldScripts('image/svg+xml'));
  for (const name of ['a.png', 'a.jpg', 'a.ico', 'a.webp', 'a.avif'])
    assert.ok(!mayHoldScripts(imageType(name)), name);
});

test('its address has no origin', () => {
  assert.equal(dataAddress('image/svg+xml', new Uint8Array()), 'data:image/svg+xml;base64,');
  const large = new Uint8Array(100_000).fill(255);
  const address = dataAddress('image/svg+xml', large);
  assert.ok(address.startsWith('data:image/svg+xml;base64,////'));
  assert.equal(atob(address.split(',')[1] ?? '').length, large.length);
});
