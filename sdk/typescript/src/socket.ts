// A WebSocket as a queue of messages. A browser cannot set a header for one, so the token goes as a protocol that is
// offered: that works everywhere, and it is in no address.
import type { Deadline } from './deadline.js';
import { ArgumentError, ConnectionLostError } from './errors.js';
import { socketHeldBytesMax, socketSendBytesMax } from './limits.js';
import type { Transport } from './transport.js';

/** As much of a WebSocket as is used here. */
export interface SocketLike {
  binaryType: string;
  readonly bufferedAmount: number;
  readonly readyState: number;
  readonly protocol: string;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number, reason?: string): void;
  // The classes of browsers and of `ws` have events of their own.
  addEventListener(type: 'open' | 'message' | 'close' | 'error', listener: (event: any) => void): void;
}

export type SocketClass = new (url: string, protocols?: string[]) => SocketLike;

const open = 1; // readyState
const sendPauseMs = 5;

/** The socket itself, which is still connecting. */
export function newSocket(transport: Transport, url: string, protocols: readonly string[] = []): SocketLike {
  const { WebSocket, token } = transport.settings;
  if (WebSocket === undefined) {
    throw new ArgumentError(
      'WebSocket',
      'there is no global WebSocket (Node.js has one from 22 on): pass one to the client, such as that of the package ws',
    );
  }
  const own = token === '' ? ['caisson'] : ['caisson', `caisson.token.${token}`];
  try {
    const socket = new WebSocket(url, [...own, ...protocols]);
    socket.binaryType = 'arraybuffer';
    return socket;
  } catch (error) {
    throw new ArgumentError('token', `the token has letters that no WebSocket can offer: ${String(error)}`);
  }
}

export type Message = string | Uint8Array;

export class Channel {
  private readonly held: Message[] = [];
  private heldBytes = 0;
  private wake: (() => void) | undefined;
  private failure: unknown;
  private closed = false;

  private constructor(private readonly socket: SocketLike) {
    socket.addEventListener('message', (event: { data: unknown }) => this.take(event.data));
    socket.addEventListener('close', () => this.finish(undefined));
    socket.addEventListener('error', (event: unknown) =>
      this.finish(new ConnectionLostError('the WebSocket broke off', true, event)),
    );
  }

  /** A channel that is connected; rejects when the server refuses, without its reasons: browsers do not tell them. */
  static async open(transport: Transport, url: string, deadline: Deadline): Promise<Channel> {
    const socket = newSocket(transport, url);
    const channel = new Channel(socket);
    deadline.signal.addEventListener('abort', () => channel.fail(deadline.ended));
    if (deadline.ended !== undefined) channel.fail(deadline.ended);
    await new Promise<void>((resolve, reject) => {
      const refused = () => reject(new ConnectionLostError('the server refused the WebSocket', false));
      socket.addEventListener('open', () => resolve());
      socket.addEventListener('close', refused);
      socket.addEventListener('error', refused);
    });
    return channel;
  }

  /** The next message; undefined when the other side has closed. */
  async next(): Promise<Message | undefined> {
    for (;;) {
      const message = this.held.shift();
      if (message !== undefined) {
        this.heldBytes -= message.length;
        return message;
      }
      if (this.failure !== undefined) throw this.failure;
      if (this.closed) return undefined;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }

  /** Resolves when little enough is waiting to be sent. A WebSocket has no event for that, so it is looked at. */
  async send(data: Message): Promise<void> {
    if (this.socket.readyState !== open)
      throw this.failure ?? new ConnectionLostError('the WebSocket is closed', false);
    this.socket.send(data as string | Uint8Array<ArrayBuffer>);
    while (this.socket.bufferedAmount > socketSendBytesMax && this.socket.readyState === open) {
      await new Promise((resolve) => setTimeout(resolve, sendPauseMs));
    }
  }

  close(): void {
    this.fail(undefined);
  }

  /** Ends it for its reader, too. */
  fail(reason: unknown): void {
    this.finish(reason);
    this.socket.close(1000);
  }

  private take(data: unknown): void {
    if (this.closed) return;
    const message = typeof data === 'string' ? data : new Uint8Array(data as ArrayBuffer);
    this.held.push(message);
    this.heldBytes += message.length;
    if (this.heldBytes > socketHeldBytesMax) {
      this.fail(
        new ConnectionLostError(`nobody reads: more than ${socketHeldBytesMax} bytes are waiting`, true),
      );
    }
    this.wake?.();
  }

  private finish(failure: unknown): void {
    if (this.closed) return;
    this.closed = true;
    this.failure = failure;
    this.wake?.();
  }
}
