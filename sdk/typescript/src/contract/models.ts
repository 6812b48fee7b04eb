// Generated from api/openapi.yaml by tools/generate.mjs. To change it, change the contract and run
// `npm run generate`.

/** What `ApiError.code` can be. */
export const errorCodes = [
  'InvalidArgument',
  'NotFound',
  'AlreadyExists',
  'Denied',
  'Unauthenticated',
  'Unsupported',
  'Exhausted',
  'TooLarge',
  'TimedOut',
  'Busy',
  'Gone',
  'LauncherGone',
  'StoreFull',
  'Protocol',
  'Internal',
  'MethodNotAllowed',
  'UnsupportedMediaType',
  'UpgradeRequired',
  'Conflict',
  'PreconditionFailed',
  'RangeNotSatisfiable',
  'MisdirectedHost',
  'Stopping',
] as const;

export type ErrorCode = (typeof errorCodes)[number];

export interface ErrorBody {
  error: {
    /** For programs. */
    code: ErrorCode;
    /** For people: what is wrong, where, and the remedy. */
    message: string;
    details: {
      /** Which part of the input is wrong, such as `resource_limits.cpu`. */
      field?: string;
      /** Of `Conflict`: what both sides come from. */
      base?: string;
      /** Of `Conflict`: the first paths that were changed on both sides. */
      conflicts?: string[];
      /** Of `Conflict`: how many there are. */
      conflicts_total?: number;
    };
    /** Also in `X-Request-Id` and in the log. */
    request_id: string;
  };
}

/** What is left out is the profile's, then the server's. */
export interface ResourceLimits {
  /** Cores. */
  cpu?: number | null | undefined;
  /** Most memory, in MiB. */
  memory_mb?: number | null | undefined;
  /** Most processes and threads. */
  processes?: number | null | undefined;
  /** Most bytes written, in MiB. */
  disk_mb?: number | null | undefined;
  /** Most files. */
  disk_files?: number | null | undefined;
  /** Most open files of one process. */
  open_files?: number | null | undefined;
  /** CPU time of the whole tree; the sandbox ends then. */
  cpu_seconds?: number | null | undefined;
  /** Life of the sandbox, from its creation. */
  timeout_seconds?: number | null | undefined;
  /** It ends when nothing was asked of it for so long. */
  idle_seconds?: number | null | undefined;
  /**
   * It rests when nothing was asked of it for so long: its processes stand still and its memory is
   * taken back as far as the host can, until it is used. 0 is never.
   */
  rest_seconds?: number | null | undefined;
}

