// Programs that listen inside of one sandbox.
import type { Bytes } from './bytes.js';
import type { Ports as PortsInfo, Preview } from './contract/models.js';
import { ArgumentError } from './errors.js';
import { newSocket, type SocketLike } from './socket.js';
import type { CallOptions } from './settings.js';
import type { Transport } from './transport.js';

const proxies = {
  GET: 'proxyGet',
  HEAD: 'proxyHead',
  POST: 'proxyPost',
  PUT: 'proxyPut',
  PATCH: 'proxyPatch',
  DELETE: 'proxyDelete',
} as const;

export interface PortRequest extends CallOptions {
  readonly method?: keyof typeof proxies | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Bytes | undefined;
}

export class Ports {
  constructor(
    private readonly transport: Transport,
    private readonly id: string,
  ) {}

  async list(options: CallOptions = {}): Promise<PortsInfo> {
    return this.transport.call('listPorts', { path: { id: this.id } }, options);
  }

  /**
   * What the program on this port answers, whatever its status is. Path and query go through as they are; your token
   * and cookies do not. An error of the server's own, such as 502 when nothing listens, is an answer like the program's.
   */
  async fetch(port: number, path = '', request: PortRequest = {}): Promise<Response> {
    const { method = 'GET', headers, body, ...options } = request;
    const operation = proxies[method];
    if (operation === undefined) {
      throw new ArgumentError(
        'method',
        `method is "${method}": want one of ${Object.keys(proxies).join(', ')}`,
      );
    }
    const input = { path: { id: this.id, port, path }, ...(body === undefined ? {} : { body }) };
    const more = { accept: '*/*', redirect: 'manual' as const, headers };
    const { response, deadline } = await this.transport.open(operation, input, { ...options, ...more });
    deadline.disarm(); // from here on it is the caller's, as any answer of fetch() is
    return response;
  }

  /** A WebSocket to the program on this port, still connecting. */
  socket(port: number, path = '', protocols: readonly string[] = []): SocketLike {
    const url = this.transport.socketUrl('proxyGet', { id: this.id, port, path });
    return newSocket(this.transport, url, protocols);
  }

  /** A host of its own for a port, where the server has a vhost. */
  async preview(port?: number, options: CallOptions = {}): Promise<Preview> {
    return this.transport.call('createPreview', { path: { id: this.id }, body: { port } }, options);
  }
}
