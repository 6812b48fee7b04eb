import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sandbox, Snapshot } from '../src/api/types';
import { familyGraph } from '../src/lib/graph';

const box = (id: string, parent = '') =>
  ({ id, parent, name: id, labels: {}, state: 'running' }) as Sandbox;
const shot = (id: string, sandbox: string, parent = '', checkpoint = false) =>
  ({ id, sandbox, parent, name: id, kind: 'stacked', checkpoint }) as Snapshot;
const shape = (graph: ReturnType<typeof familyGraph>) =>
  graph.nodes.map((node) => `${node.label}@${node.x},${node.y}`).join(' ');

test('a sandbox alone stands beside its image', () => {
  assert.equal(shape(familyGraph('a', 'host', [box('a'), box('stranger')], [])), 'host@0,0 a@1,0');
});

test('snapshots stand between the image and the sandbox, forks beside it', () => {
  const graph = familyGraph(
    'a',
    'host',
    [box('a'), box('b', 's1')],
    [shot('s1', 'a'), shot('s2', 'a', 's1')],
  );
  assert.equal(shape(graph), 'host@0,0 s1@1,0 s2@2,0 a@3,0 b@2,1');
  assert.equal(graph.edges.length, 4);
  assert.deepEqual([graph.columns, graph.rows], [4, 2]);
});

test("the server's own checkpoints are not drawn", () => {
  assert.equal(
    shape(familyGraph('a', 'host', [box('a')], [shot('c', 'a', '', true)])),
    'host@0,0 a@1,0',
  );
});

test('a large family is bounded', () => {
  const many = Array.from({ length: 500 }, (_, i) => box(`b${i}`, 'a'));
  const graph = familyGraph('a', 'host', [box('a'), ...many], []);
  assert.equal(graph.nodes.length, 201);
  assert.equal(graph.left, 301);
});

test('a ring of parents ends', () => {
  assert.ok(familyGraph('a', 'host', [box('a', 'b'), box('b', 'a')], []).nodes.length <= 3);
});
