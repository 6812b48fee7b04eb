// One way to call the server. Whatever goes wrong becomes an ApiError with the server's own words
// and its request id, so that every screen shows the same thing.
import { signal } from '@preact/signals';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string,
    readonly field = '',
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

// Counts up when the server says that nobody is logged in; the session listens to it.
export const loggedOut = signal(0);

export interface CallOptions {
  body?: unknown; // sent as JSON
  raw?: BodyInit; // sent as it is
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export function address(path: string, query?: CallOptions['query']): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== '') pairs.set(name, String(value));
  }
  const text = pairs.toString();
  return text === '' ? path : `${path}?${text}`;
}

// An id from the address bar goes into a path: whatever it is, it stays one segment.
export const segment = (text: string | number) => encodeURIComponent(String(text));

export async function send(
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  let body = options.raw;
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query), {
      method,
      headers,
      body: body ?? null,
      signal: options.signal ?? null,
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, 'Unreachable', 'the server does not answer', '');
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get('X-Request-Id') ?? '';
  let code = `HTTP ${response.status}`;
  let message = response.statusText || code;
  let field = '';
  let details: Record<string, unknown> = {};
  try {
    const body = await response.json();
    if (body?.error) {
      code = String(body.error.code);
      message = String(body.error.message);
      details = body.error.details ?? {};
      field = String(details.field ?? '');
    } else if (body?.detail) {
      message = String(body.detail);
    }
  } catch {
    // Not JSON, such as a proxy's own page: the status has to do.
  }
  if (response.status === 401) loggedOut.value += 1;
  return new ApiError(response.status, code, message, requestId, field, details);
}

export const isAbort = (error: unknown) =>
  error instanceof DOMException && error.name === 'AbortError';

export const isStatus = (error: unknown, status: number) =>
  error instanceof ApiError && error.status === status;
