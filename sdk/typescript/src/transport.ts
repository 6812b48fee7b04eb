// One way to call the server, for every operation of the contract: the address, the body, the deadline, the retries,
// and the error that a refusal stands for. Never here: what an operation means; that is for the objects above.
import { fillPath, queryText } from './address.js';
import { type Bytes, collect } from './bytes.js';
import { type OperationId, type Operations, type OperationSpec, operations } from './contract/operations.js';
import { Deadline, pause } from './deadline.js';
import { AnswerError, CaissonError, ConnectionLostError, errorOf, NotFoundError } from './errors.js';
import { answerBytesMax, errorBytesMax } from './limits.js';
import { type Attempt, pauseBeforeRetry } from './retry.js';
import type { CallOptions, Settings } from './settings.js';

type Of<Kind extends OperationSpec['answers']> = {
  [Id in OperationId]: (typeof operations)[Id]['answers'] extends Kind ? Id : never;
}[OperationId];

/** Operations whose answer is a value. */
export type ValueId = Of<'json' | 'text' | 'nothing'>;
/** Operations with a head, and a body that may be read as it comes. */
export type StreamId = Exclude<OperationId, Of<'socket'>>;
export type SocketId = Of<'socket'>;

export interface OpenOptions extends CallOptions {
  readonly accept?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Statuses that are no failure for this caller. */
  readonly also?: readonly number[] | undefined;
  readonly redirect?: RequestRedirect | undefined;
}

/** An answer whose body has not been read yet. Whoever opens it cuts or closes its deadline. */
export interface Opened {
  readonly response: Response;
  readonly deadline: Deadline;
}

// One shape for the inputs of all operations, once the types have done their work.
interface AnyInput {
  readonly path?: Readonly<Record<string, string | number>>;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
}

interface Prepared {
  readonly id: OperationId;
  readonly spec: OperationSpec;
  readonly path: string;
  readonly init: RequestInit & { duplex?: 'half' };
  readonly retries: number;
  readonly replayable: boolean;
  readonly conditional: boolean;
  readonly keyed: boolean;
  readonly also: readonly number[];
}

// Failures to connect, in the words of Node.js. A browser does not tell, so there it may have been sent.
const neverSent = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

const runsCommand = new Set<OperationId>(['exec', 'executeTool']);

function wasSent(error: unknown): boolean {
  const cause = (error as { cause?: { code?: unknown } } | null)?.cause;
  return !neverSent.has(String(cause?.code));
}

