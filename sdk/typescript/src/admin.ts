// Who may call, who called, and what rules put into requests.
import type {
  AuditPage,
  AuditRow,
  ImportCount,
  ImportRequest,
  NewToken,
  Token,
  TokenRequest,
  User,
  UserRequest,
  Verdict,
} from './contract/models.js';
import type { Operations } from './contract/operations.js';
import type { CallOptions } from './settings.js';
import type { Transport } from './transport.js';

const pageRows = 1000;

type AuditQuery = NonNullable<Operations['queryAudit']['input']['query']>;

export class Audit {
  constructor(private readonly transport: Transport) {}

  /** One page. */
  async query(query: AuditQuery = {}, options: CallOptions = {}): Promise<AuditPage> {
    return this.transport.call('queryAudit', { query }, options);
  }

  /** All rows that fit, page by page; newest first where `before` is given. */
  async *rows(query: AuditQuery = {}, options: CallOptions = {}): AsyncGenerator<AuditRow, void, undefined> {
    const limit = query.limit ?? pageRows;
    let at: AuditQuery = { ...query, limit };
    for (;;) {
      const { rows, next_after } = await this.query(at, options);
      yield* rows;
      if (rows.length < limit) return;
      at = at.before === undefined ? { ...at, after: next_after } : { ...at, before: next_after };
    }
  }

  /** Whether the chain is whole. */
  async verify(options: CallOptions = {}): Promise<Verdict> {
    const timeoutMs = options.timeoutMs ?? this.transport.settings.longTimeoutMs;
    return this.transport.call('verifyAudit', {}, { ...options, timeoutMs });
  }
}

export class Tokens {
  constructor(private readonly transport: Transport) {}

  /** Its text is shown once and kept nowhere. */
  async create(request: TokenRequest, options: CallOptions = {}): Promise<NewToken> {
    return this.transport.call('createToken', { body: request }, options);
  }

  async list(options: CallOptions = {}): Promise<Token[]> {
    return (await this.transport.call('listTokens', {}, options)).tokens;
  }

  async revoke(id: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('revokeToken', { path: { id } }, options);
  }
}

export class Users {
  constructor(private readonly transport: Transport) {}

  async list(options: CallOptions = {}): Promise<User[]> {
    return (await this.transport.call('listUsers', {}, options)).users;
  }

  /** Says who a tenant is. */
  async put(tenant: string, user: UserRequest, options: CallOptions = {}): Promise<User> {
    return this.transport.call('putUser', { path: { id: tenant }, body: user }, options);
  }

  async remove(tenant: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeUser', { path: { id: tenant } }, options);
  }

  /** Takes over the list of a sandboxer server. */
  async importListings(request: ImportRequest, options: CallOptions = {}): Promise<ImportCount> {
    return this.transport.call('importListings', { body: request }, options);
  }
}

export class Secrets {
  constructor(private readonly transport: Transport) {}

  /** Names only. */
  async list(options: CallOptions = {}): Promise<string[]> {
    return (await this.transport.call('listSecrets', {}, options)).secrets.map(({ name }) => name);
  }

  async put(name: string, value: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('putSecret', { path: { id: name }, body: { value } }, options);
  }

  async remove(name: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call('removeSecret', { path: { id: name } }, options);
  }
}
