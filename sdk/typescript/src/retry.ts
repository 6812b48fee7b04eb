// When a call may be sent again. The rule is that nothing is ever done twice:
//
// - What only reads, and a PUT without conditions, may be repeated whatever happened.
// - So may a call with an idempotency key: the server keeps the answer, and gives it again. A command is the exception,
//   because the server kills it when its caller is lost: the second one would begin anew what the first one left half
//   done. It is repeated only when the caller chose the key himself.
// - A DELETE that answers nothing may be repeated; that the thing is gone then is what was wanted.
// - Anything else is repeated only when it is certain that the server did nothing: the connection could not be made,
//   or the server refused before it began (429 with Retry-After, 503 Stopping).
import type { OperationSpec } from './contract/operations.js';
import {
  ApiError,
  BusyError,
  ConnectionLostError,
  ExhaustedError,
  LauncherGoneError,
  StoppingError,
} from './errors.js';
import { retryAfterMaxMs, retryPauseMaxMs, retryPauseMs } from './limits.js';

export interface Attempt {
  readonly spec: OperationSpec;
  /** The server knows by its key whether it was done. */
  readonly keyed: boolean;
  /** The body can be sent again. */
  readonly replayable: boolean;
  /** If-Match or If-None-Match: the second time they mean something else. */
  readonly conditional: boolean;
  /** How often it was sent before. */
  readonly before: number;
}

function repeatable({ spec, conditional, keyed }: Attempt): boolean {
  if (spec.method === 'GET' || spec.method === 'HEAD' || keyed) return true;
  if (spec.method === 'DELETE') return spec.answers === 'nothing';
  return spec.method === 'PUT' && !conditional;
}

function nothingWasDone(error: unknown): boolean {
  if (error instanceof ConnectionLostError) return !error.sent;
  if (error instanceof ExhaustedError) return error.retryAfterMs !== undefined;
  return error instanceof StoppingError;
}

// Whether it may have gone when it is asked again: the way to the server, the launcher, a first call under way.
function passes(error: unknown, keyed: boolean): boolean {
  if (error instanceof ConnectionLostError || error instanceof LauncherGoneError) return true;
  return keyed && error instanceof BusyError && error.retryAfterMs !== undefined;
}

/** How long to wait before the next attempt; undefined: there is none. */
export function pauseBeforeRetry(error: unknown, attempt: Attempt): number | undefined {
  const again = nothingWasDone(error) || (passes(error, attempt.keyed) && repeatable(attempt));
  if (!again || !attempt.replayable) return undefined;
  const told = error instanceof ApiError ? error.retryAfterMs : undefined;
  if (told !== undefined) return told <= retryAfterMaxMs ? told : undefined;
  // Spread out, so that many clients do not come back at once.
  const longest = Math.min(retryPauseMs * 2 ** attempt.before, retryPauseMaxMs);
  return longest * (0.5 + Math.random() / 2);
}
