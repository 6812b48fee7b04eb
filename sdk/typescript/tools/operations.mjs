// The table of the contract's operations: what each one takes and answers, as types and as data.
import { banner, comment, resolve, typeOf } from './models.mjs';

const methods = ['get', 'head', 'post', 'put', 'patch', 'delete'];
const lineMax = 110;
// A header that the client sets by itself is no input of its callers.
const ownHeaders = new Set(['Sec-WebSocket-Protocol', 'Last-Event-ID', 'Idempotency-Key']);

function* operationsOf(document) {
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of methods) {
      const operation = item[method];
      if (operation === undefined) continue;
      const parameters = (operation.parameters ?? []).map((one) => resolve(document, one));
      yield { path, method, operation, parameters };
    }
  }
}

const isBinary = (content) => content.schema?.format === 'binary';

// How the body is sent: `json`, `bytes` or not at all.
function sends(operation) {
  const content = operation.requestBody?.content;
  if (content === undefined) return 'nothing';
  return 'application/json' in content && !isBinary(content['application/json']) ? 'json' : 'bytes';
}

// What a good answer is. Where it can be JSON or a stream, JSON is what is asked for by default.
function answers(document, method, operation) {
  const good = Object.entries(operation.responses).filter(([status]) => /^2/.test(status));
  if (good.length === 0) return 'default' in operation.responses ? 'raw' : 'socket';
  const content = resolve(document, good[0][1]).content;
  if (content === undefined) return method === 'head' ? 'raw' : 'nothing';
  if ('application/json' in content && !isBinary(content['application/json'])) return 'json';
  if ('text/event-stream' in content) return 'events';
  const [first] = Object.values(content);
  return isBinary(first) ? 'bytes' : 'text';
}

function answerType(document, operation, kind) {
  if (kind === 'nothing') return 'void';
  if (kind === 'text') return 'string';
  if (kind !== 'json') return 'Response';
  const status = Object.keys(operation.responses).find((one) => /^2/.test(one));
  const content = resolve(document, operation.responses[status]).content;
  return typeOf(content['application/json'].schema, '    ', 'models.');
}

function fields(parameters, where) {
  return parameters
    .filter((one) => one.in === where && !ownHeaders.has(one.name))
    .map((one) => {
      const name = /^\w+$/.test(one.name) ? one.name : `'${one.name}'`;
      const type = typeOf(one.schema, '', 'models.');
      return one.required ? `${name}: ${type}` : `${name}?: ${type} | undefined`;
    });
}

function inputType(operation, parameters, kind) {
  const parts = [];
  for (const [name, where] of [
    ['path', 'path'],
    ['query', 'query'],
    ['headers', 'header'],
  ]) {
    const own = fields(parameters, where);
    if (own.length === 0) continue;
    const optional = own.every((field) => /^[^:]*\?:/.test(field));
    const line = `      ${name}${optional ? '?' : ''}: { ${own.join('; ')} };\n`;
    const lines = own.map((field) => `        ${field};\n`).join('');
    parts.push(line.length <= lineMax ? line : `      ${name}${optional ? '?' : ''}: {\n${lines}      };\n`);
  }
  if (kind !== 'nothing') {
    const schema = operation.requestBody.content['application/json']?.schema;
    const type = kind === 'json' ? typeOf(schema, '      ', 'models.') : 'Bytes';
    const mark = operation.requestBody.required ? '' : '?';
    parts.push(`      body${mark}: ${type}${mark && ' | undefined'};\n`);
  }
  return parts.length === 0 ? 'NoInput' : `{\n${parts.join('')}    }`;
}

export function operationsText(document) {
  let types = '';
  let table = '';
  for (const { path, method, operation, parameters } of operationsOf(document)) {
    const name = operation.operationId;
    const body = sends(operation);
    const answer = answers(document, method, operation);
    types += comment(`${operation.summary}.`, '  ');
    types += `  ${name}: {\n    input: ${inputType(operation, parameters, body)};\n`;
    types += `    answer: ${answerType(document, operation, answer)};\n  };\n`;
    const keyed = parameters.some((one) => one.name === 'Idempotency-Key');
    table += `  ${name}: {\n    method: '${method.toUpperCase()}',\n    path: '${path}',\n`;
    table += `    sends: '${body}',\n    answers: '${answer}',\n    scope: '${operation['x-caisson-scope']}',\n`;
    table += `    keyed: ${keyed},\n  },\n`;
  }
  return `${banner}import type { Bytes } from '../bytes.js';
import type * as models from './models.js';

export type NoInput = Record<string, never>;

/** What each operation takes and answers, by its operationId. */
export interface Operations {
${types}}

export type OperationId = keyof Operations;

export interface OperationSpec {
  readonly method: string;
  readonly path: string;
  /** Of the body. */
  readonly sends: 'nothing' | 'json' | 'bytes';
  readonly answers: 'nothing' | 'json' | 'text' | 'bytes' | 'events' | 'socket' | 'raw';
  /** What a token must have for it. */
  readonly scope: 'none' | 'read' | 'use' | 'create' | 'admin';
  /** It takes an idempotency key, so that it can be sent again. */
  readonly keyed: boolean;
}

export const operations = {
${table}} as const satisfies Record<OperationId, OperationSpec>;
`;
}
