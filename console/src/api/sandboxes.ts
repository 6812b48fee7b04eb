import { call, segment } from './client';
import type { CreateRequest, Limits, NetworkRule, Ports, Preview, Sandbox, Usage } from './types';

const base = '/api/v1/sandboxes';
export const at = (id: string) => `${base}/${segment(id)}`;

export const listSandboxes = async (signal?: AbortSignal) =>
  (await call<{ sandboxes: Sandbox[] }>('GET', base, { signal })).sandboxes;
export const getSandbox = (id: string) => call<Sandbox>('GET', at(id));
export const createSandbox = (body: CreateRequest) => call<Sandbox>('POST', base, { body });
export const destroySandbox = (id: string) => call<void>('DELETE', at(id));
export const turn = (id: string, what: 'pause' | 'resume' | 'stop' | 'start') =>
  call<Sandbox>('POST', `${at(id)}/${what}`, { body: {} });
export const setLimits = (id: string, body: Partial<Limits>) =>
  call<Sandbox>('PATCH', `${at(id)}/limits`, { body });
export const setNetwork = (id: string, rules: NetworkRule[]) =>
  call<Sandbox>('PUT', `${at(id)}/network`, {
    body: rules.length > 0 ? { mode: 'allowlist', rules } : {},
  });
export const setPublic = (id: string, isPublic: boolean) =>
  call<Sandbox>('PUT', `${at(id)}/visibility`, { body: { public: isPublic } });
export const setLabels = (id: string, labels: Record<string, string>) =>
  call<Sandbox>('PUT', `${at(id)}/labels`, { body: { labels } });
export const getUsage = (id: string) => call<Usage>('GET', `${at(id)}/usage`);
export const kUsageIdsMax = 64;
export const getUsages = async (ids: string[]) =>
  (
    await call<{ usage: Record<string, Usage> }>('GET', '/api/v1/usage', {
      query: { ids: ids.join(',') },
    })
  ).usage;
export const getPorts = (id: string) => call<Ports>('GET', `${at(id)}/ports`);
export const openPreview = (id: string, port?: number) =>
  call<Preview>('POST', `${at(id)}/previews`, { body: port ? { port } : {} });
export const portAddress = (id: string, port: number) => `${at(id)}/ports/${port}/`;
