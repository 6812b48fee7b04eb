import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isHere } from '../src/lib/images';

const kHere = [
  'registry.example/library/redis:latest',
  'registry.example/team/tools:1',
  'registry.example:5000/x:latest',
];

test('short names of images that are here', () => {
  for (const name of [
    '',
    'host',
    'redis',
    'redis:latest',
    'library/redis',
    'team/tools:1',
    'registry.example:5000/x',
  ]) {
    assert.ok(isHere(name, kHere), name);
  }
});

test('names that only look like it', () => {
  for (const name of ['edis', 'redis:7', 'tools', 'tools:2', 's'])
    assert.ok(!isHere(name, kHere), name);
});
