// Files and folders of one sandbox, as its own user. Paths are relative to the workspace, or absolute inside.
import { type Bytes, collect } from './bytes.js';
import type { FileEntry, MkdirRequest, MoveRequest, Removed, Unpacked, Written } from './contract/models.js';
import { ConnectionLostError } from './errors.js';
import { openEvents, type ServerSentEvent, withHangUp } from './events.js';
import { fileBytesMax } from './limits.js';
import type { CallOptions } from './settings.js';
import { type Opened, readOut, type Transport } from './transport.js';

export interface ReadOptions extends CallOptions {
  /** Both ends count, from 0; without an end, to the end of the file. */
  readonly range?: { readonly first: number; readonly last?: number } | undefined;
  /** A larger file is an error. */
  readonly bytesMax?: number | undefined;
}

export interface WriteOptions extends CallOptions {
  /** Permissions in octal, such as `0755`; the old ones, or 0644, when left out. */
  readonly mode?: string | undefined;
  /** Only if the file has this ETag, or `*`: if it exists. */
  readonly ifMatch?: string | undefined;
  /** Only if there is no such file. */
  readonly ifNew?: boolean | undefined;
}

/** Size and ETag of a file. */
export interface FileHead {
  readonly size: number;
  readonly etag: string;
}

export type ChangeKind = 'created' | 'changed' | 'removed' | 'moved_from' | 'moved_to' | 'overflow';

/** Something happened to a file. */
export interface FileChange {
  readonly changes: readonly ChangeKind[];
  /** Relative to what is watched. */
  readonly path: string;
  readonly folder: boolean;
  /** Joins the two halves of a move. */
  readonly cookie: number;
}

/** Changes as they come: `for await (const change of watch)`. From the moment that it is there, none is missed. */
export class Watch implements AsyncIterable<FileChange> {
  private readonly changes: AsyncGenerator<FileChange, void, undefined>;

  constructor(
    events: AsyncIterator<ServerSentEvent>,
    private readonly hangUp: AbortController,
  ) {
    this.changes = read(events);
  }

  [Symbol.asyncIterator](): AsyncIterator<FileChange> {
    return this.changes;
  }

