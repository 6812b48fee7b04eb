// Short messages at the edge of the screen. An error keeps the server's words and its request id.
import { signal } from '@preact/signals';
import { ApiError, isAbort } from '../api/client';

export interface Toast {
  id: number;
  kind: 'info' | 'error';
  text: string;
  code: string;
  requestId: string;
}

const kToastsMax = 5;
const kInfoMs = 4000;
const kErrorMs = 15000;

export const toasts = signal<Toast[]>([]);
let lastId = 0;

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

function show(toast: Omit<Toast, 'id'>, ms: number): void {
  const same = toasts.value.find((other) => other.text === toast.text && other.kind === toast.kind);
  if (same) dismiss(same.id);
  const id = ++lastId;
  toasts.value = [...toasts.value, { ...toast, id }].slice(-kToastsMax);
  setTimeout(() => dismiss(id), ms);
}

export const inform = (text: string) =>
  show({ kind: 'info', text, code: '', requestId: '' }, kInfoMs);

export function complain(error: unknown): void {
  if (isAbort(error)) return;
  if (error instanceof ApiError) {
    if (error.status === 401) return; // the login screen says it
    show(
      { kind: 'error', text: error.message, code: error.code, requestId: error.requestId },
      kErrorMs,
    );
    return;
  }
  const text = error instanceof Error ? error.message : String(error);
  show({ kind: 'error', text, code: '', requestId: '' }, kErrorMs);
}

// Runs something that a button began; false when it failed, which was said then.
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done) inform(done);
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}
