// What is different from what it began with, or from a snapshot; line by line for one file.
import { useState } from 'preact/hooks';
import { diff, listSnapshots, patch } from '../../../api/snapshots';
import type { Change, Sandbox } from '../../../api/types';
import { bytes, count, dateTime, plural } from '../../../lib/format';
import { parsePatch, tally, type FilePatch } from '../../../lib/patch';
import { Empty, Trouble } from '../../../ui/bits';
import { Button } from '../../../ui/button';
import { useLoad } from '../../../ui/use_load';

const kShownAtOnce = 500;
const kMarks: Record<Change['kind'], string> = {
  added: '+',
  modified: '~',
  removed: '−',
  type_changed: '!',
  mode: 'm',
};

function PatchView({ file }: { file: FilePatch }) {
  if (file.binary) return <p class="lead">Not text.</p>;
  if (file.lines.length === 0) return <p class="lead">No line is different.</p>;
  const { added, removed } = tally(file.lines);
  return (
    <div data-testid="patch">
      <p class="row">
        <span class="chip good">+{added}</span>
        <span class="chip bad">−{removed}</span>
      </p>
      <table class="patch">
        <tbody>
          {file.lines.map((line, index) => (
            <tr key={index} class={line.kind}>
              <td class="num">{line.old ?? ''}</td>
              <td class="num">{line.new ?? ''}</td>
              <td>
                <pre>{line.text || ' '}</pre>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ChangeRow({ change, from, to }: { change: Change; from: string; to: string }) {
  const [open, setOpen] = useState(false);
  return (
    <li class={`change ${change.kind}`} data-testid="change" data-kind={change.kind}>
      <button type="button" class="change-head" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span class="mark" title={change.kind} aria-label={change.kind}>
          {kMarks[change.kind] ?? '?'}
        </span>
        <code class="grow">{change.path}</code>
        <small>{change.size > 0 ? bytes(change.size) : ''}</small>
      </button>
      {open && <ChangePatch from={from} to={to} path={change.path} />}
    </li>
  );
}

function ChangePatch({ from, to, path }: { from: string; to: string; path: string }) {
  const load = useLoad(async () => parsePatch(await patch(from, to, path)), [from, to, path]);
  if (load.error) return <Trouble error={load.error} />;
  if (!load.data) return <p class="lead">Comparing…</p>;
  const file = load.data.find((one) => one.path === path) ?? load.data[0];
  return (
    <div class="change-body">
      {file ? <PatchView file={file} /> : <p class="lead">No line is different.</p>}
    </div>
  );
}

export function DiffView({ box, below }: { box: Sandbox; below: string }) {
  const [from, setFrom] = useState(`image:${box.image}`);
  const [here, setHere] = useState(false);
  const [shown, setShown] = useState(kShownAtOnce);
  const to = `sandbox:${box.id}`;
  const snapshots = useLoad(listSnapshots, []);
  const load = useLoad(
    () => diff(from, to, here ? below : undefined),
    [from, to, here ? below : ''],
  );
  const changes = load.data?.changes ?? [];
  return (
    <section class="stack" data-testid="diff-view">
      <div class="row">
        <label class="row">
          Compared with
          <select
            value={from}
            data-testid="diff-from"
            onChange={(event) => setFrom(event.currentTarget.value)}
          >
            <option value={`image:${box.image}`}>the image {box.image}</option>
            {snapshots.data
              ?.filter((one) => !one.checkpoint)
              .map((one) => (
                <option key={one.id} value={`snapshot:${one.id}`}>
                  snapshot {one.name || one.id.slice(0, 8)}, {dateTime(one.created_at)}
                </option>
              ))}
          </select>
        </label>
        <label class="check inline">
          <input
            type="checkbox"
            checked={here}
            onChange={(event) => setHere(event.currentTarget.checked)}
          />
          <span>only below {below}</span>
        </label>
        <Button icon="refresh" label="Compare again" testid="diff-refresh" onClick={load.reload} />
        <span class="dim" data-testid="diff-count">
          {load.data ? plural(changes.length, 'change') : ''}
          {load.data?.truncated ? ' and more' : ''}
        </span>
      </div>
      {load.error && <Trouble error={load.error} />}
      {load.data && changes.length === 0 && <Empty testid="diff-none">Nothing is different.</Empty>}
      <ul class="changes">
        {changes.slice(0, shown).map((change) => (
          <ChangeRow key={change.path} change={change} from={from} to={to} />
        ))}
      </ul>
      {changes.length > shown && (
        <Button
          onClick={() => setShown(shown + kShownAtOnce)}
        >{`Show more (${count(changes.length - shown)} left)`}</Button>
      )}
    </section>
  );
}
