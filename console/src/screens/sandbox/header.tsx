import { destroySandbox, setLabels, setPublic, turn } from '../../api/sandboxes';
import { fork, takeSnapshot, undo } from '../../api/snapshots';
import type { Sandbox } from '../../api/types';
import { duration, secondsUntil, shortId } from '../../lib/format';
import { kTitleLabel, titleOf } from '../../lib/names';
import { now } from '../../state/clock';
import { fleet, markEnded, put, touch } from '../../state/fleet';
import { go, href, sandboxHref } from '../../state/route';
import { can } from '../../state/session';
import { inform } from '../../state/toasts';
import { Copy, shownState, StateDot } from '../../ui/bits';
import { Button } from '../../ui/button';
import { confirm, openForm } from '../../ui/form';
import { Icon } from '../../ui/icon';

export function openFork(box: Sandbox): void {
  openForm({
    name: 'fork',
    title: `Fork ${titleOf(box)}`,
    text: 'A second sandbox on the same files. Processes are not copied.',
    action: 'Fork',
    fields: [{ name: 'name', label: 'Name', placeholder: 'optional' }],
    run: async ({ name }) => {
      const child = await fork(box.id, name ? { name } : {});
      put(child);
      go('sandboxes', child.id, 'terminal');
    },
  });
}

export function openSnapshot(box: Sandbox, done?: () => void): void {
  openForm({
    name: 'snapshot',
    title: 'Take a snapshot',
    text: 'Keeps the files as they are now, without /tmp, /run and volumes.',
    action: 'Take it',
    fields: [{ name: 'name', label: 'Name', placeholder: 'optional' }],
    run: async ({ name }) => {
      const shot = await takeSnapshot(box.id, name ?? '');
      inform(`Snapshot ${shot.name || shortId(shot.id)} was taken (${shot.kind})`);
      done?.();
    },
  });
}

function openRename(box: Sandbox): void {
  openForm({
    name: 'rename-sandbox',
    title: `Rename ${titleOf(box)}`,
    action: 'Rename',
    fields: [
      {
        name: 'title',
        label: 'Title',
        value: titleOf(box),
        hint: `The name ${box.name || box.id} stays for programs; empty shows it again.`,
      },
    ],
    run: async ({ title = '' }) =>
      put(
        await setLabels(box.id, { [kTitleLabel]: title.trim() === box.name ? '' : title.trim() }),
      ),
  });
}

function openUndo(box: Sandbox): void {
  openForm({
    name: 'undo',
    title: 'Undo',
    text: 'Takes the files back to before the last calls. What runs would keep the files of before.',
    action: 'Undo',
    danger: true,
    fields: [
      { name: 'calls', label: 'Calls', kind: 'number', value: '1', required: true },
      { name: 'end', label: 'End what runs first', kind: 'check' },
    ],
    run: async ({ calls, end }) => {
      const done = await undo(box.id, { calls: Number(calls), end_processes: end === 'true' });
      inform(`${done.calls} undone, ${done.left} more can be`);
    },
  });
}

function openDestroy(box: Sandbox): void {
  confirm(
    'destroy',
    `Destroy ${titleOf(box)}?`,
    'Every process in it is killed and everything it wrote is removed. Its snapshots and its forks stay.',
    'Destroy',
    async () => {
      await destroySandbox(box.id);
      markEnded(box.id, 'destroyed');
      go('sandboxes');
    },
  );
}

function openVisibility(box: Sandbox): void {
  const next = !box.public;
  openForm({
    name: 'visibility',
    title: next ? 'Make its previews public?' : 'Make its previews private?',
    text: next
      ? 'Everybody who knows an address of a preview sees what it serves, without a token.'
      : 'Previews then need an invitation of this console or a token.',
    action: next ? 'Make public' : 'Make private',
    danger: next,
    run: async () => put(await setPublic(box.id, next)),
  });
}

