// Generated from api/openapi.yaml by tools/generate.mjs. To change it, change the contract and run
// `npm run generate`.
import type { Bytes } from '../bytes.js';
import type * as models from './models.js';

export type NoInput = Record<string, never>;

/** What each operation takes and answers, by its operationId. */
export interface Operations {
  /** List the living sandboxes of your tenant. */
  listSandboxes: {
    input: NoInput;
    answer: {
      sandboxes: models.SandboxInfo[];
    };
  };
  /** Create a sandbox. */
  createSandbox: {
    input: {
      body?: models.CreateRequest | undefined;
    };
    answer: models.SandboxInfo;
  };
  /** Show one sandbox. */
  getSandbox: {
    input: {
      path: { id: string };
    };
    answer: models.SandboxInfo;
  };
  /** Destroy a sandbox. */
  destroySandbox: {
    input: {
      path: { id: string };
    };
    answer: void;
  };
  /** Change limits of a living sandbox. */
  setLimits: {
    input: {
      path: { id: string };
      body: models.ResourceLimits;
    };
    answer: models.SandboxInfo;
  };
  /** Replace the rules of a living sandbox's network. */
  setNetwork: {
    input: {
      path: { id: string };
      body: models.Network;
    };
    answer: models.SandboxInfo;
  };
  /** What a sandbox has used so far. */
  getUsage: {
    input: {
      path: { id: string };
    };
    answer: models.Usage;
  };
  /** What several sandboxes have used so far. */
  listUsage: {
    input: {
      query: { ids: string };
    };
    answer: {
      usage: Record<string, models.Usage>;
    };
  };
  /** Count what a sandbox used elsewhere. */
  recordUsage: {
    input: {
      path: { id: string };
      body: {
        tokens?: number | null | undefined;
        cost_usd?: number | null | undefined;
      };
    };
    answer: models.Usage;
  };
  /** Freeze every process; memory stays. */
  pauseSandbox: {
    input: {
      path: { id: string };
    };
    answer: models.SandboxInfo;
  };
  /** Let a paused or hibernated sandbox go on. */
  resumeSandbox: {
    input: {
      path: { id: string };
    };
    answer: models.SandboxInfo;
  };
  /** Keep its processes on disk, and nothing of it in memory. */
  hibernateSandbox: {
    input: {
      path: { id: string };
    };
    answer: models.SandboxInfo;
  };
  /** Stop a persistent sandbox. */
  stopSandbox: {
    input: {
      path: { id: string };
    };
    answer: models.SandboxInfo;
  };
  /** Start a stopped sandbox. */
  startSandbox: {
    input: {
      path: { id: string };
    };
    answer: models.SandboxInfo;
  };
  /** List the snapshots of one sandbox. */
  listSandboxSnapshots: {
    input: {
      path: { id: string };
    };
    answer: {
      snapshots: models.Snapshot[];
    };
  };
  /** Keep the files of a sandbox as they are now. */
  createSnapshot: {
    input: {
      path: { id: string };
      body?: models.SnapshotRequest | undefined;
    };
    answer: models.Snapshot;
  };
  /** List the snapshots of your tenant. */
  listSnapshots: {
    input: NoInput;
    answer: {
      snapshots: models.Snapshot[];
    };
  };
  /** Show one snapshot. */
  getSnapshot: {
    input: {
      path: { id: string };
    };
    answer: models.Snapshot;
  };
  /** Remove a snapshot. */
  removeSnapshot: {
    input: {
      path: { id: string };
    };
    answer: void;
  };
  /** A second sandbox on the same files. */
  forkSandbox: {
    input: {
      path: { id: string };
      body?: models.ForkRequest | undefined;
    };
    answer: models.SandboxInfo;
  };
  /** Take the files back to an earlier state. */
  undo: {
    input: {
      path: { id: string };
      body?: models.UndoRequest | undefined;
    };
    answer: models.Undone;
  };
  /** Move a sandbox into a stronger tier. */
  promoteSandbox: {
    input: {
      path: { id: string };
      body: models.PromoteRequest;
    };
    answer: models.SandboxInfo;
  };
  /** What is different between two states of files. */
  diff: {
    input: {
      query: { from: string; to: string; path?: string | undefined; format?: 'list' | 'patch' | undefined };
    };
    answer: models.Diff;
  };
  /** Bring the changes of another state into a sandbox. */
  merge: {
    input: {
      path: { id: string };
      body: models.MergeRequest;
    };
    answer: models.Merged;
  };
  /** List the images of your tenant. */
  listImages: {
    input: NoInput;
    answer: {
      images: models.Image[];
    };
  };
  /** Remove an image. */
  removeImage: {
    input: {
      query: { reference: string };
    };
    answer: void;
  };
  /** Show one image. */
  getImage: {
    input: {
      query: { reference: string };
    };
    answer: models.Image;
  };
  /** Pull an image from a registry. */
  pullImage: {
    input: {
      query?: { stream?: 'sse' | 'true' | undefined };
      body: models.PullRequest;
    };
    answer: models.Image;
  };
  /** Make an image of an archive. */
  importImage: {
    input: {
      query: { reference: string; pick?: string | undefined };
      body: Bytes;
    };
    answer: models.Image;
  };
  /** An image as an archive. */
  exportImage: {
    input: {
      query: { reference: string };
    };
    answer: Response;
  };
  /** Make an image of a snapshot. */
  buildImage: {
    input: {
      body: models.BuildRequest;
    };
    answer: models.Image;
  };
  /** Remove blobs and layers that nobody needs. */
  collectGarbage: {
    input: NoInput;
    answer: models.Garbage;
  };
  /** List the volumes of your tenant. */
  listVolumes: {
    input: NoInput;
    answer: {
      volumes: models.Volume[];
    };
  };
  /** Make a volume, or change how much it may hold. */
  putVolume: {
    input: {
      path: { id: string };
      body: models.VolumeRequest;
    };
    answer: models.Volume;
  };
  /** Remove a volume and all that is in it. */
  removeVolume: {
    input: {
      path: { id: string };
    };
    answer: void;
  };
  /** What the store of files can do on this host. */
  getStorage: {
    input: NoInput;
    answer: models.Storage;
  };
  /** The tools of this server with their argument schemas. */
  listTools: {
    input: NoInput;
    answer: {
      tools: models.Tool[];
    };
  };
  /** Run one tool. */
  executeTool: {
    input: {
      path: { id: string };
      body: models.ToolRequest;
    };
    answer: models.ToolResponse;
  };
  /** The audit log of one sandbox. */
  getSandboxLogs: {
    input: {
      path: { id: string };
      query?: { after?: number | undefined; limit?: number | undefined };
    };
    answer: models.AuditPage;
  };
  /** Download one file. */
  downloadFile: {
    input: {
      path: { id: string; path: string };
      headers?: {
        'If-None-Match'?: string | undefined;
        Range?: string | undefined;
        'If-Range'?: string | undefined;
      };
    };
    answer: Response;
  };
  /** Size and ETag of one file. */
  headFile: {
    input: {
      path: { id: string; path: string };
      headers?: {
        'If-None-Match'?: string | undefined;
        Range?: string | undefined;
        'If-Range'?: string | undefined;
      };
    };
    answer: Response;
  };
  /** Upload one file. */
  uploadFile: {
    input: {
      path: { id: string; path: string };
      query?: { mode?: string | undefined };
      headers?: { 'If-Match'?: string | undefined; 'If-None-Match'?: '*' | undefined };
      body: Bytes;
    };
    answer: models.Written;
  };
  /** Remove a file or a folder. */
  removeFile: {
    input: {
      path: { id: string; path: string };
      query?: { recursive?: boolean | undefined };
    };
    answer: models.Removed;
  };
  /** Facts about one file, folder or link. */
  statFile: {
    input: {
      path: { id: string; path: string };
      query?: { follow?: boolean | undefined };
    };
    answer: models.FileEntry;
  };
  /** What is in a folder. */
  listFiles: {
    input: {
      path: { id: string; path: string };
      query?: { recursive?: boolean | undefined };
    };
    answer: {
      path: string;
      entries: models.FileEntry[];
    };
  };
  /** Make a folder. */
  makeFolder: {
    input: {
      path: { id: string };
      body: models.MkdirRequest;
    };
    answer: {
      path: string;
    };
  };
  /** Move or rename. */
  moveFile: {
    input: {
      path: { id: string };
      body: models.MoveRequest;
    };
    answer: {
      from: string;
      to: string;
    };
  };
  /** Changes below a path, as server-sent events. */
  watchFiles: {
    input: {
      path: { id: string; path: string };
      query?: { recursive?: boolean | undefined };
    };
    answer: Response;
  };
  /** A folder as a tar archive. */
  downloadArchive: {
    input: {
      path: { id: string; path: string };
    };
    answer: Response;
  };
  /** Unpack a tar archive into a folder. */
  uploadArchive: {
    input: {
      path: { id: string; path: string };
      body: Bytes;
    };
    answer: models.Unpacked;
  };
  /** Run one command in a sandbox of its own. */
  run: {
    input: {
      body: models.RunRequest;
    };
    answer: models.RunResponse;
  };
  /** Run a command over a WebSocket. */
  execSocket: {
    input: {
      path: { id: string };
    };
    answer: Response;
  };
  /** Run a command and wait for it. */
  exec: {
    input: {
      path: { id: string };
      query?: { stream?: 'sse' | undefined };
      body: models.ExecRequest;
    };
    answer: models.ExecResponse;
  };
  /** Run code in an interpreter that waits for it. */
  runCode: {
    input: {
      path: { id: string };
      query?: { stream?: 'sse' | undefined };
      body: models.CodeRequest;
    };
    answer: models.CodeResponse;
  };
  /** List the contexts of a sandbox. */
  listContexts: {
    input: {
      path: { id: string };
    };
    answer: {
      contexts: models.ContextInfo[];
    };
  };
  /** Open a context, in which variables stay. */
  createContext: {
    input: {
      path: { id: string };
      body?: models.ContextRequest | undefined;
    };
    answer: models.ContextInfo;
  };
  /** End a context. */
  removeContext: {
    input: {
      path: { id: string; context: string };
    };
    answer: void;
  };
  /** Interrupt what runs in a context. */
  interruptContext: {
    input: {
      path: { id: string; context: string };
    };
    answer: void;
  };
  /** The processes that were started. */
  listProcesses: {
    input: {
      path: { id: string };
    };
    answer: {
      processes: models.ProcessInfo[];
    };
  };
  /** Start a process in the background. */
  startProcess: {
    input: {
      path: { id: string };
      body: models.ProcessRequest;
    };
    answer: models.ProcessInfo;
  };
  /** Show one process. */
  getProcess: {
    input: {
      path: { id: string; pid: number };
    };
    answer: models.ProcessInfo;
  };
  /** Kill a process with its tree and forget its output. */
  removeProcess: {
    input: {
      path: { id: string; pid: number };
    };
    answer: void;
  };
  /** Output of a process, as server-sent events. */
  streamOutput: {
    input: {
      path: { id: string; pid: number };
      query?: { stdout_offset?: number | undefined; stderr_offset?: number | undefined };
    };
    answer: Response;
  };
  /** Write to standard input. */
  writeInput: {
    input: {
      path: { id: string; pid: number };
      query?: { close?: boolean | undefined };
      body?: Bytes | undefined;
    };
    answer: void;
  };
  /** Send a signal. */
  signalProcess: {
    input: {
      path: { id: string; pid: number };
      body: models.SignalRequest;
    };
    answer: void;
  };
  /** Change the size of a terminal. */
  resizeProcess: {
    input: {
      path: { id: string; pid: number };
      body: models.ResizeRequest;
    };
    answer: void;
  };
  /** Wait until a process has ended. */
  waitProcess: {
    input: {
      path: { id: string; pid: number };
      query?: { timeout_seconds?: number | undefined };
    };
    answer: models.ProcessInfo;
  };
  /** A terminal over a WebSocket. */
  openTerminal: {
    input: {
      path: { id: string };
      query?: {
        rows?: number | undefined;
        cols?: number | undefined;
        command?: string | undefined;
        term?: string | undefined;
        process?: number | undefined;
      };
    };
    answer: Response;
  };
  /** Change the labels of a sandbox. */
  setLabels: {
    input: {
      path: { id: string };
      body: models.LabelsRequest;
    };
    answer: models.SandboxInfo;
  };
  /** Who may look at the previews of a sandbox. */
  setVisibility: {
    input: {
      path: { id: string };
      body: models.VisibilityRequest;
    };
    answer: models.SandboxInfo;
  };
  /** The address of a port as a web site of its own. */
  createPreview: {
    input: {
      path: { id: string };
      body?: models.PreviewRequest | undefined;
    };
    answer: models.Preview;
  };
  /** TCP ports of a sandbox. */
  listPorts: {
    input: {
      path: { id: string };
    };
    answer: models.Ports;
  };
  /** GET to a port of the sandbox. */
  proxyGet: {
    input: {
      path: { id: string; port: number; path: string };
    };
    answer: Response;
  };
  /** HEAD to a port of the sandbox. */
  proxyHead: {
    input: {
      path: { id: string; port: number; path: string };
    };
    answer: Response;
  };
  /** POST to a port of the sandbox. */
  proxyPost: {
    input: {
      path: { id: string; port: number; path: string };
      body?: Bytes | undefined;
    };
    answer: Response;
  };
  /** PUT to a port of the sandbox. */
  proxyPut: {
    input: {
      path: { id: string; port: number; path: string };
      body?: Bytes | undefined;
    };
    answer: Response;
  };
  /** PATCH to a port of the sandbox. */
  proxyPatch: {
    input: {
      path: { id: string; port: number; path: string };
      body?: Bytes | undefined;
    };
    answer: Response;
  };
  /** DELETE to a port of the sandbox. */
  proxyDelete: {
    input: {
      path: { id: string; port: number; path: string };
      body?: Bytes | undefined;
    };
    answer: Response;
  };
  /** What happens to the sandboxes of your tenant, as server-sent events. */
  streamEvents: {
    input: {
      query?: { sandbox?: string | undefined; after?: number | undefined };
    };
    answer: Response;
  };
  /** Rows of the audit. */
  queryAudit: {
    input: {
      query?: {
        after?: number | undefined;
        before?: number | undefined;
        limit?: number | undefined;
        sandbox?: string | undefined;
        action?: string | undefined;
        outcome?: 'allowed' | 'denied' | 'failed' | undefined;
        tenant?: string | undefined;
      };
    };
    answer: models.AuditPage;
  };
  /** Check the chain of the audit. */
  verifyAudit: {
    input: NoInput;
    answer: models.Verdict;
  };
  /** List the tokens. */
  listTokens: {
    input: NoInput;
    answer: {
      tokens: models.Token[];
    };
  };
  /** Make a token. */
  createToken: {
    input: {
      body: models.TokenRequest;
    };
    answer: models.NewToken;
  };
  /** Withdraw a token. */
  revokeToken: {
    input: {
      path: { id: string };
    };
    answer: void;
  };
  /** List the tenants. */
  listUsers: {
    input: NoInput;
    answer: {
      users: models.User[];
    };
  };
  /** Say who a tenant is. */
  putUser: {
    input: {
      path: { id: string };
      body: models.UserRequest;
    };
    answer: models.User;
  };
  /** Remove a tenant's entry and withdraw its tokens. */
  removeUser: {
    input: {
      path: { id: string };
    };
    answer: void;
  };
  /** Take over the list of a sandboxer server. */
  importListings: {
    input: {
      body: models.ImportRequest;
    };
    answer: models.ImportCount;
  };
  /** List the names of the secrets. */
  listSecrets: {
    input: NoInput;
    answer: {
      secrets: {
        name: string;
      }[];
    };
  };
  /** Keep a secret. */
  putSecret: {
    input: {
      path: { id: string };
      body: {
        value: string;
      };
    };
    answer: void;
  };
  /** Remove a secret. */
  removeSecret: {
    input: {
      path: { id: string };
    };
    answer: void;
  };
  /** What this server offers, and who is asking. */
  getServer: {
    input: NoInput;
    answer: models.Server;
  };
  /** Does the server live?. */
  getHealth: {
    input: NoInput;
    answer: {
      status: 'ok';
      version: string;
    };
  };
  /** Could a sandbox be created now?. */
  getReadiness: {
    input: NoInput;
    answer: {
      status: 'ready';
    };
  };
  /** Metrics in the text format of Prometheus. */
  getMetrics: {
    input: NoInput;
    answer: string;
  };
  /** This document. */
  getOpenapi: {
    input: NoInput;
    answer: Record<string, unknown>;
  };
  /** This document as a page. */
  getDocs: {
    input: NoInput;
    answer: string;
  };
}

