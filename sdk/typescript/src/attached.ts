// Commands and terminals over a WebSocket: output as it comes, input while it runs.
import { toBytes } from './bytes.js';
import type { ExecRequest, SignalRequest } from './contract/models.js';
import type { Operations } from './contract/operations.js';
import { Deadline } from './deadline.js';
import { AnswerError, ConnectionLostError, errorOf } from './errors.js';
import { socketMessageBytesMax } from './limits.js';
import { type Exit, type OutputPiece, PieceMaker, Settled, type Started, unread } from './output.js';
import type { CallOptions } from './settings.js';
import { Channel } from './socket.js';
import type { SocketId, Transport } from './transport.js';

interface Told {
  type?: string;
}

/** A program inside, and the connection to it. It is read once: `for await (const piece of attached)`. */
abstract class Attached implements AsyncIterable<OutputPiece> {
  private readonly ended = new Settled<Exit>();
  private readonly pieces: AsyncGenerator<OutputPiece, void, undefined>;
  protected readonly maker = new PieceMaker();

  protected constructor(
    protected readonly channel: Channel,
    /** Which process it is. */
    readonly started: Started,
  ) {
    this.pieces = this.read();
  }

  /** Settled when the loop has seen the end. */
  get exit(): Promise<Exit> {
    return this.ended.promise;
  }

  [Symbol.asyncIterator](): AsyncIterator<OutputPiece> {
    return this.pieces;
  }

  /** To its standard input. */
  async write(data: string | Uint8Array): Promise<void> {
    const bytes = toBytes(data);
    for (let at = 0; at < bytes.length; at += socketMessageBytesMax) {
      await this.channel.send(this.frame(bytes.subarray(at, at + socketMessageBytesMax)));
    }
  }

  async resize(rows: number, cols: number): Promise<void> {
    await this.tell({ type: 'resize', rows, cols });
  }

  /** Leaves. What that means for the program, each kind says. */
  async close(): Promise<void> {
    this.channel.close();
    await this.pieces.return();
    this.ended.reject(unread()); // a loop that never began has no end of its own
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  protected async tell(message: Record<string, unknown>): Promise<void> {
    await this.channel.send(JSON.stringify(message));
  }

  protected abstract frame(input: Uint8Array): Uint8Array;
  protected abstract piece(message: Uint8Array): OutputPiece;

  private async *read(): AsyncGenerator<OutputPiece, void, undefined> {
    let failure: unknown = unread();
    try {
      for (;;) {
        const message = await this.channel.next();
        if (message === undefined) throw new ConnectionLostError('the WebSocket was closed', true);
        if (typeof message !== 'string') {
          yield this.piece(message);
          continue;
        }
        const told = JSON.parse(message) as Told & Partial<Exit>;
        if (told.type === 'error') throw errorOf(told);
        if (told.type !== 'exit') continue; // of a newer server
        yield* this.maker.rest();
        const { type: _, ...exit } = told;
        this.ended.resolve(exit as Exit);
        return;
      }
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      this.ended.reject(failure); // changes nothing when it has ended well
      this.channel.close();
    }
  }
}

async function startOf(channel: Channel): Promise<Started> {
  const message = await channel.next();
  if (message === undefined) throw new ConnectionLostError('the WebSocket was closed before the start', true);
  const told = typeof message === 'string' ? (JSON.parse(message) as Told & Partial<Started>) : {};
  if (told.type === 'error') throw errorOf(told);
  if (told.type !== 'start') throw new AnswerError('the first message is no start: is a proxy in between?');
  return { process: told.process ?? 0, pid: told.pid ?? 0 };
}

interface Opening {
  readonly id: string;
  readonly operation: SocketId;
  readonly query?: TerminalRequest;
  readonly first?: ExecRequest;
}

/** The channel behind its first message. One deadline is for all of it. */
async function begin(
  transport: Transport,
  opening: Opening,
  options: CallOptions,
): Promise<[Channel, Started]> {
  const { id, operation, query, first } = opening;
  const deadline = new Deadline(options.timeoutMs ?? transport.settings.timeoutMs, options.signal);
  let channel: Channel | undefined;
  try {
    channel = await Channel.open(transport, transport.socketUrl(operation, { id }, query), deadline);
    if (first !== undefined) await channel.send(JSON.stringify(first));
    return [channel, await startOf(channel)];
  } catch (error) {
    channel?.close();
    if (deadline.ended !== undefined) throw deadline.ended;
    // A refused WebSocket has no reasons in it; the sandbox, asked again, has most of them.
    if (channel === undefined && error instanceof ConnectionLostError) {
      await transport.call('getSandbox', { path: { id } }, options);
    }
    throw error;
  } finally {
    deadline.close();
  }
}

/** A command with live input. It dies with the connection. */
export class AttachedCommand extends Attached {
  static async open(
    transport: Transport,
    id: string,
    first: ExecRequest,
    options: CallOptions,
  ): Promise<AttachedCommand> {
    return new AttachedCommand(...(await begin(transport, { id, operation: 'execSocket', first }, options)));
  }

  async closeInput(): Promise<void> {
    await this.tell({ type: 'close_stdin' });
  }

  /** `TERM`, `SIGTERM` or 15; with `tree`, to all that it started. */
  async signal(signal: SignalRequest['signal'], tree = false): Promise<void> {
    await this.tell({ type: 'signal', signal, tree });
  }

  // The first byte of a message says the stream: 0 input, 1 output, 2 errors.
  protected frame(input: Uint8Array): Uint8Array {
    const framed = new Uint8Array(input.length + 1);
    framed.set(input, 1);
    return framed;
  }

  protected piece(message: Uint8Array): OutputPiece {
    return this.maker.make(message[0] === 2 ? 'stderr' : 'stdout', message.subarray(1));
  }
}

export type TerminalRequest = NonNullable<Operations['openTerminal']['input']['query']>;

/** A terminal. It outlives the connection: `terminal({ process: terminal.started.process })` takes it up again. */
export class Terminal extends Attached {
  static async open(
    transport: Transport,
    id: string,
    query: TerminalRequest,
    options: CallOptions,
  ): Promise<Terminal> {
    return new Terminal(...(await begin(transport, { id, operation: 'openTerminal', query }, options)));
  }

  protected frame(input: Uint8Array): Uint8Array {
    return input;
  }

  protected piece(message: Uint8Array): OutputPiece {
    return this.maker.make('stdout', message);
  }
}