// Where it comes from and what was made of it, one step each way.
function Kin({ box }: { box: Sandbox }) {
  const parent = fleet.value.get(box.parent);
  const children = [...fleet.value.values()].filter(
    (other) => other.parent === box.id && other.state !== 'ended',
  );
  return (
    <>
      {parent && (
        <span>
          forked from{' '}
          <a href={sandboxHref(parent.id)} data-testid="parent-link">
            {titleOf(parent)}
          </a>
        </span>
      )}
      {box.parent && !parent && (
        <span>
          from <code>{shortId(box.parent)}</code>
        </span>
      )}
      {children.length > 0 && (
        <span>
          forks:{' '}
          {children.slice(0, 5).map((child) => (
            <a key={child.id} class="kin" href={sandboxHref(child.id)} data-testid="child-link">
              {titleOf(child)}
            </a>
          ))}
          {children.length > 5 && `and ${children.length - 5} more`}
        </span>
      )}
    </>
  );
}

function Actions({ box }: { box: Sandbox }) {
  const use = can('use');
  const create = can('create');
  const alive = box.state === 'running' || box.state === 'paused';
  const set = async (what: 'pause' | 'resume' | 'stop' | 'start') => {
    put(await turn(box.id, what));
    touch(box.id);
  };
  return (
    <div class="actions">
      {use && box.state === 'running' && (
        <Button icon="pause" label="Pause" testid="pause" onClick={() => set('pause')} />
      )}
      {use && box.state === 'paused' && (
        <Button icon="play" testid="resume" onClick={() => set('resume')}>
          Resume
        </Button>
      )}
      {use && box.state === 'hibernated' && (
        <Button icon="play" testid="wake" onClick={() => set('resume')}>
          Wake
        </Button>
      )}
      {use && alive && box.persistent && (
        <Button
          icon="stop"
          label="Stop; its files stay"
          testid="stop"
          onClick={() => set('stop')}
        />
      )}
      {use && box.state === 'stopped' && (
        <Button icon="play" testid="start" onClick={() => set('start')}>
          Start
        </Button>
      )}
      {use && box.state !== 'ended' && box.checkpoint === 'each_call' && (
        <Button
          icon="undo"
          label="Undo the last calls"
          testid="undo"
          onClick={() => openUndo(box)}
        />
      )}
      {use && box.state !== 'ended' && (
        <Button icon="camera" testid="snapshot" onClick={() => openSnapshot(box)}>
          Snapshot
        </Button>
      )}
      {create && box.state !== 'ended' && (
        <Button icon="fork" testid="fork" onClick={() => openFork(box)}>
          Fork
        </Button>
      )}
      {use && box.state !== 'ended' && (
        <Button
          icon={box.public ? 'globe' : 'lock'}
          label={box.public ? 'Previews are public' : 'Previews are private'}
          testid="visibility"
          pressed={box.public}
          onClick={() => openVisibility(box)}
        />
      )}
      {create && box.state !== 'ended' && (
        <Button
          kind="danger"
          icon="trash"
          label="Destroy"
          testid="destroy"
          onClick={() => openDestroy(box)}
        />
      )}
    </div>
  );
}

export function Header({ box }: { box: Sandbox }) {
  const left =
    box.expires_at && box.state !== 'ended' ? secondsUntil(box.expires_at, now.value) : undefined;
  return (
    <header class="sandbox-head">
      <div class="page-head">
        <h1 class="row">
          <a href={href('sandboxes')} class="back" aria-label="All sandboxes">
            <Icon name="right" />
          </a>
          <StateDot state={shownState(box)} />
          <span class="clip" data-testid="sandbox-name">
            {titleOf(box)}
          </span>
          {can('use') && box.state !== 'ended' && (
            <Button
              kind="quiet"
              icon="edit"
              label="Rename"
              testid="rename"
              onClick={() => openRename(box)}
            />
          )}
          <span class={`chip state-${shownState(box)}`} data-testid="sandbox-state">
            {shownState(box)}
          </span>
          {box.public && (
            <span class="chip warn" data-testid="sandbox-public">
              public
            </span>
          )}
        </h1>
        <Actions box={box} />
      </div>
      <p class="sandbox-line">
        <span class="row tight-row">
          <code data-testid="sandbox-id">{box.id}</code>
          <Copy text={box.id} label="Copy the id" />
        </span>
        <span>{box.image}</span>
        {left !== undefined && (
          <span class={left < 60 ? 'soon' : ''} data-testid="sandbox-left">
            {duration(left)} left
          </span>
        )}
        {box.persistent && <span>persistent</span>}
        {box.end_reason && <span>ended: {box.end_reason}</span>}
        <Kin box={box} />
      </p>
    </header>
  );
}
