import type { ServerInfo } from '../api/types';
import { screen, href } from '../state/route';
import { can, leave, server } from '../state/session';
import { theme, dark } from '../state/theme';
import { Button } from './button';
import { Icon } from './icon';

const kPlaces = [
  { name: 'sandboxes', text: 'Sandboxes', icon: 'boxes' },
  { name: 'images', text: 'Images', icon: 'image' },
  { name: 'volumes', text: 'Volumes', icon: 'volume' },
  { name: 'audit', text: 'Audit', icon: 'audit' },
  { name: 'admin', text: 'Admin', icon: 'admin', admin: true },
  { name: 'settings', text: 'Settings', icon: 'settings' },
];

// Below the name: what it does not say itself.
function subtitle(info: ServerInfo | undefined): string {
  if (!info) return '';
  if (info.open) return 'open server';
  const { email, name, tenant, scopes } = info.caller;
  return email || (name ? tenant : scopes.join(', '));
}

export function Side() {
  const info = server.value;
  const who = info?.caller.name || info?.caller.tenant || '';
  return (
    <aside class="side">
      <a class="brand" href={href('sandboxes')} aria-label="caisson, all sandboxes">
        <img src="/favicon.svg" alt="" />
        <span>caisson</span>
      </a>
      <nav aria-label="Main">
        {kPlaces
          .filter((place) => !place.admin || can('admin'))
          .map((place) => (
            <a
              key={place.name}
              href={href(place.name)}
              title={place.text}
              aria-current={screen.value === place.name ? 'page' : undefined}
              data-testid={`nav-${place.name}`}
            >
              <Icon name={place.icon} />
              <span>{place.text}</span>
            </a>
          ))}
      </nav>
      <div class="side-foot">
        <div class="who" data-testid="who">
          <span class="initial" aria-hidden="true">
            {(who[0] ?? '?').toUpperCase()}
          </span>
          <div>
            <div class="clip" title={who} data-testid="who-name">
              {who}
            </div>
            <small class="clip">{subtitle(info)}</small>
          </div>
        </div>
        <div class="row">
          <Button
            kind="quiet"
            icon={dark.value ? 'sun' : 'moon'}
            label={dark.value ? 'Light theme' : 'Dark theme'}
            testid="theme-toggle"
            onClick={() => {
              theme.value = dark.value ? 'light' : 'dark';
            }}
          />
          {!info?.open && (
            <Button kind="quiet" icon="out" label="Log out" testid="logout" onClick={leave} />
          )}
        </div>
      </div>
    </aside>
  );
}
