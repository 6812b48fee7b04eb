// What a program prints, piece by piece, and how it ended.
import { fromBase64 } from './bytes.js';
import type { CodeResponse } from './contract/models.js';
import { ConnectionLostError } from './errors.js';
import type { ServerSentEvent } from './events.js';

/** How a command or process ended. */
export interface Exit {
  /** 128 + N when signal N ended it. */
  readonly exit_code: number | null;
  readonly signal: number;
  readonly timed_out: boolean;
  readonly oom_killed: boolean;
}

/** Which process it is, as `processes` shows it, and its pid inside. */
export interface Started {
  readonly process: number;
  readonly pid: number;
}

export type StreamName = 'stdout' | 'stderr';

export interface OutputPiece {
  readonly stream: StreamName;
  readonly bytes: Uint8Array;
  /** The same as text. A letter that is not complete yet comes with the next piece. */
  readonly text: string;
  /** Of the first byte, in its stream. */
  readonly offset: number;
  /** How many bytes before it nobody can read any more. */
  readonly lost: number;
}

/** Why there is no exit to tell. */
export function unread(): ConnectionLostError {
  return new ConnectionLostError('nobody read the output to its end', true);
}

/** A promise that somebody may never look at. */
export class Settled<T> {
  readonly promise: Promise<T>;
  resolve!: (value: T) => void;
  reject!: (reason: unknown) => void;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => {});
  }
}

/** Makes pieces of both streams, each with a decoder of its own. */
export class PieceMaker {
  private readonly decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  private readonly ends = { stdout: 0, stderr: 0 };

  make(stream: StreamName, bytes: Uint8Array, offset = this.ends[stream], lost = 0): OutputPiece {
    this.ends[stream] = offset + bytes.length;
    const text = this.decoders[stream].decode(bytes, { stream: true });
    return { stream, bytes, text, offset, lost };
  }

  /** What stood at the very end and was no whole letter. */
  *rest(): Generator<OutputPiece> {
    for (const stream of ['stdout', 'stderr'] as const) {
      const text = this.decoders[stream].decode();
      if (text !== '') yield { stream, bytes: new Uint8Array(), text, offset: this.ends[stream], lost: 0 };
    }
  }
}

interface Chunk {
  offset: number;
  lost: number;
  data: string;
}

/**
 * Output as it comes: `for await (const piece of output)`. It is read once. Who leaves the loop, or closes it, hangs
 * up; `exit` is settled when the loop has seen the end.
 */
export class OutputStream implements AsyncIterable<OutputPiece> {
  private readonly begun = new Settled<Started>();
  private readonly ended = new Settled<Exit>();
  private readonly pieces: AsyncGenerator<OutputPiece, void, undefined>;

  constructor(
    events: AsyncIterable<ServerSentEvent>,
    private readonly hangUp: AbortController,
  ) {
    this.pieces = this.read(events);
  }

  /** Of a command: which process it is. */
  get started(): Promise<Started> {
    return this.begun.promise;
  }

  get exit(): Promise<Exit> {
    return this.ended.promise;
  }

  [Symbol.asyncIterator](): AsyncIterator<OutputPiece> {
    return this.pieces;
  }

  /** Reads to the end and keeps nothing. */
  async drain(): Promise<Exit> {
    for await (const _ of this.pieces);
    return this.exit;
  }

  async close(): Promise<void> {
    this.hangUp.abort();
    await this.pieces.return();
    this.settle(unread()); // a loop that never began has no end of its own
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async *read(events: AsyncIterable<ServerSentEvent>): AsyncGenerator<OutputPiece, void, undefined> {
    let failure: unknown = unread();
    try {
      const maker = new PieceMaker();
      for await (const event of events) {
        if (event.name === 'start') this.begun.resolve(JSON.parse(event.data) as Started);
        if (event.name === 'exit') {
          yield* maker.rest();
          this.ended.resolve(JSON.parse(event.data) as Exit);
          return;
        }
        if (event.name !== 'stdout' && event.name !== 'stderr') continue;
        const chunk = JSON.parse(event.data) as Chunk;
        yield maker.make(event.name, fromBase64(chunk.data), chunk.offset, chunk.lost);
      }
      throw new ConnectionLostError('the stream ended before the command did', true);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      this.settle(failure);
    }
  }

  // Changes nothing where they are settled already.
  private settle(failure: unknown): void {
    this.begun.reject(failure);
    this.ended.reject(failure);
  }
}

/**
 * Output of code as it comes, read like an OutputStream; `result` is settled when the loop has seen the end, and its own
 * outputs are empty.
 */
export class CodeStream implements AsyncIterable<OutputPiece> {
  private readonly ended = new Settled<CodeResponse>();
  private readonly pieces: AsyncGenerator<OutputPiece, void, undefined>;

  constructor(
    events: AsyncIterable<ServerSentEvent>,
    private readonly hangUp: AbortController,
  ) {
    this.pieces = this.read(events);
  }

  get result(): Promise<CodeResponse> {
    return this.ended.promise;
  }

  [Symbol.asyncIterator](): AsyncIterator<OutputPiece> {
    return this.pieces;
  }

  /** Reads to the end and keeps nothing. */
  async drain(): Promise<CodeResponse> {
    for await (const _ of this.pieces);
    return this.result;
  }

  async close(): Promise<void> {
    this.hangUp.abort();
    await this.pieces.return();
    this.ended.reject(unread());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  private async *read(events: AsyncIterable<ServerSentEvent>): AsyncGenerator<OutputPiece, void, undefined> {
    let failure: unknown = unread();
    try {
      const maker = new PieceMaker();
      for await (const event of events) {
        if (event.name === 'result') {
          yield* maker.rest();
          this.ended.resolve(JSON.parse(event.data) as CodeResponse);
          return;
        }
        if (event.name !== 'stdout' && event.name !== 'stderr') continue;
        const chunk = JSON.parse(event.data) as Chunk;
        yield maker.make(event.name, fromBase64(chunk.data), chunk.offset, chunk.lost);
      }
      throw new ConnectionLostError('the stream ended before the code did', true);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      this.ended.reject(failure);
    }
  }
}
