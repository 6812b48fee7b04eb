import { useState } from 'preact/hooks';
import { verifyAudit, type AuditQuery } from '../api/admin';
import type { Verdict } from '../api/types';
import { count } from '../lib/format';
import { can } from '../state/session';
import { Page } from '../ui/bits';
import { Button } from '../ui/button';
import { AuditTable } from './audit_table';

const kOutcomes = ['', 'allowed', 'denied', 'failed'];
const kActions = [
  'sandbox.',
  'egress.',
  'tool.',
  'exec',
  'process.',
  'file.',
  'snapshot.',
  'image.',
  'token.',
];

function Verified({ verdict }: { verdict: Verdict }) {
  return (
    <div
      class={verdict.intact ? 'verdict good' : 'verdict bad'}
      role="status"
      data-testid="verify-result"
      data-intact={verdict.intact}
    >
      {verdict.intact ? (
        <p>
          <strong>The chain is whole.</strong> {count(verdict.rows)} rows, the last is{' '}
          <code>{verdict.head.slice(0, 16)}…</code>
        </p>
      ) : (
        <p>
          <strong>The chain is broken</strong> at row {verdict.bad_row ?? '?'}: {verdict.reason}
        </p>
      )}
    </div>
  );
}

function Filters({ onChange }: { onChange: (query: AuditQuery) => void }) {
  const [draft, setDraft] = useState({ action: '', outcome: '', sandbox: '', tenant: '' });
  const change = (part: Partial<typeof draft>) => setDraft({ ...draft, ...part });
  const apply = (event: Event) => {
    event.preventDefault();
    onChange(
      Object.fromEntries(
        Object.entries(draft).filter(([, value]) => value.trim() !== ''),
      ) as AuditQuery,
    );
  };
  return (
    <form class="row filters" onSubmit={apply}>
      <input
        type="text"
        list="audit-actions"
        placeholder="Action, or its beginning with a dot"
        aria-label="Action"
        value={draft.action}
        data-testid="audit-action"
        onInput={(event) => change({ action: event.currentTarget.value })}
      />
      <datalist id="audit-actions">
        {kActions.map((action) => (
          <option key={action} value={action} />
        ))}
      </datalist>
      <select
        aria-label="Outcome"
        value={draft.outcome}
        data-testid="audit-outcome"
        onChange={(event) => change({ outcome: event.currentTarget.value })}
      >
        {kOutcomes.map((outcome) => (
          <option key={outcome} value={outcome}>
            {outcome || 'any outcome'}
          </option>
        ))}
      </select>
      <input
        type="text"
        placeholder="Sandbox id"
        aria-label="Sandbox"
        value={draft.sandbox}
        data-testid="audit-sandbox"
        onInput={(event) => change({ sandbox: event.currentTarget.value.trim() })}
      />
      {can('admin') && (
        <input
          type="text"
          placeholder="Tenant"
          aria-label="Tenant"
          value={draft.tenant}
          data-testid="audit-tenant"
          onInput={(event) => change({ tenant: event.currentTarget.value })}
        />
      )}
      <Button type="submit" testid="audit-apply">
        Filter
      </Button>
    </form>
  );
}

export function AuditScreen() {
  const [query, setQuery] = useState<AuditQuery>({});
  const [verdict, setVerdict] = useState<Verdict | undefined>(undefined);
  const verify = async () => setVerdict(await verifyAudit());
  return (
    <Page
      title="Audit"
      testid="screen-audit"
      actions={
        can('admin') && (
          <Button icon="check" testid="verify" onClick={verify}>
            Verify the chain
          </Button>
        )
      }
    >
      {verdict && <Verified verdict={verdict} />}
      <Filters onChange={setQuery} />
      <AuditTable query={query} withSandbox />
    </Page>
  );
}
