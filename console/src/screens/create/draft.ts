// What a person fills in, and the request that it becomes. Text stays text until the end, so that
// nothing that was typed is lost on the way.
import type { CreateRequest } from '../../api/types';
import { parseNumber, parsePairs, parseSpan } from '../../lib/pairs';
import { parseRuleLines } from '../../lib/rules';

export interface Draft {
  image: string;
  snapshot: string;
  name: string;
  profile: string;
  hostname: string;
  cpu: string;
  memory: string;
  processes: string;
  disk: string;
  timeout: string;
  idle: string;
  rules: string;
  root: '' | 'read_only' | 'writable';
  persistent: boolean;
  disk_storage: boolean;
  checkpoint: boolean;
  env: string;
  labels: string;
  workdir: string;
  user: string;
  files: { path: string; text: string }[];
  volumes: { name: string; path: string; read_only: boolean }[];
  max_tokens: string;
  max_cost: string;
  on_exceed: 'refuse' | 'stop';
  command: string;
}

export const blank = (): Draft => ({
  image: '',
  snapshot: '',
  name: '',
  profile: '',
  hostname: '',
  cpu: '',
  memory: '',
  processes: '',
  disk: '',
  timeout: '',
  idle: '',
  rules: '',
  root: '',
  persistent: false,
  disk_storage: false,
  checkpoint: false,
  env: '',
  labels: '',
  workdir: '',
  user: '',
  files: [],
  volumes: [],
  max_tokens: '',
  max_cost: '',
  on_exceed: 'refuse',
  command: '',
});

// A string says what is wrong.
function limitsOf(draft: Draft): CreateRequest['resource_limits'] | string {
  const limits: Record<string, number> = {};
  const fields: [string, number | undefined | string][] = [
    ['cpu', parseNumber(draft.cpu, 'CPU')],
    ['memory_mb', parseNumber(draft.memory, 'Memory')],
    ['processes', parseNumber(draft.processes, 'Processes')],
    ['disk_mb', parseNumber(draft.disk, 'Disk')],
    ['timeout_seconds', parseSpan(draft.timeout, 'Time to live')],
    ['idle_seconds', parseSpan(draft.idle, 'Idle time')],
  ];
  for (const [name, value] of fields) {
    if (typeof value === 'string') return value;
    if (value !== undefined) limits[name] = value;
  }
  return limits;
}

function budgetOf(draft: Draft): CreateRequest['budget'] | string {
  const tokens = parseNumber(draft.max_tokens, 'Tokens');
  const cost = parseNumber(draft.max_cost, 'Money');
  if (typeof tokens === 'string') return tokens;
  if (typeof cost === 'string') return cost;
  if (tokens === undefined && cost === undefined) return undefined;
  return { max_tokens: tokens ?? null, max_cost_usd: cost ?? null, on_exceed: draft.on_exceed };
}

export function requestOf(draft: Draft): CreateRequest | string {
  const request: CreateRequest = {};
  if (draft.snapshot) request.snapshot = draft.snapshot;
  else if (draft.image.trim()) request.image = draft.image.trim();
  if (draft.name.trim()) request.name = draft.name.trim();
  if (draft.profile) request.profile = draft.profile;
  if (draft.hostname.trim()) request.hostname = draft.hostname.trim();
  if (draft.workdir.trim()) request.workdir = draft.workdir.trim();
  if (draft.persistent) request.persistent = true;
  else if (draft.disk_storage) request.storage = 'disk';
  if (draft.checkpoint) request.checkpoint = 'each_call';
  if (draft.root) request.filesystem = { root: draft.root };
  const user = parseNumber(draft.user, 'User');
  if (typeof user === 'string') return user;
  if (user !== undefined) request.user = user;
  const limits = limitsOf(draft);
  if (typeof limits === 'string') return limits;
  if (Object.keys(limits ?? {}).length > 0) request.resource_limits = limits;
  const budget = budgetOf(draft);
  if (typeof budget === 'string') return budget;
  if (budget) request.budget = budget;
  const rules = parseRuleLines(draft.rules);
  if (typeof rules === 'string') return rules;
  if (rules.length > 0) request.network = { mode: 'allowlist', rules };
  const env = parsePairs(draft.env);
  if (typeof env === 'string') return `Variables: ${env}`;
  if (Object.keys(env).length > 0) request.env = env;
  const labels = parsePairs(draft.labels);
  if (typeof labels === 'string') return `Labels: ${labels}`;
  if (Object.keys(labels).length > 0) request.labels = labels;
  const files = draft.files.filter((file) => file.path.trim() !== '');
  if (files.length > 0)
    request.files = Object.fromEntries(files.map((file) => [file.path.trim(), file.text]));
  const volumes = draft.volumes.filter((volume) => volume.name && volume.path);
  if (volumes.length > 0) request.volumes = volumes;
  return request;
}
