import { call, segment, send } from './client';
import { at } from './sandboxes';
import type { Diff, Image, Sandbox, Snapshot } from './types';

export const listSnapshots = async () =>
  (await call<{ snapshots: Snapshot[] }>('GET', '/api/v1/snapshots')).snapshots;
export const takeSnapshot = (id: string, name: string) =>
  call<Snapshot>('POST', `${at(id)}/snapshots`, { body: name ? { name } : {} });
export const removeSnapshot = (id: string) =>
  call<void>('DELETE', `/api/v1/snapshots/${segment(id)}`);
export const fork = (id: string, body: { name?: string; hostname?: string; memory?: boolean }) =>
  call<Sandbox>('POST', `${at(id)}/fork`, { body });
export const undo = (
  id: string,
  body: { calls?: number; snapshot?: string; end_processes?: boolean },
) => call<{ snapshot: string; calls: number; left: number }>('POST', `${at(id)}/undo`, { body });
export const merge = (id: string, from: string, endProcesses: boolean) =>
  call<{ base: string; applied: unknown[] }>('POST', `${at(id)}/merge`, {
    body: { from, end_processes: endProcesses },
  });
export const buildImage = (reference: string, snapshot: string) =>
  call<Image>('POST', '/api/v1/images/build', { body: { reference, snapshot } });

export const diff = (from: string, to: string, path?: string) =>
  call<Diff>('GET', '/api/v1/diff', { query: { from, to, path } });
export const patch = async (from: string, to: string, path: string) =>
  (await send('GET', '/api/v1/diff', { query: { from, to, path, format: 'patch' } })).text();
