import { href } from '../../state/route';
import { can } from '../../state/session';
import { Empty, Page } from '../../ui/bits';
import { MetricsPanel } from './metrics';
import { SecretsPanel } from './secrets';
import { StoragePanel } from './storage';
import { TokensPanel } from './tokens';
import { UsersPanel } from './users';

const kTabs = [
  { name: 'tokens', text: 'Tokens', show: TokensPanel },
  { name: 'users', text: 'Users', show: UsersPanel },
  { name: 'secrets', text: 'Secrets', show: SecretsPanel },
  { name: 'storage', text: 'Storage', show: StoragePanel },
  { name: 'metrics', text: 'Metrics', show: MetricsPanel },
];

export function AdminScreen({ tab }: { tab: string }) {
  const current = kTabs.find((one) => one.name === tab) ?? kTabs[0]!;
  const Show = current.show;
  return (
    <Page title="Admin" testid="screen-admin">
      <nav class="tabs" aria-label="Parts of the administration">
        {kTabs.map((one) => (
          <a
            key={one.name}
            href={href('admin', one.name)}
            aria-current={one === current ? 'page' : undefined}
            data-testid={`admin-${one.name}`}
          >
            {one.text}
          </a>
        ))}
      </nav>
      {can('admin') ? <Show /> : <Empty>This needs an administrator's token.</Empty>}
    </Page>
  );
}
