// @caisson/sdk — a client for caisson, which runs untrusted code in sandboxes. Start at Client.
import './dispose.js';

export { Audit, Secrets, Tokens, Users } from './admin.js';
export { AttachedCommand, Terminal, type TerminalRequest } from './attached.js';
export type { Bytes } from './bytes.js';
export { Client, type ServerEvent } from './client.js';
export { Context, Contexts } from './contexts.js';
export type * from './contract/models.js';
export { errorCodes } from './contract/models.js';
export { type OperationId, type OperationSpec, type Operations, operations } from './contract/operations.js';
export * from './errors.js';
export {
  type ChangeKind,
  type FileChange,
  type FileHead,
  Files,
  type ReadOptions,
  Watch,
  type WriteOptions,
} from './files.js';
export { CodeStream, type Exit, type OutputPiece, OutputStream, type Started, type StreamName } from './output.js';
export { type PortRequest, Ports as SandboxPorts } from './ports.js';
export { Process, Processes } from './processes.js';
export { Sandbox } from './sandbox.js';
export { Sandboxes } from './sandboxes.js';
export type { CallOptions, ClientOptions, Observation } from './settings.js';
export type { SocketClass, SocketLike } from './socket.js';
export { Images, Pull, type PullProgress, Snapshots, Volumes } from './store.js';
