// Who may do what, and who did: tokens, users, secrets, the audit, the server itself.
import { call, segment, send } from './client';
import type { AuditPage, NewToken, Scope, ServerInfo, Token, User, Verdict } from './types';

export const getServer = () => call<ServerInfo>('GET', '/api/v1/server');
export const logIn = (token: string) =>
  call<{ status: string }>('POST', '/auth/token', { body: { token } });
// The answer is a redirect to the login page of an older kind of client; we stay where we are.
export const logOut = () =>
  fetch('/auth/logout', { method: 'POST', redirect: 'manual', credentials: 'same-origin' });

export interface AuditQuery {
  after?: number;
  before?: number;
  limit?: number;
  sandbox?: string;
  action?: string;
  outcome?: string;
  tenant?: string;
}
export const kSequenceMax = Number.MAX_SAFE_INTEGER;
export const queryAudit = (query: AuditQuery, signal?: AbortSignal) =>
  call<AuditPage>('GET', '/api/v1/audit', { query: { ...query }, signal });
export const verifyAudit = () => call<Verdict>('GET', '/api/v1/audit/verify');

export const listTokens = async () =>
  (await call<{ tokens: Token[] }>('GET', '/api/v1/tokens')).tokens;
export const createToken = (body: {
  tenant?: string;
  label?: string;
  scopes: Scope[];
  expires_seconds?: number;
  max_sandboxes?: number;
}) => call<NewToken>('POST', '/api/v1/tokens', { body });
export const revokeToken = (id: string) => call<void>('DELETE', `/api/v1/tokens/${segment(id)}`);

export const listUsers = async () => (await call<{ users: User[] }>('GET', '/api/v1/users')).users;
export const putUser = (tenant: string, body: { name: string; email: string }) =>
  call<User>('PUT', `/api/v1/users/${segment(tenant)}`, { body });
export const removeUser = (tenant: string) =>
  call<void>('DELETE', `/api/v1/users/${segment(tenant)}`);

export const listSecrets = async () =>
  (await call<{ secrets: { name: string }[] }>('GET', '/api/v1/secrets')).secrets;
export const putSecret = (name: string, value: string) =>
  call<void>('PUT', `/api/v1/secrets/${segment(name)}`, { body: { value } });
export const removeSecret = (name: string) =>
  call<void>('DELETE', `/api/v1/secrets/${segment(name)}`);

export const readMetrics = async () => (await send('GET', '/metrics')).text();
