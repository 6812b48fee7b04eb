// All sandboxes, as the tree of who was forked from whom.
import { computed, signal } from '@preact/signals';
import { plural } from '../../lib/format';
import { treeRows } from '../../lib/tree';
import { all, loaded } from '../../state/fleet';
import { can, server } from '../../state/session';
import { createOpen } from '../../state/shortcuts';
import { attempt } from '../../state/toasts';
import { Empty } from '../../ui/bits';
import { Button } from '../../ui/button';
import { loadEnded } from './ended';
import { matches } from './filter';
import { Rows } from './rows';

// They outlive the screen: who comes back finds the list as it was.
const filter = signal('');
const showEnded = signal(false);
const closed = signal<ReadonlySet<string>>(new Set());

const rows = computed(() =>
  treeRows(
    all.value,
    (box) => (showEnded.value || box.state !== 'ended') && matches(box, filter.value),
    (id) => !closed.value.has(id),
  ),
);
const living = computed(() => all.value.filter((box) => box.state !== 'ended'));

function toggle(id: string): void {
  const next = new Set(closed.value);
  if (!next.delete(id)) next.add(id);
  closed.value = next;
}

async function setEnded(on: boolean): Promise<void> {
  showEnded.value = on;
  if (on) await attempt(() => loadEnded(can('admin') ? server.value?.caller.tenant : undefined));
}

function Head() {
  const running = living.value.filter((box) => box.state === 'running').length;
  return (
    <header class="page-head">
      <h1>
        Sandboxes{' '}
        <small data-testid="list-count">
          {plural(living.value.length, 'alive', 'alive')}, {running} running
        </small>
      </h1>
      <div class="actions">
        <label class="check inline">
          <input
            type="checkbox"
            checked={showEnded.value}
            data-testid="show-ended"
            onChange={(event) => void setEnded(event.currentTarget.checked)}
          />
          <span>Show ended</span>
        </label>
        <input
          type="search"
          class="filter"
          data-filter
          placeholder="Filter  /"
          aria-label="Filter the list"
          data-testid="list-filter"
          value={filter.value}
          onInput={(event) => {
            filter.value = event.currentTarget.value;
          }}
        />
        {can('create') && (
          <Button
            kind="primary"
            icon="plus"
            testid="new-sandbox"
            onClick={() => {
              createOpen.value = true;
            }}
          >
            New
          </Button>
        )}
      </div>
    </header>
  );
}

function Nothing() {
  if (!loaded.value) return <Empty>Loading…</Empty>;
  if (filter.value !== '') return <Empty testid="list-none">Nothing fits “{filter.value}”.</Empty>;
  return (
    <Empty testid="list-empty">
      <p>No sandbox yet.</p>
      {can('create') && (
        <p>
          Press <kbd>n</kbd> to make one.
        </p>
      )}
    </Empty>
  );
}

export function ListScreen() {
  return (
    <section class="page tight" data-testid="screen-list">
      <Head />
      <div class="list">
        <div class="list-head" aria-hidden="true">
          <span>Name</span>
          <span class="phone-hide">Image</span>
          <span>Age</span>
          <span>Left</span>
          <span class="phone-hide">CPU</span>
          <span class="phone-hide">Memory</span>
        </div>
        {rows.value.length > 0 ? <Rows rows={rows.value} onToggle={toggle} /> : <Nothing />}
      </div>
    </section>
  );
}
