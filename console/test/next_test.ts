import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextAddress } from '../src/lib/next';

const at = (address: string) => nextAddress(`#/login?next=${encodeURIComponent(address)}`);

test('the way to a preview is followed', () => {
  const address = '/preview/open?host=a.box.test&path=%2Fb';
  assert.equal(at(address), address);
});

test('nothing else is', () => {
  for (const address of [
    'https://evil.test/preview/open?',
    '//evil.test/preview/open?',
    '/\\evil.test',
    'javascript:alert(1)',
    '/api/v1/sandboxes',
    '/preview/open',
    '',
  ])
    assert.equal(at(address), undefined, address);
  for (const hash of ['', '#/', '#/sandboxes', '#/login', '#/login?next=%E0%A4%A'])
    assert.equal(nextAddress(hash), undefined, hash);
});
