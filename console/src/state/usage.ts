// What the sandboxes on screen use: one question for all of them every few seconds, and none while
// the page is hidden.
import { batch, signal, type Signal } from '@preact/signals';
import { getUsages, kUsageIdsMax } from '../api/sandboxes';
import type { Usage } from '../api/types';

export interface Sample {
  at: number; // milliseconds
  cpu: number; // cores, since the sample before
  memory: number; // bytes
  usage: Usage;
}

const kEveryMs = 2500;
const kSamplesMax = 30;
const kHistoriesMax = 600;

const histories = new Map<string, Signal<Sample[]>>();
const watched = new Map<string, number>(); // id to how many look at it

export function history(id: string): Signal<Sample[]> {
  let found = histories.get(id);
  if (!found) {
    found = signal<Sample[]>([]);
    histories.set(id, found);
    if (histories.size > kHistoriesMax) forgetOldest();
  }
  return found;
}

function forgetOldest(): void {
  for (const id of histories.keys()) {
    if (!watched.has(id)) {
      histories.delete(id);
      return;
    }
  }
}

export function watch(id: string): () => void {
  watched.set(id, (watched.get(id) ?? 0) + 1);
  begin();
  return () => {
    const left = (watched.get(id) ?? 1) - 1;
    if (left > 0) watched.set(id, left);
    else watched.delete(id);
  };
}

function add(id: string, usage: Usage, at: number): void {
  const list = history(id).value;
  const last = list[list.length - 1];
  const seconds = last ? (at - last.at) / 1000 : 0;
  const cpu =
    last && seconds > 0 ? Math.max(0, usage.cpu_seconds - last.usage.cpu_seconds) / seconds : 0;
  history(id).value = [...list, { at, cpu, memory: usage.memory_bytes, usage }].slice(-kSamplesMax);
}

async function sample(ids: string[]): Promise<void> {
  try {
    const usages = await getUsages(ids);
    const at = Date.now();
    batch(() => {
      for (const [id, usage] of Object.entries(usages)) add(id, usage, at);
    });
  } catch {
    // The next round tells. A sparkline is not worth a message.
  }
}

let timer: ReturnType<typeof setTimeout> | undefined;
let running = false;

function begin(): void {
  // A moment later, so that rows which only pass by while somebody scrolls are not asked for.
  if (timer === undefined && !running) timer = setTimeout(round, 200);
}

async function round(): Promise<void> {
  timer = undefined;
  running = true;
  const started = Date.now();
  if (!document.hidden) {
    const ids = [...watched.keys()];
    for (let from = 0; from < ids.length; from += kUsageIdsMax)
      await sample(ids.slice(from, from + kUsageIdsMax));
  }
  running = false;
  if (watched.size > 0) timer = setTimeout(round, Math.max(500, kEveryMs - (Date.now() - started)));
}
