// Judges an answer by the contract: what is missing, what is of another type, and what the contract does not name.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  oneOf?: Schema[];
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: boolean | Schema;
  items?: Schema;
}

export interface Contract {
  paths: Record<string, Record<string, ContractOperation>>;
  components: { schemas: Record<string, Schema> };
}

interface ContractOperation {
  operationId: string;
  responses: Record<string, { $ref?: string; content?: Record<string, { schema?: Schema }> }>;
}

export const contractPath =
  process.env.CAISSON_CONTRACT ?? join(import.meta.dirname, '../../../api/openapi.yaml');

export function readContract(): Contract {
  return parse(readFileSync(contractPath, 'utf8')) as Contract;
}

function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value;
}

function fitsType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value);
  return typeName(value) === type;
}

/** Complaints about a value; none when it fits. */
export function complaints(contract: Contract, schema: Schema, value: unknown, at = '$'): string[] {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1) ?? '';
    const target = contract.components.schemas[name];
    return target === undefined ? [`${at}: no schema ${name}`] : complaints(contract, target, value, at);
  }
  if (schema.oneOf !== undefined) {
    const all = schema.oneOf.map((one) => complaints(contract, one, value, at));
    return all.some((one) => one.length === 0) ? [] : all.flat();
  }
  if (schema.const !== undefined && value !== schema.const)
    return [`${at}: ${String(value)} is not the constant`];
  if (schema.enum !== undefined && !schema.enum.includes(value))
    return [`${at}: ${String(value)} is not in the list`];
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.some((type) => fitsType(value, type))) {
    return [`${at}: ${typeName(value)} instead of ${types.join(' or ')}`];
  }
  if (Array.isArray(value)) {
    return value.flatMap((item, i) => complaints(contract, schema.items ?? {}, item, `${at}[${i}]`));
  }
  if (typeName(value) === 'object')
    return objectComplaints(contract, schema, value as Record<string, unknown>, at);
  return [];
}

function objectComplaints(
  contract: Contract,
  schema: Schema,
  value: Record<string, unknown>,
  at: string,
): string[] {
  const found = (schema.required ?? [])
    .filter((name) => !(name in value))
    .map((name) => `${at}.${name} is missing`);
  for (const [name, field] of Object.entries(value)) {
    const own = schema.properties?.[name];
    const more = schema.additionalProperties;
    if (own !== undefined) found.push(...complaints(contract, own, field, `${at}.${name}`));
    else if (typeof more === 'object') found.push(...complaints(contract, more, field, `${at}.${name}`));
    else if (schema.properties !== undefined) found.push(`${at}.${name} is not in the contract`);
  }
  return found;
}

/** The schema of a good JSON answer of each operation, by its id. */
export function answerSchemas(contract: Contract): Map<string, Schema> {
  const found = new Map<string, Schema>();
  for (const item of Object.values(contract.paths)) {
    for (const operation of Object.values(item)) {
      for (const [status, response] of Object.entries(operation.responses ?? {})) {
        const schema = response.content?.['application/json']?.schema;
        if (/^2/.test(status) && schema !== undefined) found.set(operation.operationId, schema);
      }
    }
  }
  return found;
}
