import { call } from './client';
import { at } from './sandboxes';
import type { Process } from './types';

export const listProcesses = async (id: string) =>
  (await call<{ processes: Process[] }>('GET', `${at(id)}/processes`)).processes;
export const getProcess = (id: string, process: number) =>
  call<Process>('GET', `${at(id)}/processes/${process}`);
export const startProcess = (
  id: string,
  body: { command?: string; argv?: string[]; workdir?: string },
) => call<Process>('POST', `${at(id)}/processes`, { body });
export const signalProcess = (id: string, process: number, name: string, tree: boolean) =>
  call<void>('POST', `${at(id)}/processes/${process}/signal`, { body: { signal: name, tree } });
export const removeProcess = (id: string, process: number) =>
  call<void>('DELETE', `${at(id)}/processes/${process}`);
export const writeInput = (id: string, process: number, text: string) =>
  call<void>('POST', `${at(id)}/processes/${process}/input`, {
    raw: new TextEncoder().encode(text),
    headers: { 'Content-Type': 'application/octet-stream' },
  });
export const runOnce = (id: string, command: string) =>
  call<{ exit_code: number }>('POST', `${at(id)}/exec`, { body: { command, timeout_seconds: 10 } });
export const outputPath = (id: string, process: number) => `${at(id)}/processes/${process}/output`;

// WebSockets of this server: the browser sends the cookie and the Origin by itself.
export function socketAddress(path: string): string {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}
export const execSocket = (id: string) => socketAddress(`${at(id)}/exec`);
export function terminalSocket(id: string, rows: number, cols: number, process?: number): string {
  const query = new URLSearchParams({ rows: String(rows), cols: String(cols) });
  if (process !== undefined) query.set('process', String(process));
  return socketAddress(`${at(id)}/terminal?${query}`);
}
