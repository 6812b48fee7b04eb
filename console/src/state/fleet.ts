// All sandboxes of the tenant, kept true by the server's events: few changes are asked for one by
// one, many at once by one list call, and a list is asked for at most every half second.
import { computed, signal } from '@preact/signals';
import { isAbort, isStatus } from '../api/client';
import { getSandbox, listSandboxes } from '../api/sandboxes';
import { stream } from '../api/stream';
import type { FleetEvent, Sandbox } from '../api/types';
import { complain } from './toasts';

const kPauseMs = 500;
const kSinglesMax = 4; // more changed ones than this are worth a list call
const kEndedMax = 500; // remembered after their end
const kAgainMs = 3000; // after a list call that failed
const kRetryMs = [500, 1000, 2000, 5000];

export const fleet = signal<ReadonlyMap<string, Sandbox>>(new Map());
export const loaded = signal(false);
export const live = signal(false); // events arrive
export const all = computed(() =>
  [...fleet.value.values()].sort((a, b) =>
    a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0,
  ),
);

type Listener = (event: FleetEvent) => void;
const listeners = new Set<Listener>();
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function put(sandbox: Sandbox): void {
  const next = new Map(fleet.value);
  next.set(sandbox.id, sandbox);
  fleet.value = next;
}

export function markEnded(id: string, reason = ''): void {
  const known = fleet.value.get(id);
  if (known && known.state !== 'ended')
    put({ ...known, state: 'ended', end_reason: reason || known.end_reason });
}

// Who is not in the list any more has ended.
function replaceAll(list: Sandbox[]): void {
  const next = new Map<string, Sandbox>();
  const living = new Set(list.map((sandbox) => sandbox.id));
  const ended = [...fleet.value.values()]
    .filter((sandbox) => !living.has(sandbox.id))
    .slice(-kEndedMax);
  for (const sandbox of ended) next.set(sandbox.id, { ...sandbox, state: 'ended' });
  for (const sandbox of list) next.set(sandbox.id, sandbox);
  fleet.value = next;
  loaded.value = true;
}

// Ended ones that somebody knows from elsewhere, such as the audit.
export function addEnded(list: Sandbox[]): void {
  const next = new Map(fleet.value);
  for (const sandbox of list.slice(-kEndedMax)) {
    if (!next.has(sandbox.id)) next.set(sandbox.id, sandbox);
  }
  fleet.value = next;
}

const dirty = new Set<string>();
let wantsAll = false;
let timer: ReturnType<typeof setTimeout> | undefined;
let busy = false;

function soon(): void {
  if (timer !== undefined || busy) return;
  timer = setTimeout(refresh, kPauseMs);
}

async function refresh(): Promise<void> {
  timer = undefined;
  busy = true;
  const ids = [...dirty];
  const everything = wantsAll || ids.length > kSinglesMax;
  dirty.clear();
  wantsAll = false;
  try {
    if (everything) replaceAll(await listSandboxes());
    else for (const id of ids) await refreshOne(id);
  } catch (error) {
    if (!isStatus(error, 0)) complain(error);
    if (everything) setTimeout(reload, kAgainMs);
  } finally {
    busy = false;
    if (dirty.size > 0 || wantsAll) soon();
  }
}

async function refreshOne(id: string): Promise<void> {
  try {
    put(await getSandbox(id));
  } catch (error) {
    if (isStatus(error, 404) || isStatus(error, 410)) markEnded(id);
    else throw error;
  }
}

export function touch(id: string): void {
  dirty.add(id);
  soon();
}

export function reload(): void {
  wantsAll = true;
  soon();
}

// The stream begins with what the server still remembers, which the list has anyway.
let freshFrom = 0;
const kClockSlackMs = 2000;

function take(event: FleetEvent): void {
  if (Date.parse(event.time) < freshFrom) return;
  if (event.type === 'sandbox.ended') {
    dirty.delete(event.sandbox); // nobody needs to ask for it any more
    markEnded(event.sandbox, String(event.data?.reason ?? ''));
  } else if (event.type.startsWith('sandbox.') && event.sandbox !== '') touch(event.sandbox);
  for (const listener of listeners) listener(event);
}

let stop: AbortController | undefined;

// Follows the events for as long as the page lives. A server that was restarted counts anew, so
// each connection begins with a list and takes events from then on.
export async function follow(): Promise<void> {
  stop?.abort();
  const own = (stop = new AbortController());
  for (let tries = 0; !own.signal.aborted; tries += 1) {
    try {
      await stream(
        'GET',
        '/api/v1/events',
        { signal: own.signal },
        (event) => {
          take(JSON.parse(event.data) as FleetEvent);
        },
        (response) => {
          // By the server's clock, not ours.
          freshFrom = Date.parse(response.headers.get('Date') ?? '') - kClockSlackMs || 0;
          live.value = true;
          tries = 0;
          void firstList();
        },
      );
    } catch (error) {
      if (isAbort(error)) return;
      if (isStatus(error, 401)) return;
    }
    live.value = false;
    await new Promise((resolve) =>
      setTimeout(resolve, kRetryMs[Math.min(tries, kRetryMs.length - 1)]),
    );
  }
}

// At once, not half a second later: somebody waits for it.
async function firstList(): Promise<void> {
  try {
    replaceAll(await listSandboxes());
  } catch (error) {
    complain(error);
    setTimeout(reload, kAgainMs);
  }
}

export function unfollow(): void {
  stop?.abort();
  live.value = false;
}
