// What can go wrong. An ApiError is the server's own word, with one class per code of the contract; the others are
// the client's: the input is wrong, nobody answered, it took too long, or the answer makes no sense.
import type { ErrorBody, ErrorCode } from './contract/models.js';

export class CaissonError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** An argument that no request can be made of. */
export class ArgumentError extends CaissonError {
  constructor(
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

/** No answer came, or a stream broke off. */
export class ConnectionLostError extends CaissonError {
  constructor(
    message: string,
    /** Whether the server may have got the request, and so may have done it. */
    readonly sent: boolean,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** The time that the caller of this client allowed is over. */
export class DeadlineError extends CaissonError {
  constructor(
    readonly timeoutMs: number,
    message = `no answer within ${timeoutMs} ms: raise timeoutMs, or ask for less`,
  ) {
    super(message);
  }
}

/** An answer that is not one of caisson's, or larger than its limit. */
export class AnswerError extends CaissonError {}

/** The server said no. */
export class ApiError extends CaissonError {
  /** For programs: an `ErrorCode`, or a word of a newer server. */
  readonly code: string;
  /** Of HTTP; 0 when the error came in the middle of a stream. */
  readonly status: number;
  /** Which part of the input is wrong, such as `resource_limits.cpu`; or empty. */
  readonly field: string;
  readonly details: ErrorBody['error']['details'];
  /** Under which the server's log has it. */
  readonly requestId: string;
  readonly retryAfterMs: number | undefined;

  constructor(body: ErrorBody, status = 0, retryAfterMs?: number) {
    super(body.error.message);
    this.code = body.error.code;
    this.status = status;
    this.details = body.error.details ?? {};
    this.field = this.details.field ?? '';
    this.requestId = body.error.request_id ?? '';
    this.retryAfterMs = retryAfterMs;
  }
}

export class InvalidArgumentError extends ApiError {}
export class NotFoundError extends ApiError {}
export class AlreadyExistsError extends ApiError {}
export class DeniedError extends ApiError {}
export class UnauthenticatedError extends ApiError {}
export class UnsupportedError extends ApiError {}
export class ExhaustedError extends ApiError {}
export class TooLargeError extends ApiError {}
export class TimedOutError extends ApiError {}
export class BusyError extends ApiError {}
export class GoneError extends ApiError {}
export class LauncherGoneError extends ApiError {}
export class StoreFullError extends ApiError {}
export class ProtocolError extends ApiError {}
export class InternalError extends ApiError {}
export class MethodNotAllowedError extends ApiError {}
export class UnsupportedMediaTypeError extends ApiError {}
export class UpgradeRequiredError extends ApiError {}
export class PreconditionFailedError extends ApiError {}
export class RangeNotSatisfiableError extends ApiError {}
export class MisdirectedHostError extends ApiError {}
export class StoppingError extends ApiError {}

/** Of a merge: files were changed on both sides, and nothing was applied. */
export class ConflictError extends ApiError {
  /** The first paths that were changed on both sides. */
  get conflicts(): readonly string[] {
    return this.details.conflicts ?? [];
  }
  get total(): number {
    return this.details.conflicts_total ?? this.conflicts.length;
  }
}

/** The class of each code. The compiler wants every code of the contract here, and no other. */
export const errorClasses: Record<ErrorCode, typeof ApiError> = {
  InvalidArgument: InvalidArgumentError,
  NotFound: NotFoundError,
  AlreadyExists: AlreadyExistsError,
  Denied: DeniedError,
  Unauthenticated: UnauthenticatedError,
  Unsupported: UnsupportedError,
  Exhausted: ExhaustedError,
  TooLarge: TooLargeError,
  TimedOut: TimedOutError,
  Busy: BusyError,
  Gone: GoneError,
  LauncherGone: LauncherGoneError,
  StoreFull: StoreFullError,
  Protocol: ProtocolError,
  Internal: InternalError,
  MethodNotAllowed: MethodNotAllowedError,
  UnsupportedMediaType: UnsupportedMediaTypeError,
  UpgradeRequired: UpgradeRequiredError,
  Conflict: ConflictError,
  PreconditionFailed: PreconditionFailedError,
  RangeNotSatisfiable: RangeNotSatisfiableError,
  MisdirectedHost: MisdirectedHostError,
  Stopping: StoppingError,
};

function isErrorBody(value: unknown): value is ErrorBody {
  const error = (value as Partial<ErrorBody> | null)?.error;
  return typeof error?.code === 'string' && typeof error.message === 'string';
}

/** The error that these parts of an answer stand for. */
export function errorOf(body: unknown, status = 0, retryAfterMs?: number): CaissonError {
  if (!isErrorBody(body)) {
    return new AnswerError(`status ${status} without an error of caisson's: is a proxy in between?`);
  }
  const known = Object.hasOwn(errorClasses, body.error.code);
  const Class = known ? errorClasses[body.error.code] : ApiError;
  return new Class(body, status, retryAfterMs);
}