export interface CreateRequest {
  /** A profile of the configuration; fields given beside it go before it. */
  profile?: string | null | undefined;
  /** For people; unique among the living sandboxes of a tenant. */
  name?: string | null | undefined;
  /** The same as `image`, by Cagebox's name. Give one of the two. */
  base_image?: string | null | undefined;
  /**
   * What its root is made of: `host`, the programs of the server's machine, read-only; or an image
   * that was pulled, imported or built.
   */
  image?: string | null | undefined;
  /** Instead of an image, the files of this snapshot, by id or name. */
  snapshot?: string | null | undefined;
  /**
   * With `snapshot`: go on with the processes that it has, as the sandbox was whose they are. Then
   * only `name`, `labels` and `hostname` can be given.
   */
  memory?: boolean | null | undefined;
  /**
   * Where its writable layer lies. `disk` can hold more than memory, and is kept as a snapshot in
   * a moment.
   */
  storage?: 'memory' | 'disk' | null | undefined;
  /** Its files outlive a stop, the server and the host. It implies `disk`. */
  persistent?: boolean | null | undefined;
  /** With `each_call` the files are kept before each call, for `undo`. It implies `disk`. */
  checkpoint?: 'none' | 'each_call' | null | undefined;
  /** Volumes of your tenant, and where they are inside. */
  volumes?: VolumeUse[] | null | undefined;
  /**
   * What keeps its programs apart from this host: `native` (the default), `gvisor` or `microvm`;
   * `seccomp` and `firecracker` mean the first and the last. 501 where this host lacks it; see
   * `tiers` of the server.
   */
  tier?: string | null | undefined;
  /** Tools that may be used; any other is denied. */
  tools?: string[] | null | undefined;
  /** Path to text, written under the workspace first. Together at most 4 MiB. */
  files?: Record<string, string> | null | undefined;
  /** With what the interpreters of `code` start. */
  interpreters?: Interpreters | null | undefined;
  /** No network when left out, or when the profile says nothing else. */
  network?: Network | null | undefined;
  resource_limits?: ResourceLimits | null | undefined;
  filesystem?: {
    /** `/workspace`, `/tmp` and `/run` can always be written. */
    root?: 'read_only' | 'writable' | null | undefined;
  } | null | undefined;
  /** Variables, name to value. */
  env?: Record<string, string> | null | undefined;
  /** `/workspace` when left out. */
  workdir?: string | null | undefined;
  /** User id inside; 65534 when left out. */
  user?: number | null | undefined;
  /**
   * Of user 0: whether it may act for the other users inside, as the programs of most images
   * expect of root (own and read their files, become them, signal them). Left out: yes for the
   * root of an image, no with `host`.
   */
  root_capabilities?: boolean | null | undefined;
  /** Inside. */
  hostname?: string | null | undefined;
  /** What its calls of language models may use; within what its tenant may. */
  budget?: {
    max_tokens?: number | null | undefined;
    max_cost_usd?: number | null | undefined;
    /** At the limit, refuse calls or end the sandbox. */
    on_exceed?: 'refuse' | 'stop' | null | undefined;
  } | null | undefined;
  /** For you. */
  labels?: Record<string, string> | null | undefined;
}

/** Where the sandbox may go. Nothing leaves that no rule allows; the first rule that fits decides. */
export interface Network {
  mode?: 'none' | 'allowlist' | null | undefined;
  /** Names, or `*.` and a name for all below it, on ports 80 and 443. Or give `rules`. */
  domain_allowlist?: string[] | null | undefined;
  rules?: NetworkRule[] | null | undefined;
  /**
   * Proxy clients must show the sandbox's token, which stands in the variables that name the
   * proxy. Fixed at the creation.
   */
  token?: boolean | null | undefined;
}

export interface NetworkRule {
  /**
   * A name, `*.` and a name, or `*`: every name, whose rule cannot add a secret or grant
   * addresses.
   */
  domain: string;
  /** Every port when left out. */
  ports?: number[] | null | undefined;
  /** Requests; 60 when left out. */
  rate_limit_per_min?: number | null | undefined;
  /** `*.x` is also `x` itself. */
  apex?: boolean | null | undefined;
  /** Where HTTP is seen; a connection that hides it is then refused. */
  methods?: string[] | null | undefined;
  path_prefixes?: string[] | null | undefined;
  /** Both ways, over the life of the sandbox. */
  max_bytes?: number | null | undefined;
  /** Addresses that are not public and that this name may have. Needs an admin's token. */
  granted_addresses?: string[] | null | undefined;
  /** Look into TLS with an authority of the sandbox's own. */
  inspect?: boolean | null | undefined;
  /** Of a rule for every name: for names that no rule before it names. */
  otherwise?: boolean | null | undefined;
  /** Headers set outside of the sandbox. Needs an admin's token. */
  inject?: {
    header: string;
    /** Its name. */
    secret: string;
    prefix?: string | null | undefined;
  }[] | null | undefined;
}

export interface NetworkState {
  mode: 'none' | 'allowlist';
  rules: NetworkRule[];
}