  async close(): Promise<void> {
    this.hangUp.abort();
    await this.changes.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function* read(events: AsyncIterator<ServerSentEvent>): AsyncGenerator<FileChange, void, undefined> {
  try {
    for (;;) {
      const { done, value } = await events.next();
      if (done === true)
        throw new ConnectionLostError('the stream ended: what happens now is not seen', true);
      if (value.name === 'change') yield JSON.parse(value.data) as FileChange;
    }
  } finally {
    await events.return?.();
  }
}

function rangeText(range: ReadOptions['range']): string | undefined {
  return range === undefined ? undefined : `bytes=${range.first}-${range.last ?? ''}`;
}

export class Files {
  constructor(
    private readonly transport: Transport,
    private readonly id: string,
  ) {}

  /** The whole file, or a range of it. */
  async read(path: string, options: ReadOptions = {}): Promise<Uint8Array> {
    const opened = await this.open(path, options);
    return readOut(opened, (response) => collect(response, options.bytesMax ?? fileBytesMax));
  }

  async readText(path: string, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /** The file, if it is another than the one with this ETag. */
  async readIfChanged(
    path: string,
    etag: string,
    options: ReadOptions = {},
  ): Promise<{ bytes: Uint8Array; etag: string } | undefined> {
    const opened = await this.open(path, options, etag);
    return readOut(opened, async (response) => {
      if (response.status === 304) return undefined;
      const bytes = await collect(response, options.bytesMax ?? fileBytesMax);
      return { bytes, etag: response.headers.get('ETag') ?? '' };
    });
  }

  /** The file as it comes, for one that is too large to hold. */
  async readStream(path: string, options: ReadOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return bodyOf(await this.open(path, options));
  }

  async head(path: string, options: CallOptions = {}): Promise<FileHead> {
    let opened = await this.transport.open('headFile', { path: { id: this.id, path } }, options);
    // The answer to HEAD has no body to say what is wrong; that to GET does.
    if (!opened.response.ok) opened = await this.open(path, options);
    opened.deadline.cut();
    const { headers } = opened.response;
    return { size: Number(headers.get('Content-Length') ?? 0), etag: headers.get('ETag') ?? '' };
  }

  /** The file appears whole or not at all. Parent folders are made. */
  async write(path: string, content: Bytes, options: WriteOptions = {}): Promise<Written> {
    const input = {
      path: { id: this.id, path },
      query: { mode: options.mode },
      headers: {
        'If-Match': options.ifMatch,
        'If-None-Match': options.ifNew === true ? ('*' as const) : undefined,
      },
      body: content,
    };
    return this.transport.call('uploadFile', input, this.long(options));
  }

  async stat(path: string, options: CallOptions & { readonly follow?: boolean } = {}): Promise<FileEntry> {
    const input = { path: { id: this.id, path }, query: { follow: options.follow } };
    return this.transport.call('statFile', input, options);
  }

  /** What is in a folder; the workspace when no path is given. */
  async list(path = '', options: CallOptions & { readonly recursive?: boolean } = {}): Promise<FileEntry[]> {
    const input = { path: { id: this.id, path }, query: { recursive: options.recursive } };
    return (await this.transport.call('listFiles', input, options)).entries;
  }

  async remove(path: string, options: CallOptions & { readonly recursive?: boolean } = {}): Promise<Removed> {
    const input = { path: { id: this.id, path }, query: { recursive: options.recursive } };
    return this.transport.call('removeFile', input, options);
  }

  async makeFolder(
    path: string,
    more: Omit<MkdirRequest, 'path'> = {},
    options: CallOptions = {},
  ): Promise<void> {
    await this.transport.call('makeFolder', { path: { id: this.id }, body: { path, ...more } }, options);
  }

  async move(
    from: string,
    to: string,
    more: Omit<MoveRequest, 'from' | 'to'> = {},
    options: CallOptions = {},
  ): Promise<void> {
    await this.transport.call('moveFile', { path: { id: this.id }, body: { from, to, ...more } }, options);
  }

  /** A folder as a tar archive, as it comes. */
  async archive(path = '', options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const input = { path: { id: this.id, path } };
    return bodyOf(
      await this.transport.open('downloadArchive', input, { ...this.long(options), accept: '*/*' }),
    );
  }

  /** Unpacks a plain tar archive into a folder, which is made when it is missing. */
  async unpack(path: string, archive: Bytes, options: CallOptions = {}): Promise<Unpacked> {
    const input = { path: { id: this.id, path }, body: archive };
    return this.transport.call('uploadArchive', input, this.long(options));
  }

  /** Changes below a path; resolves when nothing is missed any more. A connection that breaks is an error. */
  async watch(path = '', options: CallOptions & { readonly recursive?: boolean } = {}): Promise<Watch> {
    const { hangUp, options: inner } = withHangUp(options);
    const input = { path: { id: this.id, path }, query: { recursive: options.recursive } };
    const events = await openEvents(this.transport, 'watchFiles', input, inner);
    await events.next(); // `ready`
    return new Watch(events, hangUp);
  }

  private open(path: string, options: ReadOptions, etag?: string): Promise<Opened> {
    const headers = { Range: rangeText(options.range), 'If-None-Match': etag };
    const input = { path: { id: this.id, path }, headers };
    return this.transport.open('downloadFile', input, { ...this.long(options), accept: '*/*', also: [304] });
  }

  private long<T extends CallOptions>(options: T): T {
    return { ...options, timeoutMs: options.timeoutMs ?? this.transport.settings.longTimeoutMs };
  }
}

/** The body as it comes. The deadline ends with it. */
export function bodyOf({ response, deadline }: Opened): ReadableStream<Uint8Array> {
  const reader = (response.body ?? new Response('').body)?.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const piece = await reader?.read();
        if (piece === undefined || piece.done) {
          deadline.close();
          controller.close();
        } else {
          controller.enqueue(piece.value);
        }
      } catch (error) {
        deadline.close();
        controller.error(deadline.ended ?? new ConnectionLostError('the answer broke off', true, error));
      }
    },
    cancel() {
      deadline.cut();
    },
  });
}
