// Who looks at this page, and what he may do. Nothing secret is kept here: the server's cookie is
// out of the reach of scripts.
import { effect, signal } from '@preact/signals';
import { getServer, logIn, logOut } from '../api/admin';
import { ApiError, loggedOut } from '../api/client';
import type { Scope, ServerInfo } from '../api/types';
import { nextAddress } from '../lib/next';

export type Phase = 'asking' | 'out' | 'in' | 'unreachable';

export const phase = signal<Phase>('asking');
export const server = signal<ServerInfo | undefined>(undefined);
export const trouble = signal('');

export async function ask(): Promise<void> {
  try {
    server.value = await getServer();
    const next = nextAddress(location.hash);
    if (next) location.replace(next);
    else phase.value = 'in';
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      phase.value = 'out';
    } else {
      trouble.value = error instanceof Error ? error.message : String(error);
      phase.value = 'unreachable';
    }
  }
}

export async function enter(token: string): Promise<void> {
  await logIn(token);
  // Somebody else may have been here before; nothing of his stays in the page.
  if (server.value) location.reload();
  else await ask();
}

export async function leave(): Promise<void> {
  await logOut();
  server.value = undefined;
  phase.value = 'out';
  // What was loaded belongs to who has left.
  location.hash = '';
  location.reload();
}

// Any call may find out that the session is over.
effect(() => {
  if (loggedOut.value > 0) phase.value = 'out';
});

export function can(scope: Scope): boolean {
  const scopes = server.value?.caller.scopes ?? [];
  return scopes.includes(scope) || scopes.includes('admin');
}
