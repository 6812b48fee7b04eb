// Small pieces that many screens use.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { Sandbox, SandboxState } from '../api/types';
import { dateTime, secondsSince, shortDuration } from '../lib/format';
import { now } from '../state/clock';
import { complain } from '../state/toasts';
import { Button } from './button';

/** What a sandbox does now: `resting` is one of the ways to run. */
export type ShownState = SandboxState | 'resting';
export const shownState = (box: Sandbox): ShownState =>
  box.resting && box.state === 'running' ? 'resting' : box.state;

export function StateDot({ state }: { state: ShownState }) {
  return (
    <span class={`dot ${state}`} role="img" aria-label={state} title={state} data-state={state} />
  );
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    complain(new Error('the browser did not let us copy'));
    return false;
  }
}

export function Copy({ text, label, testid }: { text: string; label: string; testid?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    if (!(await copyText(text))) return;
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <Button
      kind="quiet"
      icon={done ? 'check' : 'copy'}
      label={label}
      testid={testid}
      onClick={copy}
    />
  );
}

export function Age({ time }: { time: string }) {
  return (
    <time dateTime={time} title={dateTime(time)}>
      {shortDuration(secondsSince(time, now.value))}
    </time>
  );
}

export function Empty({ children, testid }: { children: ComponentChildren; testid?: string }) {
  return (
    <div class="empty" data-testid={testid}>
      {children}
    </div>
  );
}

export function Trouble({ error }: { error: string }) {
  return (
    <p class="form-error" role="alert" data-testid="trouble">
      {error}
    </p>
  );
}

export function Bar({ part, label }: { part: number; label: string }) {
  const bounded = Math.max(0, Math.min(1, part));
  const tone = bounded > 0.9 ? 'bar high' : bounded > 0.7 ? 'bar mid' : 'bar';
  return <progress class={tone} max={1} value={bounded} aria-label={label} />;
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Page({
  title,
  actions,
  children,
  testid,
}: {
  title: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
  testid: string;
}) {
  return (
    <section class="page" data-testid={testid}>
      <header class="page-head">
        <h1>{title}</h1>
        <div class="actions">{actions}</div>
      </header>
      {children}
    </section>
  );
}
