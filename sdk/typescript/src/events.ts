// Server-sent events, from the body of an answer. fetch() is used instead of EventSource because it can send a body
// and a token, and shows the status of a refusal.
import type { Operations } from './contract/operations.js';
import { AnswerError, CaissonError, ConnectionLostError, DeadlineError, errorOf } from './errors.js';
import { eventCharsMax, retryPauseMs } from './limits.js';
import { Deadline, pause } from './deadline.js';
import type { CallOptions } from './settings.js';
import type { Opened, StreamId, Transport } from './transport.js';

export interface ServerSentEvent {
  readonly id: string;
  readonly name: string;
  readonly data: string;
}

/** Puts events together from pieces of text that end anywhere. */
export class EventParser {
  private rest = '';
  private id = '';
  private name = '';
  private data: string[] = [];
  private size = 0; // of the lines of the event that is coming

  /** What is complete now. */
  push(text: string): ServerSentEvent[] {
    const found: ServerSentEvent[] = [];
    // A carriage return at the very end may be the first half of a line end.
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    for (const line of lines) this.line(line, found);
    if (this.rest.length + this.size > eventCharsMax) {
      throw new AnswerError(`an event is larger than ${eventCharsMax} characters`);
    }
    return found;
  }

  private line(line: string, found: ServerSentEvent[]): void {
    if (line === '') {
      if (this.data.length > 0) {
        found.push({ id: this.id, name: this.name || 'message', data: this.data.join('\n') });
      }
      this.name = '';
      this.data = [];
      this.size = 0;
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return; // a comment that keeps the connection alive
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.name = value;
    else if (field === 'data') {
      this.data.push(value);
      this.size += line.length + 1;
    } else if (field === 'id') this.id = value;
  }
}

/** The events of one answer, until it ends. Who stops reading hangs up. */
export async function* eventsOf(
  { response, deadline }: Opened,
  silenceMs: number,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  const silent = `the stream was silent for ${silenceMs} ms: the connection is broken`;
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  try {
    for (;;) {
      deadline.extend(silenceMs, silent);
      const piece = await reader?.read();
      deadline.disarm(); // who reads slowly is not silent
      if (piece === undefined || piece.done) return;
      for (const event of parser.push(decoder.decode(piece.value, { stream: true }))) {
        if (event.name === 'error') throw errorOf(JSON.parse(event.data));
        yield event;
      }
    }
  } catch (error) {
    if (deadline.ended instanceof DeadlineError) throw new ConnectionLostError(silent, true, deadline.ended);
    if (deadline.ended !== undefined) throw deadline.ended;
    if (error instanceof CaissonError) throw error;
    throw new ConnectionLostError('the stream broke off', true, error);
  } finally {
    deadline.cut();
  }
}

export const eventStream = 'text/event-stream';

/** The caller's signal, and one more that ends the same thing. */
export function withHangUp(options: CallOptions): { hangUp: AbortController; options: CallOptions } {
  const hangUp = new AbortController();
  const signal =
    options.signal === undefined ? hangUp.signal : AbortSignal.any([options.signal, hangUp.signal]);
  return { hangUp, options: { ...options, signal } };
}

/** The events of an operation that cannot be taken up again. */
export async function openEvents<Id extends StreamId>(
  transport: Transport,
  id: Id,
  input: Operations[Id]['input'],
  options: CallOptions = {},
): Promise<AsyncGenerator<ServerSentEvent, void, undefined>> {
  const opened = await transport.open(id, input, { ...options, accept: eventStream });
  opened.deadline.disarm(); // it counts again when somebody reads
  return eventsOf(opened, transport.settings.streamSilenceMs);
}

/**
 * The events of an operation that goes on where `Last-Event-ID` says. A broken connection is made again without a gap;
 * `isLast` knows the event behind which nothing comes.
 */
export async function* resumedEvents<Id extends StreamId>(
  transport: Transport,
  id: Id,
  input: Operations[Id]['input'],
  options: CallOptions,
  isLast: (event: ServerSentEvent) => boolean,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  const { retries, timeoutMs, streamSilenceMs } = transport.settings;
  let last = '';
  for (let failures = 0; ; failures += 1) {
    try {
      const headers = last === '' ? {} : { 'Last-Event-ID': last };
      const opened = await transport.open(id, input, { ...options, accept: eventStream, headers });
      for await (const event of eventsOf(opened, streamSilenceMs)) {
        last = event.id || last;
        failures = 0;
        yield event;
        if (isLast(event)) return;
      }
      throw new ConnectionLostError('the stream ended before its last event', true);
    } catch (error) {
      const again = error instanceof ConnectionLostError && failures < (options.retries ?? retries);
      if (!again) throw error;
      const deadline = new Deadline(timeoutMs, options.signal);
      await pause(retryPauseMs * 2 ** failures, deadline).finally(() => deadline.close());
    }
  }
}
