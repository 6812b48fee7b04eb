// Contexts of one sandbox: code runs among variables that stay. `await using` ends one with its block.
import './dispose.js';
import type { CodeRequest, CodeResponse, ContextInfo, ContextRequest } from './contract/models.js';
import { GoneError, NotFoundError } from './errors.js';
import { openEvents, withHangUp } from './events.js';
import { slackMs } from './limits.js';
import { CodeStream } from './output.js';
import type { CallOptions } from './settings.js';
import type { Transport } from './transport.js';

/** Runs code by itself, or in the context that it names. */
export async function runCode(
  transport: Transport,
  sandbox: string,
  body: CodeRequest,
  options: CallOptions,
): Promise<CodeResponse> {
  const seconds = body.timeout_seconds ?? undefined;
  // The server ends it in time; the client waits a little longer, so that it hears how.
  const own = seconds === undefined ? transport.settings.longTimeoutMs : seconds * 1000 + slackMs;
  const timeoutMs = options.timeoutMs ?? own;
  return transport.call('runCode', { path: { id: sandbox }, body }, { ...options, timeoutMs });
}

export async function streamCode(
  transport: Transport,
  sandbox: string,
  body: CodeRequest,
  options: CallOptions,
): Promise<CodeStream> {
  const { hangUp, options: inner } = withHangUp(options);
  const input = { path: { id: sandbox }, query: { stream: 'sse' as const }, body };
  return new CodeStream(await openEvents(transport, 'runCode', input, inner), hangUp);
}

type InContext = Omit<CodeRequest, 'context' | 'language' | 'env' | 'workdir'>;

export class Context {
  constructor(
    private readonly transport: Transport,
    private readonly sandbox: string,
    /** As it was last seen. */
    public readonly info: ContextInfo,
  ) {}

  get id(): string {
    return this.info.id;
  }

  /** Over its time the code is interrupted; its variables stay when it obeys. */
  async run(request: InContext | string, options: CallOptions = {}): Promise<CodeResponse> {
    return runCode(this.transport, this.sandbox, this.body(request), options);
  }

  /** The output comes while it runs. Who stops reading interrupts it. */
  async runStream(request: InContext | string, options: CallOptions = {}): Promise<CodeStream> {
    return streamCode(this.transport, this.sandbox, this.body(request), options);
  }

  /** As by Ctrl-C. */
  async interrupt(options: CallOptions = {}): Promise<void> {
    await this.transport.call('interruptContext', { path: this.path }, options);
  }

  /** Ends it, with what runs in it. */
  async remove(options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeContext', { path: this.path }, options);
  }

  /** At the end of an `await using` block. That it has ended by itself is no error there. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove().catch((error: unknown) => {
      if (!(error instanceof NotFoundError || error instanceof GoneError)) throw error;
    });
  }

  private body(request: InContext | string): CodeRequest {
    const said = typeof request === 'string' ? { code: request } : request;
    return { ...said, context: this.info.id, language: this.info.language };
  }

  private get path(): { id: string; context: string } {
    return { id: this.sandbox, context: this.info.id };
  }
}

export class Contexts {
  constructor(
    private readonly transport: Transport,
    private readonly sandbox: string,
  ) {}

  async create(request: ContextRequest = {}, options: CallOptions = {}): Promise<Context> {
    const input = { path: { id: this.sandbox }, body: request };
    return this.handle(await this.transport.call('createContext', input, options));
  }

  async list(options: CallOptions = {}): Promise<Context[]> {
    const { contexts } = await this.transport.call('listContexts', { path: { id: this.sandbox } }, options);
    return contexts.map((info) => this.handle(info));
  }

  private handle(info: ContextInfo): Context {
    return new Context(this.transport, this.sandbox, info);
  }
}
