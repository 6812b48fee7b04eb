// One sandbox: its state and what can be done with it, and a tab for each side of it.
import { useEffect, useState } from 'preact/hooks';
import { isStatus } from '../../api/client';
import { getSandbox } from '../../api/sandboxes';
import type { Sandbox } from '../../api/types';
import { fleet, loaded, put } from '../../state/fleet';
import { href, sandboxHref } from '../../state/route';
import { complain } from '../../state/toasts';
import { Empty } from '../../ui/bits';
import { AuditTab } from './audit_tab';
import { BudgetTab } from './budget';
import { FilesTab } from './files/files';
import { Header } from './header';
import { NetworkTab } from './network/network';
import { ProcessesTab } from './processes';
import { RunTab } from './run';
import { SettingsTab } from './settings_tab';
import { SnapshotsTab } from './snapshots';
import { TerminalsTab } from './terminals';

const kTabs: {
  name: string;
  text: string;
  show: (props: { box: Sandbox }) => preact.JSX.Element | null;
}[] = [
  { name: 'terminal', text: 'Terminals', show: TerminalsTab },
  { name: 'run', text: 'Run', show: RunTab },
  { name: 'processes', text: 'Processes', show: ProcessesTab },
  { name: 'files', text: 'Files', show: FilesTab },
  { name: 'snapshots', text: 'Snapshots', show: SnapshotsTab },
  { name: 'network', text: 'Network', show: NetworkTab },
  { name: 'budget', text: 'Budget', show: BudgetTab },
  { name: 'audit', text: 'Audit', show: AuditTab },
  { name: 'settings', text: 'Settings', show: SettingsTab },
];

// The list has it; one that is not in it is asked for.
function useSandbox(id: string): { box: Sandbox | undefined; missing: boolean } {
  const box = fleet.value.get(id);
  const [missing, setMissing] = useState(false);
  const known = box !== undefined;
  const ready = loaded.value;
  useEffect(() => {
    if (known || !ready) return;
    getSandbox(id).then(put, (error) => {
      if (isStatus(error, 404) || isStatus(error, 410) || isStatus(error, 400)) setMissing(true);
      else complain(error);
    });
  }, [id, known, ready]);
  return { box, missing };
}

export function SandboxScreen({ id, tab }: { id: string; tab: string }) {
  const { box, missing } = useSandbox(id);
  if (!box) {
    return (
      <section class="page" data-testid="screen-sandbox">
        {missing ? (
          <Empty testid="sandbox-missing">
            <p>
              There is no such sandbox, or it has ended.{' '}
              <a href={href('sandboxes')}>All sandboxes</a>
            </p>
          </Empty>
        ) : (
          <Empty>Loading…</Empty>
        )}
      </section>
    );
  }
  const current = kTabs.find((one) => one.name === tab) ?? kTabs[0]!;
  const Show = current.show;
  return (
    <section
      class={tab === 'terminal' ? 'page tight' : 'page'}
      data-testid="screen-sandbox"
      data-state={box.state}
    >
      <Header box={box} />
      <nav class="tabs" aria-label="Parts of the sandbox">
        {kTabs.map((one) => (
          <a
            key={one.name}
            href={sandboxHref(id, one.name)}
            aria-current={one === current ? 'page' : undefined}
            data-testid={`tab-link-${one.name}`}
          >
            {one.text}
          </a>
        ))}
      </nav>
      <Show box={box} />
    </section>
  );
}
