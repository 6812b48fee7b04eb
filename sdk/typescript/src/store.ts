// What outlives sandboxes: snapshots, images and volumes.
import { type Bytes, collect } from './bytes.js';
import type {
  BuildRequest,
  Diff,
  Garbage,
  Image,
  PullRequest,
  Snapshot,
  Storage,
  Volume,
} from './contract/models.js';
import { ConnectionLostError } from './errors.js';
import { openEvents, type ServerSentEvent } from './events.js';
import { bodyOf } from './files.js';
import { fileBytesMax } from './limits.js';
import { Settled } from './output.js';
import type { CallOptions } from './settings.js';
import { readOut, type Transport } from './transport.js';

export class Snapshots {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<Snapshot[]> {
    return (await this.transport.call('listSnapshots', {}, options)).snapshots;
  }

  /** By id or name. */
  async get(id: string, options: CallOptions = {}): Promise<Snapshot> {
    return this.transport.call('getSnapshot', { path: { id } }, options);
  }

  async remove(id: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeSnapshot', { path: { id } }, options);
  }

  /**
   * What is different between two states of files. A state is `sandbox:ID`, `snapshot:ID` (or its name) or
   * `image:REFERENCE`; only what lies below the path, if there is one.
   */
  async diff(from: string, to: string, path?: string, options: CallOptions = {}): Promise<Diff> {
    return this.transport.call('diff', { query: { from, to, path } }, options);
  }

  /** The same as a patch for `git apply`. */
  async patch(from: string, to: string, path?: string, options: CallOptions = {}): Promise<Uint8Array> {
    const input = { query: { from, to, path, format: 'patch' as const } };
    const timeoutMs = options.timeoutMs ?? this.transport.settings.longTimeoutMs;
    const opened = await this.transport.open('diff', input, { ...options, timeoutMs, accept: '*/*' });
    return readOut(opened, (response) => collect(response, fileBytesMax));
  }
}

export interface PullProgress {
  readonly stage: string;
  readonly layer: string;
  readonly done: number;
  readonly total: number;
}

/** A pull on its way: `for await (const step of pull)`, then `await pull.image`. Who stops reading gives it up. */
export class Pull implements AsyncIterable<PullProgress> {
  private readonly found = new Settled<Image>();
  private readonly steps: AsyncGenerator<PullProgress, void, undefined>;

  constructor(events: AsyncIterable<ServerSentEvent>) {
    this.steps = this.read(events);
  }

  get image(): Promise<Image> {
    return this.found.promise;
  }

  [Symbol.asyncIterator](): AsyncIterator<PullProgress> {
    return this.steps;
  }

  private async *read(events: AsyncIterable<ServerSentEvent>): AsyncGenerator<PullProgress, void, undefined> {
    let failure: unknown = new ConnectionLostError('the pull was given up', true);
    try {
      for await (const event of events) {
        if (event.name === 'progress') yield JSON.parse(event.data) as PullProgress;
        if (event.name !== 'image') continue;
        this.found.resolve(JSON.parse(event.data) as Image);
        return;
      }
      throw new ConnectionLostError('the stream ended before the pull did', true);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      this.found.reject(failure); // changes nothing when the image is here
    }
  }
}

export class Images {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<Image[]> {
    return (await this.transport.call('listImages', {}, options)).images;
  }

  async get(reference: string, options: CallOptions = {}): Promise<Image> {
    return this.transport.call('getImage', { query: { reference } }, options);
  }

  async remove(reference: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeImage', { query: { reference } }, options);
  }

  /** From a registry. */
  async pull(request: PullRequest | string, options: CallOptions = {}): Promise<Image> {
    const body = typeof request === 'string' ? { reference: request } : request;
    return this.transport.call('pullImage', { body }, this.long(options));
  }

  /** The same, with its progress. */
  async pullStream(request: PullRequest | string, options: CallOptions = {}): Promise<Pull> {
    const body = typeof request === 'string' ? { reference: request } : request;
    const input = { query: { stream: 'sse' as const }, body };
    return new Pull(await openEvents(this.transport, 'pullImage', input, options));
  }

  /** From a tar archive, plain or compressed; of one with several images, `pick` names one. */
  async import(reference: string, archive: Bytes, pick?: string, options: CallOptions = {}): Promise<Image> {
    return this.transport.call(
      'importImage',
      { query: { reference, pick }, body: archive },
      this.long(options),
    );
  }

  /** As a tar archive, as it comes. */
  async export(reference: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const more = { ...this.long(options), accept: '*/*' };
    return bodyOf(await this.transport.open('exportImage', { query: { reference } }, more));
  }

  /** Of a snapshot. */
  async build(request: BuildRequest, options: CallOptions = {}): Promise<Image> {
    return this.transport.call('buildImage', { body: request }, this.long(options));
  }

  /** Removes what nobody needs. */
  async collectGarbage(options: CallOptions = {}): Promise<Garbage> {
    return this.transport.call('collectGarbage', {}, this.long(options));
  }

  /** What the store can do. */
  async storage(options: CallOptions = {}): Promise<Storage> {
    return this.transport.call('getStorage', {}, options);
  }

  private long(options: CallOptions): CallOptions {
    return { ...options, timeoutMs: options.timeoutMs ?? this.transport.settings.longTimeoutMs };
  }
}

export class Volumes {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<Volume[]> {
    return (await this.transport.call('listVolumes', {}, options)).volumes;
  }

  /** Makes it, or changes what it may hold. */
  async put(name: string, bytes: number, options: CallOptions = {}): Promise<Volume> {
    return this.transport.call('putVolume', { path: { id: name }, body: { bytes } }, options);
  }

  async remove(name: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeVolume', { path: { id: name } }, options);
  }
}
