import type { Sandbox } from '../../api/types';
import { bytes, dateTime, duration, plural } from '../../lib/format';
import { shownLabels } from '../../lib/names';
import { can } from '../../state/session';
import { Copy, Facts } from '../../ui/bits';
import { Button } from '../../ui/button';
import { openLabels } from './labels_form';
import { liveOn, openLimits } from './limits_form';

const none = (value: number | null, show: (value: number) => string) =>
  value === null ? 'no limit' : show(value);

function LimitsPanel({ box }: { box: Sandbox }) {
  const limits = box.resource_limits;
  const editable = can('create') && box.state !== 'ended';
  return (
    <section class="panel">
      <div class="panel-head">
        <h2>Limits and time to live</h2>
        {editable && (
          <div class="actions">
            <Button testid="ttl-10m" onClick={() => liveOn(box, 600)}>
              10 min from now
            </Button>
            <Button testid="ttl-1h" onClick={() => liveOn(box, 3600)}>
              1 h
            </Button>
            <Button testid="ttl-1d" onClick={() => liveOn(box, 86400)}>
              1 d
            </Button>
            <Button testid="settings-limits" onClick={() => openLimits(box)}>
              Change…
            </Button>
          </div>
        )}
      </div>
      <Facts
        rows={[
          ['CPU', none(limits.cpu, (value) => plural(value, 'core'))],
          ['Memory', none(limits.memory_mb, (value) => bytes(value * 1048576))],
          ['Processes', none(limits.processes, String)],
          ['Disk', none(limits.disk_mb, (value) => bytes(value * 1048576))],
          ['Files', none(limits.disk_files, String)],
          ['Open files', none(limits.open_files, String)],
          ['CPU time', none(limits.cpu_seconds, duration)],
          ['Time to live', none(limits.timeout_seconds, duration)],
          ['Idle time', none(limits.idle_seconds, duration)],
          [
            'Ends',
            <span data-testid="settings-ends">
              {box.expires_at ? dateTime(box.expires_at) : 'never by itself'}
            </span>,
          ],
        ]}
      />
    </section>
  );
}

export function SettingsTab({ box }: { box: Sandbox }) {
  const json = JSON.stringify(box, null, 2);
  const labels = shownLabels(box);
  return (
    <div class="stack" data-testid="tab-settings">
      <LimitsPanel box={box} />
      <section class="panel">
        <h2>What it is</h2>
        <Facts
          rows={[
            ['Created', dateTime(box.created_at)],
            ['Profile', box.profile || 'none'],
            ['Tier', box.tier],
            ['User', String(box.user)],
            ['Working folder', <code>{box.workdir}</code>],
            ['Host name', box.hostname],
            ['Root', box.filesystem.root.replace('_', '-')],
            ['Storage', `${box.storage}${box.persistent ? ', persistent' : ''}`],
            ['Undo', box.checkpoint === 'each_call' ? 'for each call' : 'to snapshots'],
            ['Tools', box.tools.join(', ') || 'none'],
            [
              'Volumes',
              box.volumes.map((one) => `${one.name} at ${one.path}`).join(', ') || 'none',
            ],
            ['Previews', box.public ? 'public' : 'private'],
          ]}
        />
      </section>
      <section class="panel" data-testid="settings-labels">
        <div class="panel-head">
          <h2>Labels</h2>
          {can('use') && box.state !== 'ended' && (
            <Button testid="labels-edit" onClick={() => openLabels(box)}>
              Change…
            </Button>
          )}
        </div>
        {labels.length === 0 ? <p class="lead">None.</p> : <Facts rows={labels} />}
      </section>
      <section class="panel" data-testid="settings-record">
        <h2>Walls that hold</h2>
        <Facts
          rows={Object.entries(box.record).map(([name, value]): [string, string] => [
            name.replace('_', ' '),
            String(value),
          ])}
        />
      </section>
      <section class="panel">
        <div class="panel-head">
          <h2>As JSON</h2>
          <Copy text={json} label="Copy the JSON" testid="settings-copy" />
        </div>
        <pre class="code json" data-testid="settings-json" tabIndex={0}>
          {json}
        </pre>
      </section>
    </div>
  );
}
