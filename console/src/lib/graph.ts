// Where the snapshots and sandboxes of one family stand in a picture: the image at the left, what
// was made of it to the right. Pure geometry; the drawing is elsewhere.
import type { Sandbox, Snapshot } from '../api/types';
import { titleOf } from './names';

export interface Node {
  id: string;
  kind: 'image' | 'snapshot' | 'sandbox';
  label: string;
  state: string;
  x: number;
  y: number;
}
export interface Edge {
  from: Node;
  to: Node;
}
export interface Graph {
  nodes: Node[];
  edges: Edge[];
  columns: number;
  rows: number;
  left: number; // nodes that are not in the picture
}

const kNodesMax = 200;

interface Member {
  id: string;
  kind: Node['kind'];
  label: string;
  state: string;
  parent: string;
}

function membersOf(
  sandboxes: readonly Sandbox[],
  snapshots: readonly Snapshot[],
): Map<string, Member> {
  const members = new Map<string, Member>();
  for (const shot of snapshots) {
    if (shot.checkpoint) continue; // the server's own, before each call: too many to look at
    members.set(shot.id, {
      id: shot.id,
      kind: 'snapshot',
      label: shot.name || shot.id.slice(0, 8),
      state: shot.kind,
      parent: shot.parent,
    });
  }
  for (const box of sandboxes) {
    members.set(box.id, {
      id: box.id,
      kind: 'sandbox',
      label: titleOf(box),
      state: box.state,
      parent: box.parent,
    });
  }
  // A sandbox stands behind its newest snapshot; its first snapshot behind what it began with.
  const newest = new Map<string, Snapshot>();
  for (const shot of snapshots) {
    if (!shot.checkpoint) newest.set(shot.sandbox, shot);
  }
  for (const shot of snapshots) {
    const member = members.get(shot.id);
    const owner = members.get(shot.sandbox);
    if (member && owner && (member.parent === '' || !members.has(member.parent)))
      member.parent = owner.parent;
  }
  for (const [sandbox, shot] of newest) {
    const member = members.get(sandbox);
    if (member) member.parent = shot.id;
  }
  return members;
}

// Everybody who is reached from `id` by parents and children.
function familyOf(members: Map<string, Member>, id: string): Member[] {
  const next = new Map<string, string[]>();
  const link = (from: string, to: string) => next.set(from, [...(next.get(from) ?? []), to]);
  for (const member of members.values()) {
    if (!members.has(member.parent)) continue;
    link(member.id, member.parent);
    link(member.parent, member.id);
  }
  const seen = new Set<string>(members.has(id) ? [id] : []);
  for (const at of seen) for (const other of next.get(at) ?? []) seen.add(other);
  return [...members.values()].filter((member) => seen.has(member.id));
}

export function familyGraph(
  id: string,
  image: string,
  sandboxes: readonly Sandbox[],
  snapshots: readonly Snapshot[],
): Graph {
  const all = familyOf(membersOf(sandboxes, snapshots), id);
  const family = all.slice(0, kNodesMax);
  const known = new Set(family.map((member) => member.id));
  const children = new Map<string, Member[]>();
  for (const member of family) {
    const parent = known.has(member.parent) ? member.parent : '';
    children.set(parent, [...(children.get(parent) ?? []), member]);
  }
  const graph: Graph = {
    nodes: [],
    edges: [],
    columns: 0,
    rows: 0,
    left: all.length - family.length,
  };
  const root: Member = { id: '', kind: 'image', label: image, state: '', parent: '' };
  place(root, 0, undefined, children, graph, new Set());
  return graph;
}

// A node stands in the row of its first child; leaves take the next free row.
function place(
  member: Member,
  column: number,
  parent: Node | undefined,
  children: Map<string, Member[]>,
  graph: Graph,
  seen: Set<string>,
): Node {
  const node: Node = {
    id: member.id,
    kind: member.kind,
    label: member.label,
    state: member.state,
    x: column,
    y: graph.rows,
  };
  seen.add(member.id);
  graph.nodes.push(node);
  graph.columns = Math.max(graph.columns, column + 1);
  if (parent) graph.edges.push({ from: parent, to: node });
  const below = (children.get(member.id) ?? []).filter((child) => !seen.has(child.id));
  if (below.length === 0) graph.rows += 1;
  for (const child of below)
    if (!seen.has(child.id)) place(child, column + 1, node, children, graph, seen);
  return node;
}
