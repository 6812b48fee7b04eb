import { useEffect, useState } from 'preact/hooks';
import { buildImage, listSnapshots, merge, removeSnapshot, undo } from '../../api/snapshots';
import type { Sandbox, Snapshot } from '../../api/types';
import { bytes, dateTime, plural, shortId } from '../../lib/format';
import { titleOf } from '../../lib/names';
import { fleet, onEvent } from '../../state/fleet';
import { can } from '../../state/session';
import { inform } from '../../state/toasts';
import { Empty, Trouble } from '../../ui/bits';
import { Button } from '../../ui/button';
import { confirm, openForm } from '../../ui/form';
import { useLoad } from '../../ui/use_load';
import { openCreate } from '../create/create';
import { Family } from './family';
import { openFork, openSnapshot } from './header';
import { Heads } from '../../ui/heads';

const nameOf = (shot: Snapshot) => shot.name || shortId(shot.id);

function openBack(box: Sandbox, shot: Snapshot): void {
  openForm({
    name: 'back',
    title: `Back to ${nameOf(shot)}?`,
    text: 'The files become those of the snapshot. What was written since is lost, unless you take a snapshot first.',
    action: 'Go back',
    danger: true,
    fields: [
      {
        name: 'end',
        label: 'End what runs first',
        kind: 'check',
        hint: 'Without it, running processes are a reason to refuse.',
      },
    ],
    run: async ({ end }) => {
      await undo(box.id, { snapshot: shot.id, end_processes: end === 'true' });
      inform(`Back at ${nameOf(shot)}`);
    },
  });
}

function openBuild(shot: Snapshot): void {
  openForm({
    name: 'build',
    title: `Make an image of ${nameOf(shot)}`,
    action: 'Build',
    fields: [
      { name: 'reference', label: 'Name of the image', placeholder: 'tools:1', required: true },
    ],
    run: async ({ reference = '' }) => {
      const image = await buildImage(reference, shot.id);
      inform(`Image ${image.reference} is here`);
    },
  });
}

function openMerge(box: Sandbox): void {
  const others = [...fleet.value.values()].filter(
    (other) => other.id !== box.id && other.state !== 'ended',
  );
  openForm({
    name: 'merge',
    title: `Merge into ${titleOf(box)}`,
    text: 'Brings in what a fork changed since both had the same files. Where both changed one file, nothing is done.',
    action: 'Merge',
    fields: [
      {
        name: 'from',
        label: 'From',
        kind: 'select',
        options: others.map((other) => ({ value: other.id, text: titleOf(other) })),
      },
      { name: 'end', label: 'End what runs first', kind: 'check' },
    ],
    run: async ({ from = '', end }) => {
      const done = await merge(box.id, `sandbox:${from}`, end === 'true');
      inform(`${plural(done.applied.length, 'change')} applied`);
    },
  });
}

function SnapshotRow({
  box,
  shot,
  reload,
}: {
  box: Sandbox;
  shot: Snapshot;
  reload: () => Promise<void>;
}) {
  const remove = () =>
    confirm(
      'remove-snapshot',
      `Remove ${nameOf(shot)}?`,
      'Forks and later snapshots that were made on it keep their files.',
      'Remove',
      async () => {
        await removeSnapshot(shot.id);
        await reload();
      },
    );
  return (
    <tr data-testid="snapshot-row" data-id={shot.id}>
      <td class="wide-text">
        <span data-testid="snapshot-name">{nameOf(shot)}</span>{' '}
        {shot.checkpoint && <span class="chip">before a call</span>}
      </td>
      <td class="now dim">{dateTime(shot.created_at)}</td>
      <td class="now phone-hide" title={shot.consistency}>
        {shot.kind}
      </td>
      <td class="num phone-hide">{bytes(shot.bytes)}</td>
      <td class="actions-cell">
        <div class="row">
          {can('create') && (
            <Button testid="snapshot-fork" onClick={() => openCreate({ snapshot: shot.id })}>
              New from it
            </Button>
          )}
          {can('use') && box.state !== 'ended' && (
            <Button testid="snapshot-back" onClick={() => openBack(box, shot)}>
              Back to it
            </Button>
          )}
          {can('create') && !shot.checkpoint && (
            <Button testid="snapshot-build" onClick={() => openBuild(shot)}>
              Image
            </Button>
          )}
          {can('use') && (
            <Button
              kind="danger"
              icon="trash"
              label="Remove"
              testid="snapshot-remove"
              onClick={remove}
            />
          )}
        </div>
      </td>
    </tr>
  );
}

export function SnapshotsTab({ box }: { box: Sandbox }) {
  const load = useLoad(listSnapshots, [box.id]);
  useEffect(
    () =>
      onEvent((event) => {
        if (/^(snapshot\.|sandbox\.(undone|forked|merged|created))/.test(event.type))
          void load.reload();
      }),
    [load.reload],
  );
  const [withCalls, setWithCalls] = useState(false);
  const mine = (load.data ?? []).filter((shot) => shot.sandbox === box.id).reverse();
  const shown = mine.filter((shot) => withCalls || !shot.checkpoint);
  const alive = box.state !== 'ended';
  return (
    <div class="stack" data-testid="tab-snapshots">
      <div class="row">
        {can('use') && alive && (
          <Button
            kind="primary"
            icon="camera"
            testid="take-snapshot"
            onClick={() => openSnapshot(box, () => void load.reload())}
          >
            Take a snapshot
          </Button>
        )}
        {can('create') && alive && (
          <Button icon="fork" testid="snapshots-fork" onClick={() => openFork(box)}>
            Fork now
          </Button>
        )}
        {can('use') && alive && (
          <Button testid="merge" onClick={() => openMerge(box)}>
            Merge…
          </Button>
        )}
        {mine.some((shot) => shot.checkpoint) && (
          <label class="check inline">
            <input
              type="checkbox"
              checked={withCalls}
              data-testid="snapshots-calls"
              onChange={(event) => setWithCalls(event.currentTarget.checked)}
            />
            <span>With those before each call</span>
          </label>
        )}
      </div>
      {load.error && <Trouble error={load.error} />}
      {load.data && <Family box={box} snapshots={load.data} />}
      {shown.length === 0 ? (
        load.data && <Empty testid="snapshots-none">No snapshot of this sandbox.</Empty>
      ) : (
        <div class="table-wrap">
          <table>
            <Heads
              of={['Name', 'Taken', ['Kind', 'phone-hide'], ['Own size', 'num phone-hide']]}
              actions
            />
            <tbody>
              {shown.map((shot) => (
                <SnapshotRow key={shot.id} box={box} shot={shot} reload={load.reload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
