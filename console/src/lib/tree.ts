// The forest of forks as rows of a list: parents before children, each with its depth.

export interface TreeItem {
  id: string;
  parent: string;
}

export interface TreeRow<T> {
  item: T;
  depth: number;
  children: number; // shown below it when it is open
  open: boolean;
  position: number; // among its siblings, from 1
  siblings: number;
}

const kDepthMax = 64; // deeper ones are shown at this depth, so that a row stays readable

// `keep` says what is wanted; what is above a wanted one is kept, too, so that the tree has no gaps.
export function treeRows<T extends TreeItem>(
  items: readonly T[],
  keep: (item: T) => boolean,
  isOpen: (id: string) => boolean,
): TreeRow<T>[] {
  const byId = new Map(items.map((item) => [item.id, item]));
  const wanted = new Set<string>();
  for (const item of items) {
    if (!keep(item)) continue;
    // Stops at one that was marked already, and so also in a ring of parents.
    for (let at: T | undefined = item; at && !wanted.has(at.id); at = byId.get(at.parent)) {
      wanted.add(at.id);
    }
  }
  const children = new Map<string, T[]>();
  const roots: T[] = [];
  for (const item of items) {
    if (!wanted.has(item.id)) continue;
    if (item.parent !== item.id && byId.has(item.parent)) {
      const list = children.get(item.parent);
      if (list) list.push(item);
      else children.set(item.parent, [item]);
    } else {
      roots.push(item);
    }
  }
  const rows: TreeRow<T>[] = [];
  const seen = new Set<string>();
  // A stack of our own: a chain of forks can be longer than the call stack is deep.
  const stack: { item: T; depth: number; position: number; siblings: number }[] = [];
  const pushAll = (list: T[], depth: number) => {
    for (let i = list.length - 1; i >= 0; i -= 1) {
      stack.push({ item: list[i]!, depth, position: i + 1, siblings: list.length });
    }
  };
  pushAll(roots, 0);
  while (stack.length > 0) {
    const { item, depth, position, siblings } = stack.pop()!;
    if (seen.has(item.id)) continue;
    seen.add(item.id);
    const below = children.get(item.id) ?? [];
    const open = below.length > 0 && isOpen(item.id);
    rows.push({ item, depth, children: below.length, open, position, siblings });
    if (open) pushAll(below, Math.min(depth + 1, kDepthMax));
  }
  return rows;
}

// Which rows of equal height are on screen, with some more above and below.
export function windowOf(
  scrolled: number,
  height: number,
  rowHeight: number,
  total: number,
  spare = 8,
): { first: number; last: number } {
  const first = Math.max(0, Math.floor(scrolled / rowHeight) - spare);
  const last = Math.min(total, Math.ceil((scrolled + height) / rowHeight) + spare);
  return { first: Math.min(first, last), last };
}
