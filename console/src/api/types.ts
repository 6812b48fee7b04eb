// The shapes of the public API, as far as the console uses them (api/openapi.yaml is the contract).

export type Scope = 'read' | 'use' | 'create' | 'admin';

export interface Caller {
  tenant: string;
  token: string;
  scopes: Scope[];
  name: string;
  email: string;
}

export interface ServerInfo {
  version: string;
  vhost: string;
  open: boolean;
  profiles: string[];
  default_image: string;
  tiers: string[];
  caller: Caller;
}

export type SandboxState =
  | 'creating'
  | 'running'
  | 'paused'
  | 'hibernated'
  | 'stopped'
  | 'ended';

export interface Limits {
  cpu: number | null;
  memory_mb: number | null;
  processes: number | null;
  disk_mb: number | null;
  disk_files: number | null;
  open_files: number | null;
  cpu_seconds: number | null;
  timeout_seconds: number | null;
  idle_seconds: number | null;
}

export interface NetworkRule {
  domain: string;
  ports?: number[] | null;
  rate_limit_per_min?: number | null;
  apex?: boolean | null;
  methods?: string[] | null;
  path_prefixes?: string[] | null;
  max_bytes?: number | null;
  granted_addresses?: string[] | null;
  inspect?: boolean | null;
  otherwise?: boolean | null;
  inject?: { header: string; secret: string; prefix?: string | null }[] | null;
}

export interface Network {
  mode: 'none' | 'allowlist';
  rules: NetworkRule[];
}

export interface Budget {
  max_tokens?: number | null;
  max_cost_usd?: number | null;
  on_exceed?: 'refuse' | 'stop' | null;
}

export interface VolumeUse {
  name: string;
  path: string;
  read_only?: boolean;
}

export interface Sandbox {
  id: string;
  name: string;
  state: SandboxState;
  /** Frozen since nobody uses it; the next use wakes it. */
  resting: boolean;
  profile: string;
  image: string;
  tier: string;
  tools: string[];
  filesystem: { root: 'read_only' | 'writable' };
  resource_limits: Limits;
  user: number;
  workdir: string;
  labels: Record<string, string>;
  created_at: string;
  expires_at: string | null;
  network: Network;
  record: Record<string, string | number>;
  parent: string;
  storage: 'memory' | 'disk';
  persistent: boolean;
  checkpoint: 'none' | 'each_call';
  volumes: VolumeUse[];
  end_reason: string;
  public: boolean;
  hostname: string;
  budget: Budget;
}

export interface CreateRequest {
  profile?: string;
  name?: string;
  image?: string;
  snapshot?: string;
  storage?: 'memory' | 'disk';
  persistent?: boolean;
  checkpoint?: 'none' | 'each_call';
  volumes?: VolumeUse[];
  tier?: string;
  files?: Record<string, string>;
  network?: { mode?: 'none' | 'allowlist'; rules?: NetworkRule[] };
  resource_limits?: Partial<Limits>;
  filesystem?: { root: 'read_only' | 'writable' };
  env?: Record<string, string>;
  workdir?: string;
  user?: number;
  hostname?: string;
  budget?: Budget;
  labels?: Record<string, string>;
}

export interface Usage {
  cpu_seconds: number;
  memory_bytes: number;
  memory_peak_bytes: number;
  oom_kills: number;
  processes: number;
  io_read_bytes: number;
  io_write_bytes: number;
  wall_seconds: number;
  execs: number;
  tokens: number;
  cost_usd: number;
  network: {
    connections: number;
    open: number;
    allowed: number;
    denied: number;
    bytes_up: number;
    bytes_down: number;
  };
}

export interface Process {
  id: number;
  pid: number;
  running: boolean;
  terminal: boolean;
  command: string;
  age_seconds: number;
  stdout: { begin: number; end: number };
  stderr: { begin: number; end: number };
  exit_code: number | null;
  signal: number;
  timed_out: boolean;
  oom_killed: boolean;
}

export type FileType = 'file' | 'folder' | 'link' | 'fifo' | 'socket' | 'device' | 'other';

export interface FileEntry {
  path: string;
  name: string;
  type: FileType;
  size: number;
  mode: string;
  uid: number;
  gid: number;
  modified_at: string;
  links: number;
  target?: string;
  etag?: string;
}

export interface Change {
  kind: 'added' | 'modified' | 'removed' | 'type_changed' | 'mode';
  path: string;
  mode: string;
  size: number;
}

export interface Diff {
  from: string;
  to: string;
  path: string;
  changes: Change[];
  truncated: boolean;
}

export interface Snapshot {
  id: string;
  name: string;
  sandbox: string;
  parent: string;
  image: string;
  kind: 'stacked' | 'cow' | 'copied';
  consistency: string;
  durable: boolean;
  checkpoint: boolean;
  bytes: number;
  layers: number;
  created_at: string;
  labels: Record<string, string>;
}

export interface Image {
  reference: string;
  digest: string;
  platform: string;
  layers: string[];
  packed_bytes: number;
  bytes: number;
  created_at: string;
  source: 'pull' | 'import' | 'build';
  config: {
    user: string;
    uid: number;
    gid: number;
    workdir: string;
    env: string[];
    entrypoint: string[];
    command: string[];
    ports: string[];
    labels: Record<string, string>;
  };
}

export interface Volume {
  name: string;
  bytes_max: number;
  bytes: number;
  created_at: string;
  sandboxes: string[];
}

export interface AuditRow {
  sequence: number;
  time: string;
  tenant: string;
  actor: string;
  action: string;
  sandbox: string;
  object: string;
  outcome: 'allowed' | 'denied' | 'failed';
  detail: Record<string, unknown>;
  request_id: string;
  previous: string;
  hash: string;
}

export interface AuditPage {
  rows: AuditRow[];
  next_after: number;
}

export interface Verdict {
  intact: boolean;
  rows: number;
  head: string;
  bad_row: number | null;
  reason: string;
}

export interface Token {
  id: string;
  tenant: string;
  label: string;
  scopes: Scope[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  max_sandboxes: number;
}

export interface NewToken extends Token {
  token: string;
}

export interface User {
  tenant: string;
  name: string;
  email: string;
  login: string;
  avatar_url: string;
  created_at: string | null; // of an entry; a tenant may have tokens only
  tokens: number;
  sandboxes: number;
}

export interface Storage {
  kind: string;
  limits: boolean;
  live_snapshots: boolean;
  bytes: number;
  free_bytes: number;
  why: string;
}

export interface Ports {
  exposed: number[];
  listening: number[];
}

export interface Preview {
  port: number | null;
  url: string;
  invitation: string;
  expires_at: string;
}

export interface FleetEvent {
  sequence: number;
  time: string;
  type: string;
  sandbox: string;
  data: Record<string, unknown>;
}
