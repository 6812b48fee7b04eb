// The rows of the list, of which only those on screen are in the page: five hundred sandboxes cost
// no more than fifty. Arrow keys move one focus through all of them.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Sandbox } from '../../api/types';
import { windowOf, type TreeRow } from '../../lib/tree';
import { go } from '../../state/route';
import { kRowHeight, Row } from './row';

interface RowsProps {
  rows: TreeRow<Sandbox>[];
  onToggle: (id: string) => void;
}

// Where a key leads; nowhere when it is not one of those that move.
function nextIndex(key: string, rows: TreeRow<Sandbox>[], at: number, page: number) {
  const row = rows[at];
  switch (key) {
    case 'ArrowDown':
      return at + 1;
    case 'ArrowUp':
      return at - 1;
    case 'PageDown':
      return at + Math.max(1, page);
    case 'PageUp':
      return at - Math.max(1, page);
    case 'Home':
      return 0;
    case 'End':
      return rows.length - 1;
    case 'ArrowRight':
      return row?.open ? at + 1 : undefined;
    case 'ArrowLeft': {
      const parent = rows.findIndex((other) => other.item.id === row?.item.parent);
      return row?.open || parent < 0 ? undefined : parent;
    }
    default:
      return undefined;
  }
}

const turns = (key: string, row: TreeRow<Sandbox>) =>
  (key === 'ArrowRight' && row.children > 0 && !row.open) || (key === 'ArrowLeft' && row.open);

export function Rows({ rows, onToggle }: RowsProps) {
  const ref = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const [active, setActive] = useState(0);
  const wanted = useRef<number | undefined>(undefined); // gets the focus when it is drawn
  const measure = useCallback(() => {
    const element = ref.current;
    if (element) setView({ top: element.scrollTop, height: element.clientHeight });
  }, []);
  useEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    if (ref.current) observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  const at = Math.min(active, Math.max(0, rows.length - 1));
  const { first, last } = windowOf(view.top, view.height, kRowHeight, rows.length);
  useLayoutEffect(() => {
    if (wanted.current === undefined) return;
    const element = ref.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`);
    if (!element) return;
    wanted.current = undefined;
    element.focus({ preventScroll: true });
  });
  const move = (index: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    const box = ref.current;
    if (box) {
      const top = next * kRowHeight;
      if (top < box.scrollTop) box.scrollTop = top;
      if (top + kRowHeight > box.scrollTop + box.clientHeight)
        box.scrollTop = top + kRowHeight - box.clientHeight;
    }
    wanted.current = next;
    setActive(next);
    measure();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[at];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = nextIndex(event.key, rows, at, Math.floor(view.height / kRowHeight) - 1);
    if (next !== undefined) move(next);
    else if (turns(event.key, row)) onToggle(row.item.id);
    else if (event.key === 'Enter') go('sandboxes', row.item.id, 'terminal');
    else return;
    event.preventDefault();
  };
  return (
    <div
      ref={ref}
      class="list-body"
      role="treegrid"
      aria-label="Sandboxes"
      aria-rowcount={rows.length}
      data-testid="sandbox-list"
      data-total={rows.length}
      onScroll={measure}
      onKeyDown={onKeyDown}
    >
      <div class="list-space" style={{ height: `${rows.length * kRowHeight}px` }}>
        {rows.slice(first, last).map((row, offset) => (
          <Row
            key={row.item.id}
            row={row}
            index={first + offset}
            active={first + offset === at}
            onToggle={onToggle}
            onFocus={setActive}
          />
        ))}
      </div>
    </div>
  );
}