export type OperationId = keyof Operations;

export interface OperationSpec {
  readonly method: string;
  readonly path: string;
  /** Of the body. */
  readonly sends: 'nothing' | 'json' | 'bytes';
  readonly answers: 'nothing' | 'json' | 'text' | 'bytes' | 'events' | 'socket' | 'raw';
  /** What a token must have for it. */
  readonly scope: 'none' | 'read' | 'use' | 'create' | 'admin';
  /** It takes an idempotency key, so that it can be sent again. */
  readonly keyed: boolean;
}

export const operations = {
  listSandboxes: {
    method: 'GET',
    path: '/api/v1/sandboxes',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  createSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: true,
  },
  getSandbox: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  destroySandbox: {
    method: 'DELETE',
    path: '/api/v1/sandboxes/{id}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'create',
    keyed: false,
  },
  setLimits: {
    method: 'PATCH',
    path: '/api/v1/sandboxes/{id}/limits',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: false,
  },
  setNetwork: {
    method: 'PUT',
    path: '/api/v1/sandboxes/{id}/network',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: false,
  },
  getUsage: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/usage',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  listUsage: {
    method: 'GET',
    path: '/api/v1/usage',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  recordUsage: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/usage/record',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  pauseSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/pause',
    sends: 'nothing',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  resumeSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/resume',
    sends: 'nothing',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  hibernateSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/hibernate',
    sends: 'nothing',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  stopSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/stop',
    sends: 'nothing',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  startSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/start',
    sends: 'nothing',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  listSandboxSnapshots: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/snapshots',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  createSnapshot: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/snapshots',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  listSnapshots: {
    method: 'GET',
    path: '/api/v1/snapshots',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  getSnapshot: {
    method: 'GET',
    path: '/api/v1/snapshots/{id}',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  removeSnapshot: {
    method: 'DELETE',
    path: '/api/v1/snapshots/{id}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'use',
    keyed: false,
  },
  forkSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/fork',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: true,
  },
  undo: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/undo',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  promoteSandbox: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/promote',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  diff: {
    method: 'GET',
    path: '/api/v1/diff',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  merge: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/merge',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  listImages: {
    method: 'GET',
    path: '/api/v1/images',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  removeImage: {
    method: 'DELETE',
    path: '/api/v1/images',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'create',
    keyed: false,
  },
  getImage: {
    method: 'GET',
    path: '/api/v1/images/inspect',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  pullImage: {
    method: 'POST',
    path: '/api/v1/images/pull',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: false,
  },
  importImage: {
    method: 'POST',
    path: '/api/v1/images/import',
    sends: 'bytes',
    answers: 'json',
    scope: 'create',
    keyed: false,
  },
  exportImage: {
    method: 'GET',
    path: '/api/v1/images/export',
    sends: 'nothing',
    answers: 'bytes',
    scope: 'read',
    keyed: false,
  },
  buildImage: {
    method: 'POST',
    path: '/api/v1/images/build',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: true,
  },
  collectGarbage: {
    method: 'POST',
    path: '/api/v1/images/gc',
    sends: 'nothing',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  listVolumes: {
    method: 'GET',
    path: '/api/v1/volumes',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  putVolume: {
    method: 'PUT',
    path: '/api/v1/volumes/{id}',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: false,
  },
  removeVolume: {
    method: 'DELETE',
    path: '/api/v1/volumes/{id}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'create',
    keyed: false,
  },
  getStorage: {
    method: 'GET',
    path: '/api/v1/storage',
    sends: 'nothing',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  listTools: {
    method: 'GET',
    path: '/api/v1/tools',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  executeTool: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/tools/execute',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  getSandboxLogs: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/logs',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  downloadFile: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/files/{path}',
    sends: 'nothing',
    answers: 'bytes',
    scope: 'read',
    keyed: false,
  },
  headFile: {
    method: 'HEAD',
    path: '/api/v1/sandboxes/{id}/files/{path}',
    sends: 'nothing',
    answers: 'raw',
    scope: 'read',
    keyed: false,
  },
  uploadFile: {
    method: 'PUT',
    path: '/api/v1/sandboxes/{id}/files/{path}',
    sends: 'bytes',
    answers: 'json',
    scope: 'use',
    keyed: false,
  },
  removeFile: {
    method: 'DELETE',
    path: '/api/v1/sandboxes/{id}/files/{path}',
    sends: 'nothing',
    answers: 'json',
    scope: 'use',
    keyed: false,
  },
  statFile: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/stat/{path}',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  listFiles: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/list/{path}',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  makeFolder: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/mkdir',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  moveFile: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/move',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  watchFiles: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/watch/{path}',
    sends: 'nothing',
    answers: 'events',
    scope: 'read',
    keyed: false,
  },
  downloadArchive: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/archive/{path}',
    sends: 'nothing',
    answers: 'bytes',
    scope: 'read',
    keyed: false,
  },
  uploadArchive: {
    method: 'PUT',
    path: '/api/v1/sandboxes/{id}/archive/{path}',
    sends: 'bytes',
    answers: 'json',
    scope: 'use',
    keyed: false,
  },
  run: {
    method: 'POST',
    path: '/api/v1/run',
    sends: 'json',
    answers: 'json',
    scope: 'create',
    keyed: true,
  },
  execSocket: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/exec',
    sends: 'nothing',
    answers: 'socket',
    scope: 'use',
    keyed: false,
  },
  exec: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/exec',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  runCode: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/code',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  listContexts: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/contexts',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  createContext: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/contexts',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  removeContext: {
    method: 'DELETE',
    path: '/api/v1/sandboxes/{id}/contexts/{context}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'use',
    keyed: false,
  },
  interruptContext: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/contexts/{context}/interrupt',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'use',
    keyed: false,
  },
  listProcesses: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/processes',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  startProcess: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/processes',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: true,
  },
  getProcess: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/processes/{pid}',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  removeProcess: {
    method: 'DELETE',
    path: '/api/v1/sandboxes/{id}/processes/{pid}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'use',
    keyed: false,
  },
  streamOutput: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/processes/{pid}/output',
    sends: 'nothing',
    answers: 'events',
    scope: 'read',
    keyed: false,
  },
  writeInput: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/processes/{pid}/input',
    sends: 'bytes',
    answers: 'nothing',
    scope: 'use',
    keyed: false,
  },
  signalProcess: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/processes/{pid}/signal',
    sends: 'json',
    answers: 'nothing',
    scope: 'use',
    keyed: true,
  },
  resizeProcess: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/processes/{pid}/resize',
    sends: 'json',
    answers: 'nothing',
    scope: 'use',
    keyed: false,
  },
  waitProcess: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/processes/{pid}/wait',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  openTerminal: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/terminal',
    sends: 'nothing',
    answers: 'socket',
    scope: 'use',
    keyed: false,
  },
  setLabels: {
    method: 'PUT',
    path: '/api/v1/sandboxes/{id}/labels',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: false,
  },
  setVisibility: {
    method: 'PUT',
    path: '/api/v1/sandboxes/{id}/visibility',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: false,
  },
  createPreview: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/previews',
    sends: 'json',
    answers: 'json',
    scope: 'use',
    keyed: false,
  },
  listPorts: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/ports',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  proxyGet: {
    method: 'GET',
    path: '/api/v1/sandboxes/{id}/ports/{port}/{path}',
    sends: 'nothing',
    answers: 'raw',
    scope: 'use',
    keyed: false,
  },
  proxyHead: {
    method: 'HEAD',
    path: '/api/v1/sandboxes/{id}/ports/{port}/{path}',
    sends: 'nothing',
    answers: 'raw',
    scope: 'use',
    keyed: false,
  },
  proxyPost: {
    method: 'POST',
    path: '/api/v1/sandboxes/{id}/ports/{port}/{path}',
    sends: 'bytes',
    answers: 'raw',
    scope: 'use',
    keyed: false,
  },
  proxyPut: {
    method: 'PUT',
    path: '/api/v1/sandboxes/{id}/ports/{port}/{path}',
    sends: 'bytes',
    answers: 'raw',
    scope: 'use',
    keyed: false,
  },
  proxyPatch: {
    method: 'PATCH',
    path: '/api/v1/sandboxes/{id}/ports/{port}/{path}',
    sends: 'bytes',
    answers: 'raw',
    scope: 'use',
    keyed: false,
  },
  proxyDelete: {
    method: 'DELETE',
    path: '/api/v1/sandboxes/{id}/ports/{port}/{path}',
    sends: 'bytes',
    answers: 'raw',
    scope: 'use',
    keyed: false,
  },
  streamEvents: {
    method: 'GET',
    path: '/api/v1/events',
    sends: 'nothing',
    answers: 'events',
    scope: 'read',
    keyed: false,
  },
  queryAudit: {
    method: 'GET',
    path: '/api/v1/audit',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  verifyAudit: {
    method: 'GET',
    path: '/api/v1/audit/verify',
    sends: 'nothing',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  listTokens: {
    method: 'GET',
    path: '/api/v1/tokens',
    sends: 'nothing',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  createToken: {
    method: 'POST',
    path: '/api/v1/tokens',
    sends: 'json',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  revokeToken: {
    method: 'DELETE',
    path: '/api/v1/tokens/{id}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'admin',
    keyed: false,
  },
  listUsers: {
    method: 'GET',
    path: '/api/v1/users',
    sends: 'nothing',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  putUser: {
    method: 'PUT',
    path: '/api/v1/users/{id}',
    sends: 'json',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  removeUser: {
    method: 'DELETE',
    path: '/api/v1/users/{id}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'admin',
    keyed: false,
  },
  importListings: {
    method: 'POST',
    path: '/api/v1/sandboxer/import',
    sends: 'json',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  listSecrets: {
    method: 'GET',
    path: '/api/v1/secrets',
    sends: 'nothing',
    answers: 'json',
    scope: 'admin',
    keyed: false,
  },
  putSecret: {
    method: 'PUT',
    path: '/api/v1/secrets/{id}',
    sends: 'json',
    answers: 'nothing',
    scope: 'admin',
    keyed: false,
  },
  removeSecret: {
    method: 'DELETE',
    path: '/api/v1/secrets/{id}',
    sends: 'nothing',
    answers: 'nothing',
    scope: 'admin',
    keyed: false,
  },
  getServer: {
    method: 'GET',
    path: '/api/v1/server',
    sends: 'nothing',
    answers: 'json',
    scope: 'read',
    keyed: false,
  },
  getHealth: {
    method: 'GET',
    path: '/healthz',
    sends: 'nothing',
    answers: 'json',
    scope: 'none',
    keyed: false,
  },
  getReadiness: {
    method: 'GET',
    path: '/readyz',
    sends: 'nothing',
    answers: 'json',
    scope: 'none',
    keyed: false,
  },
  getMetrics: {
    method: 'GET',
    path: '/metrics',
    sends: 'nothing',
    answers: 'text',
    scope: 'admin',
    keyed: false,
  },
  getOpenapi: {
    method: 'GET',
    path: '/openapi.json',
    sends: 'nothing',
    answers: 'json',
    scope: 'none',
    keyed: false,
  },
  getDocs: {
    method: 'GET',
    path: '/docs',
    sends: 'nothing',
    answers: 'text',
    scope: 'none',
    keyed: false,
  },
} as const satisfies Record<OperationId, OperationSpec>;
