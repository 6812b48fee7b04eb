// Rows of the audit, newest first, page by page.
import { useEffect, useState } from 'preact/hooks';
import { kSequenceMax, queryAudit, type AuditQuery } from '../api/admin';
import type { AuditRow } from '../api/types';
import { dateTime, shortId } from '../lib/format';
import { sandboxHref } from '../state/route';
import { Empty, Trouble } from '../ui/bits';
import { Button } from '../ui/button';
import { errorText } from '../ui/form';
import { Heads } from '../ui/heads';

const kPage = 100;
const kHeads: (string | [string, string])[] = [
  ['Row', 'num'],
  'Time',
  'Action',
  'Outcome',
  ['Object', 'phone-hide'],
  ['Actor', 'phone-hide'],
];

function Details({ row }: { row: AuditRow }) {
  return (
    <tr class="audit-detail" data-testid="audit-detail">
      <td colSpan={7}>
        <pre class="code">{JSON.stringify(row.detail, null, 2)}</pre>
        <small class="mono">
          request {row.request_id || '–'} · before {row.previous.slice(0, 16)}… · this{' '}
          {row.hash.slice(0, 16)}…
        </small>
      </td>
    </tr>
  );
}

function Row({ row, withSandbox }: { row: AuditRow; withSandbox: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <tr data-testid="audit-row" data-action={row.action}>
        <td class="num">
          <button
            type="button"
            class="crumb"
            aria-expanded={open}
            aria-label={`Details of row ${row.sequence}`}
            data-testid="audit-open"
            onClick={() => setOpen(!open)}
          >
            {row.sequence}
          </button>
        </td>
        <td class="now dim">{dateTime(row.time)}</td>
        <td>
          <code>{row.action}</code>
        </td>
        <td>
          <span class={`chip ${row.outcome}`}>{row.outcome}</span>
        </td>
        <td class="wide-text phone-hide">{row.object.slice(0, 300)}</td>
        <td class="phone-hide">{row.actor}</td>
        {withSandbox && (
          <td class="phone-hide">
            {row.sandbox && (
              <a href={sandboxHref(row.sandbox, 'audit')}>
                <code>{shortId(row.sandbox)}</code>
              </a>
            )}
          </td>
        )}
      </tr>
      {open && <Details row={row} />}
    </>
  );
}

export function AuditTable({ query, withSandbox }: { query: AuditQuery; withSandbox: boolean }) {
  const [rows, setRows] = useState<AuditRow[]>([]);
  const [state, setState] = useState<'loading' | 'more' | 'all'>('loading');
  const [error, setError] = useState('');
  const [round, setRound] = useState(0);
  const key = JSON.stringify(query);
  const read = async (before: number) => {
    setState('loading');
    setError('');
    const page = await queryAudit({ ...query, before, limit: kPage });
    setRows((old) => (before === kSequenceMax ? page.rows : [...old, ...page.rows]));
    setState(page.rows.length < kPage ? 'all' : 'more');
  };
  const begin = (before: number) =>
    read(before).catch((problem) => {
      setError(errorText(problem));
      setState('all');
    });
  useEffect(() => {
    void begin(kSequenceMax);
  }, [key, round]);
  const last = rows[rows.length - 1];
  return (
    <>
      {error && <Trouble error={error} />}
      <div class="table-wrap">
        <table data-testid="audit-table">
          <Heads of={withSandbox ? [...kHeads, ['Sandbox', 'phone-hide']] : kHeads} />
          <tbody>
            {rows.map((row) => (
              <Row key={row.sequence} row={row} withSandbox={withSandbox} />
            ))}
          </tbody>
        </table>
        {rows.length === 0 && state === 'all' && <Empty testid="audit-none">No row.</Empty>}
      </div>
      <div class="row">
        <Button icon="refresh" testid="audit-refresh" onClick={() => setRound(round + 1)}>
          Newest
        </Button>
        {state === 'more' && last && (
          <Button testid="audit-older" onClick={() => begin(last.sequence)}>
            Older
          </Button>
        )}
      </div>
    </>
  );
}
