import assert from 'node:assert/strict';
import { test } from 'node:test';
import { treeRows, windowOf } from '../src/lib/tree';

const item = (id: string, parent = '') => ({ id, parent });
const shape = (rows: ReturnType<typeof treeRows>) =>
  rows.map((row) => `${'.'.repeat(row.depth)}${row.item.id}`).join(' ');
const yes = () => true;

test('children stand below their parents, in their order', () => {
  const rows = treeRows(
    [item('a'), item('b'), item('a1', 'a'), item('b1', 'b'), item('a2', 'a'), item('a11', 'a1')],
    yes,
    yes,
  );
  assert.equal(shape(rows), 'a .a1 ..a11 .a2 b .b1');
  assert.deepEqual(
    rows.map((row) => `${row.position}/${row.siblings}`),
    ['1/2', '1/2', '1/1', '2/2', '2/2', '1/1'],
  );
});

test('a parent that nobody knows makes a root', () => {
  assert.equal(shape(treeRows([item('a', 'gone')], yes, yes)), 'a');
});

test('what is closed hides what is below, and says how much', () => {
  const rows = treeRows([item('a'), item('a1', 'a'), item('a2', 'a')], yes, () => false);
  assert.equal(shape(rows), 'a');
  assert.equal(rows[0]?.children, 2);
});

test('one that is wanted keeps those above it', () => {
  const rows = treeRows([item('a'), item('a1', 'a'), item('b')], (one) => one.id === 'a1', yes);
  assert.equal(shape(rows), 'a .a1');
});

test('a ring of parents ends, and so does one that is its own parent', () => {
  assert.equal(treeRows([item('a', 'b'), item('b', 'a')], yes, yes).length, 0);
  assert.equal(shape(treeRows([item('a', 'a')], yes, yes)), 'a');
});

test('a chain of ten thousand forks is drawn, at a bounded depth', () => {
  const chain = Array.from({ length: 10000 }, (_, i) => item(`s${i}`, i === 0 ? '' : `s${i - 1}`));
  const rows = treeRows(chain, yes, yes);
  assert.equal(rows.length, 10000);
  assert.equal(rows[9999]?.depth, 64);
});

test('the window holds what is on screen and a little more', () => {
  assert.deepEqual(windowOf(0, 360, 36, 500), { first: 0, last: 18 });
  assert.deepEqual(windowOf(3600, 360, 36, 500), { first: 92, last: 118 });
  assert.deepEqual(windowOf(99999, 360, 36, 5), { first: 5, last: 5 });
});
