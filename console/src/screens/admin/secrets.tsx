import { listSecrets, putSecret, removeSecret } from '../../api/admin';
import { Empty, Trouble } from '../../ui/bits';
import { Button } from '../../ui/button';
import { confirm, openForm } from '../../ui/form';
import { useLoad } from '../../ui/use_load';
import { Heads } from '../../ui/heads';

function openSecret(name: string, reload: () => Promise<void>): void {
  openForm({
    name: 'secret',
    title: name ? `New value of ${name}` : 'New secret',
    text: 'Kept encrypted. No answer of the server ever holds it again.',
    action: 'Keep it',
    fields: [
      ...(name ? [] : [{ name: 'name', label: 'Name', placeholder: 'github', required: true }]),
      { name: 'value', label: 'Value', kind: 'password' as const, required: true },
    ],
    run: async (values) => {
      await putSecret(name || (values.name ?? ''), values.value ?? '');
      await reload();
    },
  });
}

export function SecretsPanel() {
  const load = useLoad(listSecrets, []);
  const secrets = load.data ?? [];
  const remove = (name: string) =>
    confirm(
      'remove-secret',
      `Remove ${name}?`,
      'Rules that add it then refuse their requests.',
      'Remove',
      async () => {
        await removeSecret(name);
        await load.reload();
      },
    );
  return (
    <div class="stack" data-testid="panel-secrets">
      <div class="row">
        <p class="lead grow">
          What network rules put into requests, outside of the sandbox that makes them.
        </p>
        <Button
          kind="primary"
          icon="plus"
          testid="secret-new"
          onClick={() => openSecret('', load.reload)}
        >
          New secret
        </Button>
      </div>
      {load.error && <Trouble error={load.error} />}
      {secrets.length === 0 ? (
        <Empty testid="secrets-none">{load.data ? 'No secret.' : ''}</Empty>
      ) : (
        <div class="table-wrap">
          <table>
            <Heads of={['Name']} actions />
            <tbody>
              {secrets.map(({ name }) => (
                <tr key={name} data-testid="secret-row" data-name={name}>
                  <td class="wide-text">
                    <strong>{name}</strong>
                  </td>
                  <td class="actions-cell">
                    <div class="row">
                      <Button testid="secret-replace" onClick={() => openSecret(name, load.reload)}>
                        New value
                      </Button>
                      <Button
                        kind="danger"
                        icon="trash"
                        label="Remove"
                        testid="secret-remove"
                        onClick={() => remove(name)}
                      />
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
