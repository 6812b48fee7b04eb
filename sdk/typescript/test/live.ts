// The server that the tests talk to, and a wire to it that can be cut.
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import WebSocket from 'ws';
import { Client, type ClientOptions, type CreateRequest, type Sandbox } from '../src/index.js';

const url = process.env.CAISSON_URL;
if (!url)
  throw new Error('CAISSON_URL is not set: start a server and name it, with an admin token in CAISSON_TOKEN');
export const serverUrl = url;

// Node.js 20 has no WebSocket of its own.
export function newClient(options: ClientOptions = {}): Client {
  return new Client({ WebSocket, ...options });
}

export const client = newClient();

/** A sandbox for one test. */
export async function sandbox(request: CreateRequest = {}): Promise<Sandbox> {
  return client.sandboxes.create(request);
}

export async function allOf<T>(things: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const thing of things) found.push(thing);
  return found;
}

/** Polls until the condition holds; the test's own timeout ends a wait in vain. */
export async function until(condition: () => Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** A way to the server that loses connections on purpose. */
export class Wire {
  private readonly open = new Set<Socket>();
  /** Answers that begin are lost, and the connection with them, while this is above 0. */
  answersToLose = 0;
  requests = 0;

  private constructor(private readonly server: Server) {}

  static async lay(): Promise<Wire> {
    const target = new URL(serverUrl);
    const server = createServer();
    const wire = new Wire(server);
    server.on('connection', (near) => {
      const far = createConnection(Number(target.port), target.hostname);
      for (const end of [near, far]) {
        wire.open.add(end);
        end.on('error', () => {});
        end.on('close', () => {
          wire.open.delete(end);
          near.destroy();
          far.destroy();
        });
      }
      near.on('data', (data) => {
        wire.requests += 1;
        far.write(data);
      });
      far.on('data', (data) => {
        if (wire.answersToLose > 0) {
          wire.answersToLose -= 1;
          near.destroy();
        } else {
          near.write(data);
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return wire;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as { port: number }).port}`;
  }

  /** Every connection breaks now; new ones are made as before. */
  cut(): void {
    for (const end of this.open) end.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