export interface SandboxInfo {
  id: string;
  name: string;
  state: 'creating' | 'running' | 'paused' | 'hibernated' | 'stopped' | 'ended';
  /** It runs, and stands still until somebody uses it. */
  resting: boolean;
  profile: string;
  /** `host`, or the reference of an image. */
  image: string;
  tier: 'native' | 'gvisor' | 'microvm';
  tools: string[];
  filesystem: {
    root: 'read_only' | 'writable';
  };
  /** `null`: no limit. */
  resource_limits: {
    /** Cores. */
    cpu: number | null;
    /** Most memory, in MiB. */
    memory_mb: number | null;
    /** Most processes and threads. */
    processes: number | null;
    /** Most bytes written, in MiB. */
    disk_mb: number | null;
    /** Most files. */
    disk_files: number | null;
    /** Most open files of one process. */
    open_files: number | null;
    /** CPU time of the whole tree; the sandbox ends then. */
    cpu_seconds: number | null;
    /** Life of the sandbox, from its creation. */
    timeout_seconds: number | null;
    /** It ends when nothing was asked of it for so long. */
    idle_seconds: number | null;
    /** It rests when nothing was asked of it for so long. */
    rest_seconds: number | null;
  };
  user: number;
  workdir: string;
  /** Whether user 0 may act for the other users inside. */
  root_capabilities: boolean;
  hostname: string;
  /** Limits of what its calls of language models may cost; `null` is none. */
  budget: {
    max_tokens: number | null;
    max_cost_usd: number | null;
    on_exceed: 'refuse' | 'stop';
  };
  labels: Record<string, string>;
  /** Everybody may look at its previews. */
  public: boolean;
  created_at: string;
  expires_at: string | null;
  network: NetworkState;
  /** Which walls hold. */
  record: {
    tier: 'native' | 'gvisor' | 'microvm';
    /** What runs its programs. */
    kernel: string;
    landlock_abi: number;
    seccomp: string;
    groups: string;
    /** What bounds its writable layer. */
    quota: string;
    /** How one is taken. */
    snapshots: string;
    ids: string;
    network: string;
  };
  /** The sandbox or snapshot whose files it began with; or empty. */
  parent: string;
  storage: 'memory' | 'disk';
  persistent: boolean;
  checkpoint: 'none' | 'each_call';
  volumes: {
    name: string;
    path: string;
    read_only: boolean;
  }[];
  interpreters: Interpreters;
  end_reason: string;
}

export interface VolumeUse {
  name: string;
  /** Absolute, inside. */
  path: string;
  /** False when left out. */
  read_only?: boolean | null | undefined;
}

export interface VolumeRequest {
  /** What it may hold. */
  bytes: number;
}

export interface Volume {
  name: string;
  bytes_max: number;
  /** What is in it, as far as it is counted. */
  bytes: number;
  created_at: string;
  /** That have it now. */
  sandboxes: string[];
}

export interface PullRequest {
  /** A name with a tag or a digest. */
  reference: string;
  /** Such as `linux/arm64`; the server's own when left out. */
  platform?: string | null | undefined;
  /** For this registry and this call only. */
  username?: string | null | undefined;
  /** Of the user, or a token. It is not kept. */
  password?: string | null | undefined;
  /**
   * Ask the registry whether a tag has moved. With false, what is here already will do. True when
   * left out.
   */
  refresh?: boolean | null | undefined;
}

export interface BuildRequest {
  /** What the image is to be called. */
  reference: string;
  /** Id or name. */
  snapshot: string;
  entrypoint?: string[] | null | undefined;
  command?: string[] | null | undefined;
  workdir?: string | null | undefined;
  /** A name or a number, with `:GROUP` or without. */
  user?: string | null | undefined;
  labels?: Record<string, string> | null | undefined;
}

