import { signal } from '@preact/signals';
import { createToken, listTokens, revokeToken } from '../../api/admin';
import type { NewToken, Scope, Token } from '../../api/types';
import { dateTime } from '../../lib/format';
import { parseNumber, parseSpan } from '../../lib/pairs';
import { server } from '../../state/session';
import { Copy, Trouble } from '../../ui/bits';
import { Button } from '../../ui/button';
import { Dialog } from '../../ui/dialog';
import { confirm, openForm } from '../../ui/form';
import { useLoad } from '../../ui/use_load';
import { Heads } from '../../ui/heads';

const kScopes: Scope[] = ['read', 'use', 'create', 'admin'];
const kMeaning: Record<Scope, string> = {
  read: 'looks',
  use: 'acts inside',
  create: 'creates and destroys',
  admin: 'includes all, and makes tokens',
};

// Shown once, until its dialog is closed; then it is nowhere.
const fresh = signal<NewToken | undefined>(undefined);

export function openToken(tenant: string, reload: () => Promise<void>): void {
  openForm({
    name: 'token',
    title: 'New token',
    action: 'Make it',
    fields: [
      { name: 'label', label: 'Label', placeholder: 'ci' },
      { name: 'tenant', label: 'Tenant', value: tenant, required: true },
      ...kScopes.map((scope) => ({
        name: `scope-${scope}`,
        label: scope,
        kind: 'check' as const,
        hint: kMeaning[scope],
        value: scope === 'admin' ? '' : 'true',
      })),
      { name: 'expires', label: 'Ends after', placeholder: 'never; 30d, 12h' },
      { name: 'max', label: 'Most sandboxes', placeholder: "the server's limit" },
    ],
    run: async (values) => {
      const scopes = kScopes.filter((scope) => values[`scope-${scope}`] === 'true');
      if (scopes.length === 0) throw new Error('Choose a scope at least.');
      const expires = parseSpan(values.expires ?? '', 'Ends after');
      const max = parseNumber(values.max ?? '', 'Most sandboxes');
      if (typeof expires === 'string') throw new Error(expires);
      if (typeof max === 'string') throw new Error(max);
      fresh.value = await createToken({
        scopes,
        label: values.label ?? '',
        tenant: values.tenant ?? '',
        ...(expires !== undefined ? { expires_seconds: expires } : {}),
        ...(max !== undefined ? { max_sandboxes: max } : {}),
      });
      await reload();
    },
  });
}

export function FreshToken() {
  const token = fresh.value;
  if (!token) return null;
  return (
    <Dialog
      title="The new token"
      testid="dialog-fresh-token"
      onClose={() => (fresh.value = undefined)}
    >
      <div class="form">
        <p class="lead">
          Copy it now. It is shown this once and kept nowhere; only its hash stays.
        </p>
        <div class="row">
          <code class="code grow" data-testid="fresh-token">
            {token.token}
          </code>
          <Copy text={token.token} label="Copy the token" testid="fresh-token-copy" />
        </div>
        <footer class="dialog-foot">
          <Button
            kind="primary"
            testid="fresh-token-done"
            onClick={() => {
              fresh.value = undefined;
            }}
          >
            I have it
          </Button>
        </footer>
      </div>
    </Dialog>
  );
}

function TokenRow({ token, reload }: { token: Token; reload: () => Promise<void> }) {
  const over = token.expires_at !== null && Date.parse(token.expires_at) < Date.now();
  const state = token.revoked_at ? 'withdrawn' : over ? 'over' : 'valid';
  const withdraw = () =>
    confirm(
      'withdraw',
      `Withdraw ${token.label || token.id}?`,
      'Who uses it is refused from now on. This cannot be taken back.',
      'Withdraw',
      async () => {
        await revokeToken(token.id);
        await reload();
      },
    );
  return (
    <tr data-testid="token-row" data-id={token.id}>
      <td>
        <code>{token.id}</code>
      </td>
      <td class="wide-text">{token.label}</td>
      <td>{token.tenant}</td>
      <td class="phone-hide">
        {token.scopes.map((scope) => (
          <span key={scope} class={scope === 'admin' ? 'chip warn' : 'chip'}>
            {scope}
          </span>
        ))}
      </td>
      <td class="now phone-hide dim">
        {token.last_used_at ? dateTime(token.last_used_at) : 'never used'}
      </td>
      <td class="now phone-hide dim">{token.expires_at ? dateTime(token.expires_at) : 'no end'}</td>
      <td>
        <span class={state === 'valid' ? 'chip good' : 'chip'} data-testid="token-state">
          {state}
        </span>
      </td>
      <td class="actions-cell">
        {state === 'valid' && (
          <Button kind="danger" testid="token-withdraw" onClick={withdraw}>
            Withdraw
          </Button>
        )}
      </td>
    </tr>
  );
}

export function TokensPanel() {
  const load = useLoad(listTokens, []);
  return (
    <div class="stack" data-testid="panel-tokens">
      <div class="row">
        <p class="lead grow">Who may call. A token belongs to one tenant and has scopes.</p>
        <Button
          kind="primary"
          icon="plus"
          testid="token-new"
          onClick={() => openToken(server.value?.caller.tenant ?? '', load.reload)}
        >
          New token
        </Button>
      </div>
      {load.error && <Trouble error={load.error} />}
      <div class="table-wrap">
        <table>
          <Heads
            of={[
              'Id',
              'Label',
              'Tenant',
              ['Scopes', 'phone-hide'],
              ['Last used', 'phone-hide'],
              ['Ends', 'phone-hide'],
              'State',
            ]}
            actions
          />
          <tbody>
            {(load.data ?? []).map((token) => (
              <TokenRow key={token.id} token={token} reload={load.reload} />
            ))}
          </tbody>
        </table>
      </div>
      <FreshToken />
    </div>
  );
}