// Not randomUUID(), which a page without TLS does not have.
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export class Transport {
  constructor(readonly settings: Settings) {}

  /** The whole answer. */
  async call<Id extends ValueId>(
    id: Id,
    input: Operations[Id]['input'],
    options: CallOptions = {},
  ): Promise<Operations[Id]['answer']> {
    const request = this.prepare(id, input as AnyInput, options);
    const deadline = new Deadline(options.timeoutMs ?? this.settings.timeoutMs, options.signal);
    try {
      return (await this.retrying(request, deadline, (response) =>
        valueOf(request.spec, response),
      )) as Operations[Id]['answer'];
    } finally {
      deadline.close();
    }
  }

  /** The head of the answer; the deadline goes on until the caller extends or closes it. */
  async open<Id extends StreamId>(
    id: Id,
    input: Operations[Id]['input'],
    options: OpenOptions = {},
  ): Promise<Opened> {
    const request = this.prepare(id, input as AnyInput, options);
    const deadline = new Deadline(options.timeoutMs ?? this.settings.timeoutMs, options.signal);
    try {
      return await this.retrying(request, deadline, async (response) => ({ response, deadline }));
    } catch (error) {
      deadline.close();
      throw error;
    }
  }

  /** Where the WebSocket of an operation is. */
  socketUrl(
    id: SocketId | 'proxyGet',
    path: Readonly<Record<string, string | number>>,
    query?: AnyInput['query'],
  ): string {
    const { method, path: template } = operations[id];
    const where = fillPath(template, path) + queryText(query);
    this.settings.observe?.({
      operation: id,
      method,
      path: where,
      status: 0,
      requestId: '',
      attempt: 0,
      ms: 0,
    });
    return this.settings.url.replace(/^http/, 'ws') + where;
  }

  private prepare(id: OperationId, input: AnyInput, options: OpenOptions): Prepared {
    const spec: OperationSpec = operations[id];
    const headers: Record<string, string> = { accept: options.accept ?? 'application/json' };
    for (const given of [options.headers, input.headers]) {
      for (const name in given) {
        const value = given[name];
        if (value !== undefined) headers[name.toLowerCase()] = value;
      }
    }
    if (this.settings.token !== '') headers.authorization = `Bearer ${this.settings.token}`;
    // A stream is not kept, so a key would not bring it back.
    const takesKey = spec.keyed && options.accept === undefined;
    if (takesKey) headers['idempotency-key'] = options.idempotencyKey ?? newKey();
    const init: Prepared['init'] = {
      method: spec.method,
      headers,
      redirect: options.redirect ?? 'error',
      credentials: 'same-origin',
      cache: 'no-store',
    };
    if (spec.sends === 'json' && input.body !== undefined) {
      headers['content-type'] = 'application/json';
      init.body = JSON.stringify(input.body);
    } else if (input.body !== undefined) {
      if (spec.answers !== 'raw') headers['content-type'] = 'application/octet-stream';
      init.body = input.body as Bytes as BodyInit;
    }
    const replayable = !(input.body instanceof ReadableStream);
    if (!replayable) init.duplex = 'half';
    return {
      id,
      spec,
      path: fillPath(spec.path, input.path ?? {}) + queryText(input.query),
      init,
      retries: options.retries ?? this.settings.retries,
      replayable,
      conditional: 'if-match' in headers || 'if-none-match' in headers,
      keyed: takesKey && (options.idempotencyKey !== undefined || !runsCommand.has(id)),
      also: options.also ?? [],
    };
  }

  private async retrying<T>(
    request: Prepared,
    deadline: Deadline,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    let lost = false; // an earlier attempt may have been done
    for (let before = 0; ; before += 1) {
      try {
        return await this.once(request, deadline, before, read);
      } catch (error) {
        if (lost && request.spec.method === 'DELETE' && error instanceof NotFoundError) {
          return await read(new Response(null, { status: 204 })); // as the answer that was lost
        }
        lost ||= error instanceof ConnectionLostError && error.sent;
        const attempt: Attempt = { ...request, before };
        const wait = before < request.retries ? pauseBeforeRetry(error, attempt) : undefined;
        if (wait === undefined) throw error;
        await pause(wait, deadline);
      }
    }
  }

  private async once<T>(
    request: Prepared,
    deadline: Deadline,
    attempt: number,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const begun = performance.now();
    let response: Response | undefined;
    try {
      request.init.signal = deadline.signal;
      response = await this.settings.fetch(this.settings.url + request.path, request.init);
      this.tell(request, attempt, begun, response);
      // What a program inside a sandbox answers is not ours to judge.
      const fine = response.ok || request.spec.answers === 'raw' || request.also.includes(response.status);
      if (!fine) throw await refusal(response);
      return await read(response);
    } catch (error) {
      if (deadline.ended !== undefined) throw deadline.ended;
      if (error instanceof CaissonError) throw error;
      if (response === undefined) this.tell(request, attempt, begun, undefined);
      const what = response === undefined ? 'no answer' : 'the answer broke off';
      const sent = response !== undefined || wasSent(error);
      throw new ConnectionLostError(`${request.spec.method} ${this.settings.url}: ${what}`, sent, error);
    }
  }

  private tell(request: Prepared, attempt: number, begun: number, response: Response | undefined): void {
    this.settings.observe?.({
      operation: request.id,
      method: request.spec.method,
      path: request.path,
      status: response?.status ?? 0,
      requestId: response?.headers.get('X-Request-Id') ?? '',
      attempt,
      ms: performance.now() - begun,
    });
  }
}

/** Reads an opened answer to its end, in one way or another. */
export async function readOut<T>(
  { response, deadline }: Opened,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  try {
    return await read(response);
  } catch (error) {
    if (deadline.ended !== undefined) throw deadline.ended;
    if (error instanceof CaissonError) throw error;
    throw new ConnectionLostError('the answer broke off', true, error);
  } finally {
    deadline.cut();
  }
}

async function valueOf(spec: OperationSpec, response: Response): Promise<unknown> {
  if (spec.answers === 'nothing' || response.status === 204) {
    await response.body?.cancel();
    return undefined;
  }
  const text = new TextDecoder().decode(await collect(response, answerBytesMax));
  return spec.answers === 'text' ? text : parsed(text, response.status);
}

function parsed(text: string, status: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new AnswerError(`status ${status} with a body that is not JSON: is a proxy in between?`);
  }
}

function retryAfterOf(response: Response): number | undefined {
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}

async function refusal(response: Response): Promise<CaissonError> {
  const text = new TextDecoder().decode(await collect(response, errorBytesMax));
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    body = undefined; // such as a proxy's own page: the status has to do
  }
  return errorOf(body, response.status, retryAfterOf(response));
}
