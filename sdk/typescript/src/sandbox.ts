// One sandbox. `await using sandbox = await client.sandboxes.create()` destroys it at the end of the block.
import './dispose.js';
import { AttachedCommand, Terminal, type TerminalRequest } from './attached.js';
import { Contexts, runCode, streamCode } from './contexts.js';
import type * as models from './contract/models.js';
import type { Operations } from './contract/operations.js';
import { GoneError, NotFoundError } from './errors.js';
import { openEvents, withHangUp } from './events.js';
import { Files } from './files.js';
import { slackMs } from './limits.js';
import { type CodeStream, OutputStream } from './output.js';
import { Ports } from './ports.js';
import { Processes } from './processes.js';
import type { CallOptions } from './settings.js';
import type { Transport } from './transport.js';

type UsageRecord = Operations['recordUsage']['input']['body'];
type LogQuery = NonNullable<Operations['getSandboxLogs']['input']['query']>;

export class Sandbox {
  readonly files: Files;
  readonly processes: Processes;
  readonly ports: Ports;
  readonly contexts: Contexts;
  private seen: models.SandboxInfo | undefined;

  constructor(
    private readonly transport: Transport,
    readonly id: string,
    info?: models.SandboxInfo,
  ) {
    this.seen = info;
    this.files = new Files(transport, id);
    this.processes = new Processes(transport, id);
    this.ports = new Ports(transport, id);
    this.contexts = new Contexts(transport, id);
  }

  /** As it was last seen; undefined when it was only named. */
  get info(): models.SandboxInfo | undefined {
    return this.seen;
  }

