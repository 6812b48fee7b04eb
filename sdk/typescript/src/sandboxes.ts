// The sandboxes of a tenant.
import type { CreateRequest, Usage } from './contract/models.js';
import { Sandbox } from './sandbox.js';
import type { CallOptions } from './settings.js';
import type { Transport } from './transport.js';

export class Sandboxes {
  constructor(private readonly transport: Transport) {}

  /** It is running when this resolves. */
  async create(request: CreateRequest = {}, options: CallOptions = {}): Promise<Sandbox> {
    const info = await this.transport.call('createSandbox', { body: request }, options);
    return new Sandbox(this.transport, info.id, info);
  }

  /** Creates a sandbox for one piece of work and destroys it afterwards, where `await using` cannot be written. */
  async use<T>(request: CreateRequest, work: (sandbox: Sandbox) => Promise<T>): Promise<T> {
    await using sandbox = await this.create(request);
    return await work(sandbox);
  }

  /** The living ones, oldest first. */
  async list(options: CallOptions = {}): Promise<Sandbox[]> {
    const { sandboxes } = await this.transport.call('listSandboxes', {}, options);
    return sandboxes.map((info) => new Sandbox(this.transport, info.id, info));
  }

  async get(id: string, options: CallOptions = {}): Promise<Sandbox> {
    const info = await this.transport.call('getSandbox', { path: { id } }, options);
    return new Sandbox(this.transport, info.id, info);
  }

  /** One by its id, without asking whether it is there. */
  named(id: string): Sandbox {
    return new Sandbox(this.transport, id);
  }

  /** What up to 64 of them have used so far, by id; those that are not there are left out. */
  async usage(ids: readonly string[], options: CallOptions = {}): Promise<Record<string, Usage>> {
    return (await this.transport.call('listUsage', { query: { ids: ids.join(',') } }, options)).usage;
  }
}
