// One end for a call, whoever sets it: the clock, or the caller's own signal.
import { DeadlineError } from './errors.js';

export class Deadline {
  private readonly controller = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private reason: unknown;
  private readonly onAbort = () => this.end(this.outer?.reason);

  constructor(
    timeoutMs: number,
    private readonly outer?: AbortSignal | undefined,
  ) {
    this.extend(timeoutMs);
    if (outer?.aborted === true) this.end(outer.reason);
    else outer?.addEventListener('abort', this.onAbort);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Why it ended, if it has. */
  get ended(): unknown {
    return this.reason;
  }

  /** Counts from now on. */
  extend(timeoutMs: number, message?: string): void {
    clearTimeout(this.timer);
    if (this.reason !== undefined) return;
    this.timer = setTimeout(() => this.end(new DeadlineError(timeoutMs, message)), timeoutMs);
  }

  /** The clock counts no more; the caller's signal does. */
  disarm(): void {
    clearTimeout(this.timer);
  }

  /** The call is over, and nothing of it is left behind. */
  close(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener('abort', this.onAbort);
  }

  /** The same, and what is still open is cut off. */
  cut(): void {
    this.close();
    this.controller.abort();
  }

  private end(reason: unknown): void {
    this.close();
    this.reason = reason ?? new DOMException('the call was aborted', 'AbortError');
    this.controller.abort(this.reason);
  }
}

/** Resolves after this time, rejects when the deadline is there first. */
export function pause(ms: number, deadline: Deadline): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = () => {
      clearTimeout(timer);
      reject(deadline.ended);
    };
    const timer = setTimeout(() => {
      deadline.signal.removeEventListener('abort', fail);
      resolve();
    }, ms);
    if (deadline.signal.aborted) fail();
    else deadline.signal.addEventListener('abort', fail, { once: true });
  });
}