  /** Looks again. */
  async refresh(options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('getSandbox', this.input, options));
  }

  /** Kills every process in it and removes everything it wrote. */
  async destroy(options: CallOptions = {}): Promise<void> {
    await this.transport.call('destroySandbox', this.input, options);
  }

  /** At the end of an `await using` block. That it has ended by itself is no error there. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy().catch((error: unknown) => {
      if (!(error instanceof NotFoundError || error instanceof GoneError)) throw error;
    });
  }

  // --- commands

  /** Runs a command to its end and collects its output. An exit code other than 0 is a result, not an error. */
  async exec(request: models.ExecRequest | string, options: CallOptions = {}): Promise<models.ExecResponse> {
    const body = typeof request === 'string' ? { command: request } : request;
    return this.transport.call('exec', { ...this.input, body }, this.forCommand(body, options));
  }

  /** Runs a command; its output comes while it runs. Who stops reading kills it. */
  async execStream(request: models.ExecRequest | string, options: CallOptions = {}): Promise<OutputStream> {
    const body = typeof request === 'string' ? { command: request } : request;
    const { hangUp, options: inner } = withHangUp(options);
    const input = { ...this.input, query: { stream: 'sse' as const }, body };
    return new OutputStream(await openEvents(this.transport, 'exec', input, inner), hangUp);
  }

  /** Runs code by itself, in an interpreter that waits for it. To keep variables, use `contexts`. */
  async runCode(
    request: models.CodeRequest | string,
    options: CallOptions = {},
  ): Promise<models.CodeResponse> {
    const body = typeof request === 'string' ? { code: request } : request;
    return runCode(this.transport, this.id, body, options);
  }

  /** The output comes while it runs. Who stops reading ends the run. */
  async runCodeStream(
    request: models.CodeRequest | string,
    options: CallOptions = {},
  ): Promise<CodeStream> {
    const body = typeof request === 'string' ? { code: request } : request;
    return streamCode(this.transport, this.id, body, options);
  }

  /** Runs a command whose input is written while it runs. It dies with the connection. */
  async attach(request: models.ExecRequest | string, options: CallOptions = {}): Promise<AttachedCommand> {
    const body = typeof request === 'string' ? { command: request } : request;
    return AttachedCommand.open(this.transport, this.id, body, options);
  }

  /** A terminal with a login shell, or with a command; `process` takes up one that was opened before. */
  async terminal(request: TerminalRequest = {}, options: CallOptions = {}): Promise<Terminal> {
    return Terminal.open(this.transport, this.id, request, options);
  }

  /** One call of a tool. */
  async tool(
    tool: string,
    args: Record<string, unknown> = {},
    options: CallOptions = {},
  ): Promise<models.ToolResponse> {
    const input = { ...this.input, body: { tool, arguments: args } };
    return this.transport.call('executeTool', input, this.forCommand({}, options));
  }

  // --- its life

  /** Freezes every process; memory stays. */
  async pause(options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('pauseSandbox', this.input, options));
  }

  async resume(options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('resumeSandbox', this.input, options));
  }

  /** Keeps its processes on disk and frees its memory. Whatever uses it wakes it. */
  async hibernate(options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('hibernateSandbox', this.input, options));
  }

  /** Ends the processes of a persistent sandbox; its files stay. */
  async stop(options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('stopSandbox', this.input, options));
  }

  async start(options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('startSandbox', this.input, options));
  }

  /** What is not named stays. */
  async setLimits(limits: models.ResourceLimits, options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('setLimits', { ...this.input, body: limits }, options));
  }

  /** All rules at once; an empty object takes the network away. */
  async setNetwork(network: models.Network, options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('setNetwork', { ...this.input, body: network }, options));
  }

  async setLabels(labels: Record<string, string>, options: CallOptions = {}): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('setLabels', { ...this.input, body: { labels } }, options));
  }

  /** Whether everybody may look at its previews. */
  async setPublic(isPublic: boolean, options: CallOptions = {}): Promise<models.SandboxInfo> {
    const input = { ...this.input, body: { public: isPublic } };
    return this.keep(await this.transport.call('setVisibility', input, options));
  }

  async usage(options: CallOptions = {}): Promise<models.Usage> {
    return this.transport.call('getUsage', this.input, options);
  }

  /** Counts what it used elsewhere, into the same budget as its calls of language models. */
  async recordUsage(used: UsageRecord, options: CallOptions = {}): Promise<models.Usage> {
    return this.transport.call('recordUsage', { ...this.input, body: used }, options);
  }

  /** Rows of the audit about it. */
  async logs(query: LogQuery = {}, options: CallOptions = {}): Promise<models.AuditPage> {
    return this.transport.call('getSandboxLogs', { ...this.input, query }, options);
  }

  // --- its files through time

  async snapshot(request: models.SnapshotRequest = {}, options: CallOptions = {}): Promise<models.Snapshot> {
    return this.transport.call('createSnapshot', { ...this.input, body: request }, options);
  }

  async snapshots(options: CallOptions = {}): Promise<models.Snapshot[]> {
    return (await this.transport.call('listSandboxSnapshots', this.input, options)).snapshots;
  }

  /** A second sandbox on the same files. */
  async fork(request: models.ForkRequest = {}, options: CallOptions = {}): Promise<Sandbox> {
    const info = await this.transport.call('forkSandbox', { ...this.input, body: request }, options);
    return new Sandbox(this.transport, info.id, info);
  }

  /** Takes its files back: over the last calls, or to a snapshot. */
  async undo(request: models.UndoRequest = {}, options: CallOptions = {}): Promise<models.Undone> {
    return this.transport.call('undo', { ...this.input, body: request }, options);
  }

  /** Moves it into a stronger tier, with its files; its processes end. */
  async promote(
    tier: string,
    more: Omit<models.PromoteRequest, 'tier'> = {},
    options: CallOptions = {},
  ): Promise<models.SandboxInfo> {
    return this.keep(await this.transport.call('promoteSandbox', { ...this.input, body: { ...more, tier } }, options));
  }

  /** Brings in what was changed elsewhere, such as in a fork. */
  async merge(
    from: Sandbox | string,
    more: Omit<models.MergeRequest, 'from'> = {},
    options: CallOptions = {},
  ): Promise<models.Merged> {
    const state = typeof from === 'string' ? from : `sandbox:${from.id}`;
    return this.transport.call('merge', { ...this.input, body: { from: state, ...more } }, options);
  }

  private get input(): { path: { id: string } } {
    return { path: { id: this.id } };
  }

  private keep(info: models.SandboxInfo): models.SandboxInfo {
    this.seen = info;
    return info;
  }

  // The server ends a command in time; the client waits a little longer, so that it hears how.
  private forCommand(
    request: { timeout_seconds?: number | null | undefined },
    options: CallOptions,
  ): CallOptions {
    const seconds = request.timeout_seconds ?? undefined;
    const own = seconds === undefined ? this.transport.settings.longTimeoutMs : seconds * 1000 + slackMs;
    return { ...options, timeoutMs: options.timeoutMs ?? own };
  }
}
