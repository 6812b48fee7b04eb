// The way in: `new Client()`. Start at `client.sandboxes`.
import { Audit, Secrets, Tokens, Users } from './admin.js';
import type { RunRequest, RunResponse, Server, Tool } from './contract/models.js';
import type { Operations } from './contract/operations.js';
import { ConnectionLostError } from './errors.js';
import { resumedEvents } from './events.js';
import { slackMs } from './limits.js';
import { Sandboxes } from './sandboxes.js';
import { type CallOptions, type ClientOptions, settingsOf } from './settings.js';
import { Images, Snapshots, Volumes } from './store.js';
import { Transport } from './transport.js';

/** Something happened to a sandbox. */
export interface ServerEvent {
  /** Counts within the life of a server. */
  readonly sequence: number;
  readonly time: string;
  /** Such as `sandbox.created`. */
  readonly type: string;
  readonly sandbox: string;
  readonly data: Readonly<Record<string, unknown>>;
}

type EventQuery = NonNullable<Operations['streamEvents']['input']['query']>;

export class Client {
  readonly sandboxes: Sandboxes;
  readonly snapshots: Snapshots;
  readonly images: Images;
  readonly volumes: Volumes;
  readonly audit: Audit;
  readonly tokens: Tokens;
  readonly users: Users;
  readonly secrets: Secrets;
  private readonly transport: Transport;

  constructor(options: ClientOptions = {}) {
    this.transport = new Transport(settingsOf(options));
    this.sandboxes = new Sandboxes(this.transport);
    this.snapshots = new Snapshots(this.transport);
    this.images = new Images(this.transport);
    this.volumes = new Volumes(this.transport);
    this.audit = new Audit(this.transport);
    this.tokens = new Tokens(this.transport);
    this.users = new Users(this.transport);
    this.secrets = new Secrets(this.transport);
  }

  /** Which server this is a client of. */
  get url(): string {
    return this.transport.settings.url;
  }

  /** One command in a sandbox that is made for it and gone with it, by one call. */
  async run(request: RunRequest | string, options: CallOptions = {}): Promise<RunResponse> {
    const body = typeof request === 'string' ? { command: request } : request;
    const seconds = body.timeout_seconds ?? undefined;
    const own = seconds === undefined ? this.transport.settings.longTimeoutMs : seconds * 1000 + slackMs;
    return this.transport.call('run', { body }, { ...options, timeoutMs: options.timeoutMs ?? own });
  }

  /** What the server offers, and who is asking. */
  async server(options: CallOptions = {}): Promise<Server> {
    return this.transport.call('getServer', {}, options);
  }

  /** The tools that sandboxes can have. */
  async tools(options: CallOptions = {}): Promise<Tool[]> {
    return (await this.transport.call('listTools', {}, options)).tools;
  }

  /**
   * What happens to the sandboxes of your tenant, as it happens, for ever: leave the loop to stop. A broken
   * connection is made again without a gap; a server that was restarted counts anew, and that is an error, because
   * nobody knows what happened between.
   */
  async *events(
    query: EventQuery = {},
    options: CallOptions = {},
  ): AsyncGenerator<ServerEvent, void, undefined> {
    let last = 0;
    for await (const { data } of resumedEvents(
      this.transport,
      'streamEvents',
      { query },
      options,
      () => false,
    )) {
      const event = JSON.parse(data) as ServerEvent;
      if (event.sequence <= last) {
        throw new ConnectionLostError('the server was restarted: events between may be missing', true);
      }
      last = event.sequence;
      yield event;
    }
  }

  /** Whether it answers at all, and its version. */
  async health(options: CallOptions = {}): Promise<Operations['getHealth']['answer']> {
    return this.transport.call('getHealth', {}, options);
  }

  /** Resolves when a sandbox could be created now; rejects when not. */
  async ready(options: CallOptions = {}): Promise<void> {
    await this.transport.call('getReadiness', {}, options);
  }

  /** In Prometheus' text form. */
  async metrics(options: CallOptions = {}): Promise<string> {
    return this.transport.call('getMetrics', {}, options);
  }

  /** The contract, as the server has it. */
  async openapi(options: CallOptions = {}): Promise<Record<string, unknown>> {
    return this.transport.call('getOpenapi', {}, options);
  }

  /** The same as a page. */
  async docs(options: CallOptions = {}): Promise<string> {
    return this.transport.call('getDocs', {}, options);
  }
}
