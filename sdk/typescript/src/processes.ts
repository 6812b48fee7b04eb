// Processes in the background of one sandbox. Their output is kept, and can be read at any offset, again and again.
import type { Bytes } from './bytes.js';
import type { ProcessInfo, ProcessRequest, SignalRequest } from './contract/models.js';
import type { Operations } from './contract/operations.js';
import { resumedEvents, withHangUp } from './events.js';
import { slackMs } from './limits.js';
import { OutputStream } from './output.js';
import type { CallOptions } from './settings.js';
import type { Transport } from './transport.js';

type Offsets = NonNullable<Operations['streamOutput']['input']['query']>;

const waitSeconds = 3600; // the longest that the server waits in one call

export class Process {
  constructor(
    private readonly transport: Transport,
    private readonly sandbox: string,
    /** As it was last seen. */
    public info: ProcessInfo,
  ) {}

  get id(): number {
    return this.info.id;
  }

  /** Looks again. */
  async refresh(options: CallOptions = {}): Promise<ProcessInfo> {
    this.info = await this.transport.call('getProcess', { path: this.path }, options);
    return this.info;
  }

  /** From the first byte that is held, or from the offsets on; a broken connection is made again without a gap. */
  output(from: Offsets = {}, options: CallOptions = {}): OutputStream {
    const { hangUp, options: inner } = withHangUp(options);
    const input = { path: this.path, query: from };
    const isLast = ({ name }: { name: string }) => name === 'exit';
    return new OutputStream(resumedEvents(this.transport, 'streamOutput', input, inner, isLast), hangUp);
  }

  /** To its standard input; resolves when all of it is taken. */
  async write(
    data: Bytes,
    more: { readonly close?: boolean } = {},
    options: CallOptions = {},
  ): Promise<void> {
    await this.transport.call(
      'writeInput',
      { path: this.path, query: { close: more.close }, body: data },
      options,
    );
  }

  async closeInput(options: CallOptions = {}): Promise<void> {
    await this.transport.call('writeInput', { path: this.path, query: { close: true }, body: '' }, options);
  }

  /** `TERM`, `SIGTERM` or 15; with `tree`, to all that it started. */
  async signal(signal: SignalRequest['signal'], tree = false, options: CallOptions = {}): Promise<void> {
    await this.transport.call('signalProcess', { path: this.path, body: { signal, tree } }, options);
  }

  async resize(rows: number, cols: number, options: CallOptions = {}): Promise<void> {
    await this.transport.call('resizeProcess', { path: this.path, body: { rows, cols } }, options);
  }

  /** Until it has ended, or for `seconds`: then `running` is still true. */
  async wait(seconds?: number, options: CallOptions = {}): Promise<ProcessInfo> {
    do {
      const timeout_seconds = seconds ?? waitSeconds;
      const timeoutMs = options.timeoutMs ?? timeout_seconds * 1000 + slackMs;
      const input = { path: this.path, query: { timeout_seconds } };
      this.info = await this.transport.call('waitProcess', input, { ...options, timeoutMs });
    } while (this.info.running && seconds === undefined);
    return this.info;
  }

  /** Kills it with its tree, and forgets its output. */
  async remove(options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeProcess', { path: this.path }, options);
  }

  private get path(): { id: string; pid: number } {
    return { id: this.sandbox, pid: this.info.id };
  }
}

export class Processes {
  constructor(
    private readonly transport: Transport,
    private readonly sandbox: string,
  ) {}

  async start(request: ProcessRequest, options: CallOptions = {}): Promise<Process> {
    const input = { path: { id: this.sandbox }, body: request };
    return this.handle(await this.transport.call('startProcess', input, options));
  }

  async list(options: CallOptions = {}): Promise<Process[]> {
    const { processes } = await this.transport.call('listProcesses', { path: { id: this.sandbox } }, options);
    return processes.map((info) => this.handle(info));
  }

  async get(id: number, options: CallOptions = {}): Promise<Process> {
    return this.handle(
      await this.transport.call('getProcess', { path: { id: this.sandbox, pid: id } }, options),
    );
  }

  private handle(info: ProcessInfo): Process {
    return new Process(this.transport, this.sandbox, info);
  }
}
