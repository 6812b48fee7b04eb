import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  asText,
  crumbs,
  imageType,
  join,
  parent,
  showingOf,
  tidy,
  urlPath,
} from '../src/lib/paths';

test('a path in an address keeps every letter of its names', () => {
  assert.equal(urlPath('/'), '%2F');
  assert.equal(urlPath('/workspace/a b/#?%.txt'), '%2Fworkspace/a%20b/%23%3F%25.txt');
});

test('paths', () => {
  assert.equal(join('/', 'a'), '/a');
  assert.equal(join('/a', 'b'), '/a/b');
  assert.equal(parent('/a/b'), '/a');
  assert.equal(parent('/a'), '/');
  assert.equal(parent('/'), '/');
  assert.equal(tidy('../etc/./x', '/workspace'), '/etc/x');
  assert.equal(tidy('/../../..'), '/');
  assert.deepEqual(
    crumbs('/a/b').map((crumb) => crumb.path),
    ['/', '/a', '/a/b'],
  );
});

test('what can be shown', () => {
  assert.equal(showingOf('a.PNG'), 'image');
  assert.equal(showingOf('Makefile'), 'text');
  assert.equal(showingOf('a.zip'), 'none');
  assert.equal(imageType('x.svg'), 'image/svg+xml');
  assert.equal(imageType('x.png'), 'image/png');
});

test('text only when nothing would be damaged', () => {
  assert.equal(asText(new TextEncoder().encode('grüße\n')), 'grüße\n');
  assert.equal(asText(Uint8Array.of(0xff, 0xfe)), undefined);
  assert.equal(asText(Uint8Array.of(65, 0, 66)), undefined);
});
