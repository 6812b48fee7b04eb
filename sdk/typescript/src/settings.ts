// Which server, and how patiently it is asked.
import { ArgumentError } from './errors.js';
import * as limits from './limits.js';
import type { SocketClass } from './socket.js';

/** One request and how it went; see `ClientOptions.observe`. */
export interface Observation {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  /** Of HTTP; 0 when no answer came. */
  readonly status: number;
  readonly requestId: string;
  /** 0 for the first. */
  readonly attempt: number;
  /** Until the head of the answer was there. */
  readonly ms: number;
}

export interface ClientOptions {
  /** Such as `https://caisson.example`. Then `CAISSON_URL`, the page's own origin, `http://127.0.0.1:8080`. */
  readonly url?: string | undefined;
  /** Then `CAISSON_TOKEN`; without one, a browser's cookie counts. */
  readonly token?: string | undefined;
  /** For an answer that the server gives at once. */
  readonly timeoutMs?: number | undefined;
  /** For commands, transfers and images. */
  readonly longTimeoutMs?: number | undefined;
  /** A stream that is silent for so long is broken. */
  readonly streamSilenceMs?: number | undefined;
  /** How often a call is sent again where that is safe. */
  readonly retries?: number | undefined;
  /** Instead of the global one. */
  readonly fetch?: typeof fetch | undefined;
  /** Instead of the global one, which Node.js has from 22 on: for older ones that of the package `ws`. */
  readonly WebSocket?: SocketClass | undefined;
  /** Is told about every request. */
  readonly observe?: ((seen: Observation) => void) | undefined;
}

/** What every call takes beside its own arguments. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  /** For the whole call with its retries; of a stream, until it begins. */
  readonly timeoutMs?: number | undefined;
  readonly retries?: number | undefined;
  /**
   * Of a call that does something. Each has a key of its own; choose it to ask again yourself, after a crash of yours.
   * A command with a key of yours is repeated by the client, too, when its answer is lost.
   */
  readonly idempotencyKey?: string | undefined;
}

export interface Settings {
  readonly url: string;
  readonly token: string;
  readonly timeoutMs: number;
  readonly longTimeoutMs: number;
  readonly streamSilenceMs: number;
  readonly retries: number;
  readonly fetch: typeof fetch;
  readonly WebSocket: SocketClass | undefined;
  readonly observe: ((seen: Observation) => void) | undefined;
}

interface Surroundings {
  process?: { env?: Record<string, string | undefined> };
  location?: { origin?: string };
  WebSocket?: SocketClass;
}

const defaultUrl = 'http://127.0.0.1:8080';

function checkedUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new ArgumentError('url', `url is "${text}": want one such as ${defaultUrl}`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new ArgumentError('url', `url is "${text}": want http:// or https://`);
  }
  if (url.username !== '' || url.search !== '' || url.hash !== '') {
    throw new ArgumentError('url', 'url holds a user, a query or a fragment: want the server alone');
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

function checkedToken(text: string): string {
  if (!/^[!-~]*$/.test(text)) {
    throw new ArgumentError('token', 'token: want printable characters without spaces');
  }
  return text;
}

function positive(name: string, value: number): number {
  if (!(value > 0)) throw new ArgumentError(name, `${name} is ${value}: want more than 0`);
  return value;
}

export function settingsOf(options: ClientOptions): Settings {
  const around = globalThis as Surroundings;
  const env = around.process?.env ?? {};
  const origin = around.location?.origin;
  const home = origin !== undefined && /^https?:/.test(origin) ? origin : defaultUrl;
  const retries = options.retries ?? limits.retries;
  if (!Number.isInteger(retries) || retries < 0) {
    throw new ArgumentError('retries', `retries is ${retries}: want 0 or more`);
  }
  return {
    url: checkedUrl(options.url ?? (env.CAISSON_URL || home)),
    token: checkedToken(options.token ?? env.CAISSON_TOKEN ?? ''),
    timeoutMs: positive('timeoutMs', options.timeoutMs ?? limits.callTimeoutMs),
    longTimeoutMs: positive('longTimeoutMs', options.longTimeoutMs ?? limits.longTimeoutMs),
    streamSilenceMs: positive('streamSilenceMs', options.streamSilenceMs ?? limits.streamSilenceMs),
    retries,
    // Called as a method of anything else, a browser's fetch() refuses.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    WebSocket: options.WebSocket ?? around.WebSocket,
    observe: options.observe,
  };
}
