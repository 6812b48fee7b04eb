import { useEffect, useRef } from 'preact/hooks';
import type { Sandbox } from '../../api/types';
import { can } from '../../state/session';
import {
  chooseTerminal,
  closeTerminal,
  findTerminals,
  openTerminal,
  terminalsOf,
} from '../../state/terminals';
import { attempt } from '../../state/toasts';
import type { TerminalSession } from '../../terminal/session';
import { copyText, Empty } from '../../ui/bits';
import { Button } from '../../ui/button';
import { Icon } from '../../ui/icon';

function Screen({ session }: { session: TerminalSession }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const parent = ref.current;
    if (!parent) return undefined;
    session.attach(parent);
    session.focus();
    const observer = new ResizeObserver(() => session.resize());
    observer.observe(parent);
    return () => {
      observer.disconnect();
      session.host.remove();
    };
  }, [session]);
  return <div ref={ref} class="terminal-screen" data-testid="terminal-screen" />;
}

function StatusLine({ session }: { session: TerminalSession }) {
  const status = session.status.value;
  const texts = {
    connecting: 'connecting…',
    open: 'connected',
    lost: `connection lost, trying again… ${session.note.value}`,
    ended: `ended: ${session.note.value}`,
  };
  return (
    <div class="terminal-status">
      <span
        class={`dot ${status === 'open' ? 'running' : status === 'ended' ? 'ended' : 'paused'}`}
      />
      <span class="dim grow clip" role="status" data-testid="terminal-status" data-status={status}>
        {texts[status]}
      </span>
      {status === 'lost' && (
        <Button kind="quiet" testid="terminal-retry" onClick={() => session.retry()}>
          Try now
        </Button>
      )}
      {status === 'ended' && (
        <Button
          kind="quiet"
          icon="refresh"
          testid="terminal-again"
          onClick={async () => {
            await closeTerminal(session.sandbox, session);
            await openTerminal(session.sandbox);
          }}
        >
          Again
        </Button>
      )}
      <Button
        kind="quiet"
        icon="copy"
        label="Copy what is marked, or all"
        testid="terminal-copy"
        onClick={() => copyText(session.text())}
      />
    </div>
  );
}

function Tab({ session, chosen }: { session: TerminalSession; chosen: boolean }) {
  const label = session.title.value || `Terminal ${session.processSignal.value ?? ''}`;
  return (
    <span class={chosen ? 'terminal-tab chosen' : 'terminal-tab'}>
      <button
        type="button"
        aria-pressed={chosen}
        data-testid="terminal-tab"
        title={label}
        onClick={() => chooseTerminal(session.sandbox, session.number)}
      >
        <Icon name="terminal" />
        <span class="clip">{label}</span>
      </button>
      <Button
        kind="quiet"
        icon="close"
        label="End this terminal"
        testid="terminal-close"
        onClick={() => closeTerminal(session.sandbox, session)}
      />
    </span>
  );
}

export function TerminalsTab({ box }: { box: Sandbox }) {
  const state = terminalsOf(box.id);
  const usable = box.state === 'running' && can('use');
  useEffect(() => {
    if (usable) void attempt(() => findTerminals(box.id, true));
  }, [box.id, usable]);
  const { list, chosen } = state.value;
  const session = list.find((one) => one.number === chosen) ?? list[list.length - 1];
  return (
    <div class="terminals" data-testid="tab-terminal">
      <div class="terminal-bar">
        {list.map((one) => (
          <Tab key={one.number} session={one} chosen={one === session} />
        ))}
        <Button
          kind="quiet"
          icon="plus"
          label="One more terminal"
          testid="terminal-new"
          disabled={!usable}
          onClick={() => openTerminal(box.id)}
        />
      </div>
      {session ? (
        <>
          <Screen key={session.number} session={session} />
          <StatusLine session={session} />
        </>
      ) : (
        <Empty>
          {usable
            ? 'Opening a terminal…'
            : `A terminal needs a running sandbox; this one is ${box.state}.`}
        </Empty>
      )}
    </div>
  );
}
