import { href } from '../state/route';
import { server } from '../state/session';
import { theme, type Theme } from '../state/theme';
import { Facts, Page } from '../ui/bits';
import { ShortcutTable } from './help';

const kThemes: [Theme, string][] = [
  ['system', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

export function SettingsScreen() {
  const info = server.value;
  return (
    <Page title="Settings" testid="screen-settings">
      <section class="panel">
        <h2>Theme</h2>
        <div class="row" role="radiogroup" aria-label="Theme">
          {kThemes.map(([name, text]) => (
            <label key={name} class="check inline">
              <input
                type="radio"
                name="theme"
                checked={theme.value === name}
                data-testid={`theme-${name}`}
                onChange={() => {
                  theme.value = name;
                }}
              />
              <span>{text}</span>
            </label>
          ))}
        </div>
      </section>
      <section class="panel">
        <h2>You</h2>
        <Facts
          rows={[
            ['Tenant', info?.caller.tenant ?? ''],
            ['Name', info?.caller.name || '–'],
            ['Mail', info?.caller.email || '–'],
            ['Token', <code>{info?.caller.token || 'none: the server is open'}</code>],
            ['May', <span data-testid="scopes">{info?.caller.scopes.join(', ')}</span>],
          ]}
        />
      </section>
      <section class="panel" data-testid="about">
        <h2>This server</h2>
        <Facts
          rows={[
            ['Version', info?.version ?? ''],
            ['Default image', info?.default_image ?? ''],
            ['Tiers', info?.tiers.join(', ') ?? ''],
            ['Profiles', info?.profiles.join(', ') || 'none'],
            ['Previews', info?.vhost ? `below ${info.vhost}` : 'no domain for them'],
            [
              'API',
              <a href="/docs" target="_blank" rel="noopener">
                its document
              </a>,
            ],
          ]}
        />
      </section>
      <section class="panel">
        <h2>Keys</h2>
        <ShortcutTable />
        <p class="lead">
          Everything here goes through the public API; <a href={href('audit')}>the audit</a> has
          each of your calls.
        </p>
      </section>
    </Page>
  );
}
