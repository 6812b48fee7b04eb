// Sandboxes that ended before this page was opened, as far as the audit names them.
import { kSequenceMax, queryAudit } from '../../api/admin';
import type { AuditRow, Sandbox } from '../../api/types';
import { addEnded, fleet } from '../../state/fleet';

const kRowsMax = 500;

function ghost(row: AuditRow): Sandbox {
  return {
    id: row.sandbox,
    name: row.object,
    state: 'ended',
    resting: false,
    profile: '',
    image: String(row.detail.image ?? ''),
    tier: '',
    tools: [],
    filesystem: { root: 'read_only' },
    resource_limits: {
      cpu: null,
      memory_mb: null,
      processes: null,
      disk_mb: null,
      disk_files: null,
      open_files: null,
      cpu_seconds: null,
      timeout_seconds: null,
      idle_seconds: null,
    },
    user: 0,
    workdir: '',
    labels: {},
    created_at: row.time,
    expires_at: null,
    network: { mode: 'none', rules: [] },
    record: {},
    parent: String(row.detail.parent ?? ''),
    storage: 'memory',
    persistent: false,
    checkpoint: 'none',
    volumes: [],
    end_reason: '',
    public: false,
    hostname: '',
    budget: {},
  };
}

export async function loadEnded(tenant: string | undefined): Promise<void> {
  const ask = (action: string) =>
    queryAudit({
      action,
      outcome: 'allowed',
      before: kSequenceMax,
      limit: kRowsMax,
      ...(tenant ? { tenant } : {}),
    });
  const [created, forked] = await Promise.all([ask('sandbox.create'), ask('sandbox.fork')]);
  const rows = [...created.rows, ...forked.rows].filter(
    (row) => row.sandbox && !fleet.value.has(row.sandbox),
  );
  addEnded(rows.map(ghost));
}
