// The frame around every screen: who is there, where he can go, what he is told.
import { useEffect } from 'preact/hooks';
import { follow, live, loaded, unfollow } from './state/fleet';
import { parts, screen } from './state/route';
import { phase, trouble } from './state/session';
import { useShortcuts } from './state/shortcuts';
import { AdminScreen } from './screens/admin/admin';
import { AuditScreen } from './screens/audit';
import { CreateHost } from './screens/create/create';
import { HelpHost } from './screens/help';
import { ImagesScreen } from './screens/images';
import { ListScreen } from './screens/list/list';
import { LoginScreen } from './screens/login';
import { PaletteHost } from './screens/palette';
import { SandboxScreen } from './screens/sandbox/sandbox';
import { SettingsScreen } from './screens/settings';
import { VolumesScreen } from './screens/volumes';
import { Button } from './ui/button';
import { FormHost } from './ui/form';
import { Side } from './ui/side';
import { ToastList } from './ui/toast_list';
import { ask } from './state/session';

function Screen() {
  const [, id = ''] = parts.value;
  switch (screen.value) {
    case 'images':
      return <ImagesScreen />;
    case 'volumes':
      return <VolumesScreen />;
    case 'audit':
      return <AuditScreen />;
    case 'admin':
      return <AdminScreen tab={id || 'tokens'} />;
    case 'settings':
      return <SettingsScreen />;
    default:
      return id ? (
        <SandboxScreen key={id} id={id} tab={parts.value[2] || 'terminal'} />
      ) : (
        <ListScreen />
      );
  }
}

function Inside() {
  useShortcuts();
  useEffect(() => {
    void follow();
    return unfollow;
  }, []);
  return (
    <div class="shell">
      <Side />
      <main class="main" id="main">
        {loaded.value && !live.value && (
          <p class="offline" role="status" data-testid="offline">
            The server does not answer. Trying again…
          </p>
        )}
        <Screen />
      </main>
      <CreateHost />
      <PaletteHost />
      <HelpHost />
    </div>
  );
}

function Unreachable() {
  return (
    <div class="login" data-testid="unreachable">
      <div class="login-card">
        <h1>No answer</h1>
        <p class="lead">{trouble.value}</p>
        <Button kind="primary" onClick={ask} testid="retry">
          Try again
        </Button>
      </div>
    </div>
  );
}

export function App() {
  return (
    <>
      {phase.value === 'in' && <Inside />}
      {phase.value === 'out' && <LoginScreen />}
      {phase.value === 'unreachable' && <Unreachable />}
      {phase.value === 'asking' && <div class="login" aria-busy="true" data-testid="asking" />}
      <FormHost />
      <ToastList />
    </>
  );
}
