import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownLabels, titleOf } from '../src/lib/names';

const box = (name: string, labels: Record<string, string>) => ({
  id: 'abcdefghijkl',
  name,
  labels,
});

test('a title goes before the name, the name before the id', () => {
  assert.equal(titleOf(box('web', { title: 'Shop' })), 'Shop');
  assert.equal(titleOf(box('web', {})), 'web');
  assert.equal(titleOf(box('', {})), 'abcdefgh');
});

test('labels of programs are not shown', () => {
  assert.deepEqual(
    shownLabels(
      box('', { title: 'x', 'caisson.public': 'true', 'sandboxer.id': '1', team: 'red' }),
    ),
    [['team', 'red']],
  );
});
