// Where it tried to go, newest first, from the audit. A denied host can be allowed from here.
import { useEffect, useState } from 'preact/hooks';
import { kSequenceMax, queryAudit } from '../../../api/admin';
import { setNetwork } from '../../../api/sandboxes';
import type { AuditRow, Sandbox } from '../../../api/types';
import { clock, dateTime } from '../../../lib/format';
import { allow, targetOf } from '../../../lib/rules';
import { put } from '../../../state/fleet';
import { can } from '../../../state/session';
import { complain, inform } from '../../../state/toasts';
import { Empty } from '../../../ui/bits';
import { Button } from '../../../ui/button';
import { Heads } from '../../../ui/heads';

const kEveryMs = 2500;
const kRowsMax = 300;

function useEgress(id: string): { rows: AuditRow[]; loaded: boolean } {
  const [rows, setRows] = useState<AuditRow[]>([]);
  const [loaded, setLoaded] = useState(false);
  useEffect(() => {
    let here = true;
    let newest = 0;
    const read = async () => {
      const query = { sandbox: id, action: 'egress.', limit: kRowsMax };
      const page = await queryAudit(
        newest === 0 ? { ...query, before: kSequenceMax } : { ...query, after: newest },
      );
      if (!here) return;
      setLoaded(true);
      if (page.rows.length === 0) return;
      const fresh = newest === 0 ? page.rows : [...page.rows].reverse();
      newest = Math.max(newest, ...page.rows.map((row) => row.sequence));
      setRows((old) => [...fresh, ...old].slice(0, kRowsMax));
    };
    void read().catch(complain);
    const timer = setInterval(() => {
      if (!document.hidden) void read().catch(() => undefined);
    }, kEveryMs);
    return () => {
      here = false;
      clearInterval(timer);
    };
  }, [id]);
  return { rows, loaded };
}

// An allowed name that does not exist, or an address, is nothing that a rule could help.
const kHopeless = new Set(['no_such_name', 'address_literal', 'budget', 'rate_limited']);

function EgressRow({ row, box }: { row: AuditRow; box: Sandbox }) {
  const target = targetOf(row.object);
  const reason = String(row.detail.reason ?? '');
  const offer =
    row.outcome === 'denied' &&
    target &&
    !kHopeless.has(reason) &&
    can('create') &&
    box.state !== 'ended';
  const message = String(row.detail.message ?? '');
  const permit = async () => {
    if (!target) return;
    put(await setNetwork(box.id, allow(box.network.rules, target)));
    inform(`${target.host} is allowed from now on`);
  };
  return (
    <tr data-testid="egress-row" data-outcome={row.outcome}>
      <td class="now dim phone-hide" title={dateTime(row.time)}>
        {clock(row.time)}
      </td>
      <td>
        <span class={`chip ${row.outcome}`}>{row.outcome}</span>
      </td>
      <td class="wide-text">
        <code data-testid="egress-object">{row.object}</code>
      </td>
      <td class="wide-text phone-hide dim" title={message}>
        {String(row.detail.method ?? row.detail.way ?? '')} {message || reason.replace(/_/g, ' ')}
      </td>
      <td class="actions-cell">
        {offer && (
          <Button testid="egress-allow" onClick={permit}>
            Allow this
          </Button>
        )}
      </td>
    </tr>
  );
}

export function EgressLog({ box }: { box: Sandbox }) {
  const { rows, loaded } = useEgress(box.id);
  const [deniedOnly, setDeniedOnly] = useState(false);
  const shown = rows.filter((row) => !deniedOnly || row.outcome !== 'allowed');
  return (
    <section class="panel" data-testid="egress">
      <div class="panel-head">
        <h2>Where it went</h2>
        <label class="check inline">
          <input
            type="checkbox"
            checked={deniedOnly}
            data-testid="egress-denied-only"
            onChange={(event) => setDeniedOnly(event.currentTarget.checked)}
          />
          <span>Denied only</span>
        </label>
      </div>
      {shown.length === 0 ? (
        <Empty testid="egress-none">{loaded ? 'Nothing yet.' : 'Loading…'}</Empty>
      ) : (
        <table>
          <Heads
            of={[['Time', 'phone-hide'], 'Outcome', 'Target', ['How', 'phone-hide']]}
            actions
          />
          <tbody>
            {shown.map((row) => (
              <EgressRow key={row.sequence} row={row} box={box} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
