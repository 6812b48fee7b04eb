// Terminals live longer than the tab that shows them: who looks at files and comes back finds them
// as they were. Those of an earlier visit are found in the server's list of processes.
import { signal, type Signal } from '@preact/signals';
import { listProcesses, removeProcess } from '../api/processes';
import type { TerminalSession } from '../terminal/session';
import { onEvent } from './fleet';
import { parts } from './route';

export interface Terminals {
  list: TerminalSession[];
  chosen: number; // its number
  found: boolean; // earlier ones were looked for
}

const kTerminalsMax = 12; // of one sandbox, in this page

const known = new Map<string, Signal<Terminals>>();

export function terminalsOf(sandbox: string): Signal<Terminals> {
  let found = known.get(sandbox);
  if (!found) {
    found = signal<Terminals>({ list: [], chosen: 0, found: false });
    known.set(sandbox, found);
  }
  return found;
}

let lastNumber = 0;

export async function openTerminal(sandbox: string, process?: number): Promise<void> {
  const { TerminalSession } = await import('../terminal/session');
  const state = terminalsOf(sandbox);
  if (state.value.list.length >= kTerminalsMax)
    throw new Error(`${kTerminalsMax} terminals are open here; close one first`);
  if (process !== undefined && state.value.list.some((one) => one.process === process)) return;
  const session = new TerminalSession(sandbox, ++lastNumber, process);
  state.value = { ...state.value, list: [...state.value.list, session], chosen: session.number };
}

const runningTerminals = async (sandbox: string) =>
  (await listProcesses(sandbox)).filter((process) => process.terminal && process.running);

// Takes up what an earlier visit left running; without any, opens one.
export async function findTerminals(sandbox: string, openOne: boolean): Promise<void> {
  const state = terminalsOf(sandbox);
  if (state.value.found) return;
  state.value = { ...state.value, found: true };
  const left = await runningTerminals(sandbox).catch((error) => {
    state.value = { ...state.value, found: false };
    throw error;
  });
  for (const process of left.slice(-kTerminalsMax)) await openTerminal(sandbox, process.id);
  if (left.length === 0 && openOne && state.value.list.length === 0) await openTerminal(sandbox);
}

export function chooseTerminal(sandbox: string, number: number): void {
  const state = terminalsOf(sandbox);
  state.value = { ...state.value, chosen: number };
}

// Ends the process, too: a terminal that was closed is not to be found again.
export async function closeTerminal(sandbox: string, session: TerminalSession): Promise<void> {
  const state = terminalsOf(sandbox);
  const list = state.value.list.filter((one) => one !== session);
  const chosen =
    state.value.chosen === session.number
      ? (list[list.length - 1]?.number ?? 0)
      : state.value.chosen;
  state.value = { ...state.value, list, chosen };
  const ended = session.status.peek() === 'ended';
  const process = session.process;
  session.close();
  if (process !== undefined && !ended) await removeProcess(sandbox, process);
}

// Screens of a sandbox that has ended are kept only for who is looking at them.
onEvent((event) => {
  const state = known.get(event.sandbox);
  if (event.type !== 'sandbox.ended' || !state || parts.peek()[1] === event.sandbox) return;
  for (const session of state.peek().list) session.close();
  known.delete(event.sandbox);
});
