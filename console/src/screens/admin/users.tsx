import { listUsers, putUser, removeUser } from '../../api/admin';
import type { User } from '../../api/types';
import { dateTime } from '../../lib/format';
import { Empty, Trouble } from '../../ui/bits';
import { Button } from '../../ui/button';
import { confirm, openForm } from '../../ui/form';
import { useLoad } from '../../ui/use_load';
import { FreshToken, openToken } from './tokens';
import { Heads } from '../../ui/heads';

function openUser(user: User | undefined, reload: () => Promise<void>): void {
  openForm({
    name: 'user',
    title: user ? `Change ${user.tenant}` : 'New user',
    text: user ? undefined : 'A user is a tenant with a name. Make a token for it afterwards.',
    action: user ? 'Change' : 'Make it',
    fields: [
      ...(user ? [] : [{ name: 'tenant', label: 'Tenant', placeholder: 'red', required: true }]),
      { name: 'name', label: 'Name', value: user?.name ?? '' },
      { name: 'email', label: 'Mail', value: user?.email ?? '' },
    ],
    run: async ({ tenant, name = '', email = '' }) => {
      await putUser(user?.tenant ?? tenant ?? '', { name, email });
      await reload();
    },
  });
}

function UserRow({ user, reload }: { user: User; reload: () => Promise<void> }) {
  const remove = () =>
    confirm(
      'remove-user',
      `Remove ${user.name || user.tenant}?`,
      'Its entry goes and its tokens are withdrawn. Its sandboxes and files stay until they end or are removed.',
      'Remove',
      async () => {
        await removeUser(user.tenant);
        await reload();
      },
    );
  return (
    <tr data-testid="user-row" data-tenant={user.tenant}>
      <td>
        <code>{user.tenant}</code>
      </td>
      <td class="wide-text">
        {user.name} {user.login && <small>{user.login}</small>}
      </td>
      <td class="wide-text phone-hide">{user.email}</td>
      <td class="num">{user.sandboxes}</td>
      <td class="num phone-hide">{user.tokens}</td>
      <td class="now phone-hide dim">
        {user.created_at ? dateTime(user.created_at) : 'tokens only'}
      </td>
      <td class="actions-cell">
        <div class="row">
          <Button testid="user-token" onClick={() => openToken(user.tenant, reload)}>
            Token
          </Button>
          <Button
            icon="edit"
            label="Change"
            testid="user-edit"
            onClick={() => openUser(user, reload)}
          />
          <Button kind="danger" icon="trash" label="Remove" testid="user-remove" onClick={remove} />
        </div>
      </td>
    </tr>
  );
}

export function UsersPanel() {
  const load = useLoad(listUsers, []);
  const users = load.data ?? [];
  return (
    <div class="stack" data-testid="panel-users">
      <div class="row">
        <p class="lead grow">Tenants with a name. Each sees its own sandboxes only.</p>
        <Button
          kind="primary"
          icon="plus"
          testid="user-new"
          onClick={() => openUser(undefined, load.reload)}
        >
          New user
        </Button>
      </div>
      {load.error && <Trouble error={load.error} />}
      {users.length === 0 ? (
        <Empty testid="users-none">{load.data ? 'No user yet.' : ''}</Empty>
      ) : (
        <div class="table-wrap">
          <table>
            <Heads
              of={[
                'Tenant',
                'Name',
                ['Mail', 'phone-hide'],
                ['Sandboxes', 'num'],
                ['Tokens', 'num phone-hide'],
                ['Since', 'phone-hide'],
              ]}
              actions
            />
            <tbody>
              {users.map((user) => (
                <UserRow key={user.tenant} user={user} reload={load.reload} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <FreshToken />
    </div>
  );
}