export interface Image {
  /** In full. */
  reference: string;
  /** Of its manifest. */
  digest: string;
  platform: string;
  /** What is in them, by digest; the topmost comes last. */
  layers: string[];
  packed_bytes: number;
  /** Unpacked. */
  bytes: number;
  /** Here. */
  created_at: string;
  source: 'pull' | 'import' | 'build';
  /** What the image says about programs that run on it. */
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

export interface Garbage {
  blobs: number;
  layers: number;
  bytes: number;
}

export interface SnapshotRequest {
  /** Unique among the snapshots of a tenant. */
  name?: string | null | undefined;
  labels?: Record<string, string> | null | undefined;
  /**
   * Its processes and their memory, too, of the same moment as its files; 501 where the tier
   * cannot.
   */
  memory?: boolean | null | undefined;
}

export interface Snapshot {
  id: string;
  name: string;
  /** Whose files they are. */
  sandbox: string;
  /** The snapshot before it on the same files; or empty. */
  parent: string;
  image: string;
  kind: 'stacked' | 'cow' | 'copied';
  /** What holds for files that were being written at that moment. */
  consistency: string;
  /** It outlives a power cut. */
  durable: boolean;
  /** Taken by the server before a call, and dropped by it. */
  checkpoint: boolean;
  /** That it holds by itself, as far as it is known. */
  bytes: number;
  /** Above the image. */
  layers: number;
  created_at: string;
  labels: Record<string, string>;
  /** It has processes, too. A sandbox goes on with them when it is created with `memory`. */
  memory: SnapshotMemory | null;
}

export interface SnapshotMemory {
  /** On the disk. */
  bytes: number;
  /** What must be there to run them. */
  runtime: string;
}

export interface ForkRequest {
  name?: string | null | undefined;
  labels?: Record<string, string> | null | undefined;
  /** Inside. */
  hostname?: string | null | undefined;
  /** Copy processes and their memory, too; 501 where the tier cannot. */
  memory?: boolean | null | undefined;
}

export interface UndoRequest {
  /** Back over the last so many calls; 1 when `snapshot` is left out, too. */
  calls?: number | null | undefined;
  /** Or back to this one */
  snapshot?: string | null | undefined;
  /** What runs is ended first. False when left out. */
  end_processes?: boolean | null | undefined;
}

export interface PromoteRequest {
  /** `gvisor` or `microvm`. */
  tier: string;
  /** What runs is ended first. False when left out. */
  end_processes?: boolean | null | undefined;
}

export interface Undone {
  /** Where it stands now. */
  snapshot: string;
  /** How many were undone. */
  calls: number;
  /** How many can still be undone. */
  left: number;
}

export interface MergeRequest {
  /** A state that began with the same files, such as a fork. */
  from: string;
  /** What runs is ended first. False when left out. */
  end_processes?: boolean | null | undefined;
}

export interface Merged {
  /** What both come from. */
  base: string;
  applied: Change[];
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

export interface Storage {
  /** `btrfs`, `btrfs in a file` or `folder`. */
  kind: string;
  /** `storage: disk` and volumes can be limited, and so are there. */
  limits: boolean;
  /** Files can be kept in a moment while processes run. */
  live_snapshots: boolean;
  bytes: number;
  free_bytes: number;
  /** What is missing for more. */
  why: string;
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
  /** Of language models */
  tokens: number;
  cost_usd: number;
  /** What went out and came in through the gate. */
  network: {
    connections: number;
    open: number;
    allowed: number;
    denied: number;
    bytes_up: number;
    bytes_down: number;
  };
}

export interface Tool {
  name: string;
  description?: string;
  /** A JSON schema. */
  arguments?: Record<string, unknown>;
}

export interface ToolRequest {
  tool: string;
  /** As the tool's schema says. */
  arguments?: Record<string, unknown> | null | undefined;
}

export interface ToolResponse {
  tool: string;
  success: true;
  /**
   * Of `shell_exec`: stdout, stderr, exit_code, timed_out, …; of `file_read`: content; of
   * `file_list`: entries; of `file_edit`: replaced; of `file_search`: matches or files; of
   * `request_access`: allowed.
   */
  result: Record<string, unknown>;
  duration_ms: number;
}

export interface Written {
  path: string;
  size: number;
  etag: string;
}

export interface Removed {
  path: string;
  removed: number;
}

export interface Unpacked {
  path: string;
  bytes: number;
  entries: number;
}

export interface FileEntry {
  /** Absolute, inside. */
  path: string;
  name: string;
  type: 'file' | 'folder' | 'link' | 'fifo' | 'socket' | 'device' | 'other';
  size: number;
  mode: string;
  uid: number;
  gid: number;
  modified_at: string;
  links: number;
  /** Of a link. */
  target?: string;
  /** Of a file. */
  etag?: string;
}

export interface MkdirRequest {
  /** Relative to the workspace, or absolute inside. */
  path: string;
  /** Make what is missing above it; an existing folder is no error then. True when left out. */
  parents?: boolean | null | undefined;
}

export interface MoveRequest {
  /** What. */
  from: string;
  /** Where to, with the new name. */
  to: string;
  /** What is there may be replaced. False when left out. */
  replace?: boolean | null | undefined;
}

export interface ExecRequest {
  /** A line for `/bin/sh -c`. Exactly one of `command` and `argv`. */
  command?: string | null | undefined;
  /** Program and arguments, without a shell. */
  argv?: string[] | null | undefined;
  /** Variables, name to value. */
  env?: Record<string, string> | null | undefined;
  /** Absolute, or relative to the sandbox's own. */
  workdir?: string | null | undefined;
  /** All of standard input. */
  stdin?: string | null | undefined;
  /** How `stdin` is written; text when left out. */
  stdin_encoding?: 'text' | 'base64' | null | undefined;
  /** The command and all it started are killed then. */
  timeout_seconds?: number | null | undefined;
  /** Standard error into standard output, in true order. */
  merge_stderr?: boolean | null | undefined;
  /** Kept of each stream: its head and its tail. 1 MiB when left out. */
  output_bytes_max?: number | null | undefined;
  /** Of stdout and stderr in the answer. As text, bytes that are not UTF-8 become U+FFFD. */
  encoding?: 'text' | 'base64' | null | undefined;
}

export interface ExecResponse {
  /** 128 + N when signal N ended it. */
  exit_code: number;
  signal: number;
  stdout: string;
  stderr: string;
  encoding: 'text' | 'base64';
  /** Between head and tail. */
  stdout_lost_bytes: number;
  stderr_lost_bytes: number;
  timed_out: boolean;
  oom_killed: boolean;
  duration_ms: number;
  cpu_ms: number;
  peak_memory_bytes: number;
}

export interface RunRequest {
  /** A line for `/bin/sh -c`. Exactly one of `command` and `argv`. */
  command?: string | null | undefined;
  /** Program and arguments, without a shell. */
  argv?: string[] | null | undefined;
  /** Variables, name to value. */
  env?: Record<string, string> | null | undefined;
  /** Absolute, or relative to the sandbox's own. */
  workdir?: string | null | undefined;
  /** All of standard input. */
  stdin?: string | null | undefined;
  /** How `stdin` is written; text when left out. */
  stdin_encoding?: 'text' | 'base64' | null | undefined;
  /** The command and all it started are killed then. */
  timeout_seconds?: number | null | undefined;
  /** Standard error into standard output, in true order. */
  merge_stderr?: boolean | null | undefined;
  /** Kept of each stream: its head and its tail. 1 MiB when left out. */
  output_bytes_max?: number | null | undefined;
  /** Of stdout and stderr in the answer. As text, bytes that are not UTF-8 become U+FFFD. */
  encoding?: 'text' | 'base64' | null | undefined;
  /** What the sandbox is to be; as the server's defaults say when left out. */
  sandbox?: CreateRequest | null | undefined;
}

export interface RunResponse {
  /** 128 + N when signal N ended it. */
  exit_code: number;
  signal: number;
  stdout: string;
  stderr: string;
  encoding: 'text' | 'base64';
  /** Between head and tail. */
  stdout_lost_bytes: number;
  stderr_lost_bytes: number;
  timed_out: boolean;
  oom_killed: boolean;
  duration_ms: number;
  cpu_ms: number;
  peak_memory_bytes: number;
  /** Its id, by which the audit knows it. */
  sandbox: string;
}

export interface CodeRequest {
  /** At most 1 MiB. */
  code: string;
  /** Python when left out. In a context it is the context's. */
  language?: 'python' | 'javascript' | null | undefined;
  /** Id of a context. Without it the code runs by itself. */
  context?: string | null | undefined;
  /** Variables, name to value. */
  env?: Record<string, string> | null | undefined;
  /** Absolute, or relative to the sandbox's own. */
  workdir?: string | null | undefined;
  /** All of standard input. */
  stdin?: string | null | undefined;
  /**
   * A run by itself is killed then, with all it started. In a context it is interrupted first, and
   * killed when it goes on.
   */
  timeout_seconds?: number | null | undefined;
  /** Kept of each stream: its head and its tail. 1 MiB when left out. */
  output_bytes_max?: number | null | undefined;
}

export interface CodeResponse {
  /** As of a program that is this code. 128 + N when signal N ended it. */
  exit_code: number;
  /** Of the last expression */
  value: string | null;
  /** What was shown, in order. */
  outputs: CodeOutput[];
  /** Something was too large to be shown. */
  outputs_truncated: boolean;
  error: CodeError | null;
  stdout: string;
  stderr: string;
  /** Between head and tail. */
  stdout_lost_bytes: number;
  stderr_lost_bytes: number;
  timed_out: boolean;
  /** The context is gone with its variables. */
  context_ended: boolean;
  /** Of the whole run, as the server saw it. */
  duration_ms: number;
  /** As the interpreter measured it. */
  run_ms: number;
  /** What the interpreter could not import ahead. */
  warnings: string[];
}

export interface CodeOutput {
  /** It is the value itself. */
  main: boolean;
  /**
   * The same in several forms, by media type. Binary ones are base64, JSON is JSON, others are
   * text.
   */
  data: Record<string, unknown>;
}

export interface CodeError {
  /** Of the exception's class. */
  name: string;
  value: string;
  traceback: string;
}

export interface ContextRequest {
  /** Python when left out. */
  language?: 'python' | 'javascript' | null | undefined;
  /** Modules that are there by their names. One that is missing is a 400. */
  imports?: string[] | null | undefined;
  /** Variables, name to value. */
  env?: Record<string, string> | null | undefined;
  /** Absolute, or relative to the sandbox's own. */
  workdir?: string | null | undefined;
}

export interface ContextInfo {
  id: string;
  language: 'python' | 'javascript';
  /** In which it was opened. */
  workdir: string;
  created_at: string;
  /** Something runs in it. */
  busy: boolean;
  runs: number;
}

export interface Interpreter {
  /** It is started with the sandbox, not by the first call. True when left out. */
  warm?: boolean | null | undefined;
  /**
   * Modules that it has imported before the first run. One that is missing is a warning of each
   * run.
   */
  imports?: string[] | null | undefined;
}

export interface Interpreters {
  python?: Interpreter | null | undefined;
  javascript?: Interpreter | null | undefined;
}

export interface ProcessRequest {
  /** A line for `/bin/sh -c`. Exactly one of `command` and `argv`. */
  command?: string | null | undefined;
  /** Program and arguments, without a shell. */
  argv?: string[] | null | undefined;
  /** Variables, name to value. */
  env?: Record<string, string> | null | undefined;
  /** Absolute, or relative to the sandbox's own. */
  workdir?: string | null | undefined;
  /** The command and all it started are killed then. */
  timeout_seconds?: number | null | undefined;
  /** Standard error into standard output, in true order. */
  merge_stderr?: boolean | null | undefined;
  /** On a terminal of its own; output is standard output only. */
  terminal?: boolean | null | undefined;
  /** Keep standard input open. True when left out. */
  input?: boolean | null | undefined;
  rows?: number | null | undefined;
  cols?: number | null | undefined;
}

export interface ProcessInfo {
  /** By this it is named here. */
  id: number;
  /** Inside. */
  pid: number;
  running: boolean;
  terminal: boolean;
  command: string;
  age_seconds: number;
  stdout: {
    /** Oldest byte still held. */
    begin: number;
    /** One behind the newest. */
    end: number;
  };
  stderr: {
    /** Oldest byte still held. */
    begin: number;
    /** One behind the newest. */
    end: number;
  };
  /** 128 + N when signal N ended it. */
  exit_code: number | null;
  signal: number;
  timed_out: boolean;
  oom_killed: boolean;
}

export interface SignalRequest {
  /** `TERM`, `SIGTERM` or 15. */
  signal: string | number;
  /** To all it started, too. False when left out. */
  tree?: boolean | null | undefined;
}

export interface ResizeRequest {
  rows: number;
  cols: number;
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
  /** Sequence of the last row here: the `after` (or `before`) of the next page. */
  next_after: number;
}

export interface Verdict {
  intact: boolean;
  rows: number;
  head: string;
  bad_row: number | null;
  reason: string;
}

export interface LabelsRequest {
  labels: Record<string, string>;
}

export interface VisibilityRequest {
  public: boolean;
}

export interface PreviewRequest {
  port?: number | null | undefined;
}

export interface Preview {
  port: number | null;
  url: string;
  /** A secret of one use. */
  invitation: string;
  /** Of the invitation. */
  expires_at: string;
}

export interface Ports {
  exposed: number[];
  listening: number[];
}

export interface UserRequest {
  name?: string | null | undefined;
  email?: string | null | undefined;
  login?: string | null | undefined;
  avatar_url?: string | null | undefined;
}

export interface User {
  tenant: string;
  name: string;
  email: string;
  login: string;
  avatar_url: string;
  /** `null`: it has tokens only. */
  created_at: string | null;
  /** That are not withdrawn. */
  tokens: number;
  /** That are there now. */
  sandboxes: number;
}

export interface ImportRequest {
  tenant: string;
  sandboxes?: (Record<string, unknown>)[] | undefined;
  executions?: (Record<string, unknown>)[] | undefined;
}

export interface ImportCount {
  sandboxes: number;
  executions: number;
  /** Those that were there. */
  skipped: number;
}

export interface Server {
  version: string;
  /** Sandboxes are web sites below it; empty: they are not. */
  vhost: string;
  open: boolean;
  profiles: string[];
  default_image: string;
  tiers: ('native' | 'gvisor' | 'microvm')[];
  /** The weakest that a sandbox of the caller may have; its image or profile may want more. */
  minimum_tier: 'native' | 'gvisor' | 'microvm';
  caller: {
    tenant: string;
    /** Its id. */
    token: string;
    scopes: string[];
    name: string;
    email: string;
  };
}

export interface TokenRequest {
  /** Your own when left out. */
  tenant?: string | null | undefined;
  label?: string | null | undefined;
  scopes: ('read' | 'use' | 'create' | 'admin')[];
  expires_seconds?: number | null | undefined;
  max_sandboxes?: number | null | undefined;
  /** A token that another system gave out: it is good here from now on. A new one when left out. */
  taken_over?: string | null | undefined;
}

export interface Token {
  id: string;
  tenant: string;
  label: string;
  scopes: ('read' | 'use' | 'create' | 'admin')[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  /** 0: the limit of the server. */
  max_sandboxes: number;
}

export interface NewToken {
  id: string;
  tenant: string;
  label: string;
  scopes: ('read' | 'use' | 'create' | 'admin')[];
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  /** 0: the limit of the server. */
  max_sandboxes: number;
  /** Shown once, kept nowhere. */
  token: string;
}
