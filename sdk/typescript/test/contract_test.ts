// The package and api/openapi.yaml say the same: whoever changes one must change the other.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
// @ts-expect-error: plain JavaScript, which runs without a build.
import { modelsText } from '../tools/models.mjs';
// @ts-expect-error: the same.
import { operationsText } from '../tools/operations.mjs';
import { errorClasses, errorCodes, errorOf, ApiError } from '../src/index.js';
import { readContract } from './schema.js';

const contract = readContract();
const source = (name: string) => readFileSync(join(import.meta.dirname, '../src/contract', name), 'utf8');
const freshContract = (): any => structuredClone(contract);

describe('what is generated', () => {
  test('fits the contract', () => {
    expect(source('models.ts')).toBe(modelsText(contract));
    expect(source('operations.ts')).toBe(operationsText(contract));
  });

  test.each([
    [
      'a route',
      operationsText,
      (c: ReturnType<typeof freshContract>) => {
        c.paths['/api/v1/new'] = { get: { operationId: 'getNew', summary: 'New', responses: { 204: {} } } };
      },
    ],
    [
      'a parameter',
      operationsText,
      (c: ReturnType<typeof freshContract>) => {
        c.paths['/api/v1/audit'].get.parameters.push({
          name: 'fresh',
          in: 'query',
          schema: { type: 'string' },
        });
      },
    ],
    [
      'a field',
      modelsText,
      (c: ReturnType<typeof freshContract>) => {
        c.components.schemas.Sandbox.properties.fresh = { type: 'string' };
      },
    ],
    [
      'an error',
      modelsText,
      (c: ReturnType<typeof freshContract>) => {
        c.components.schemas.Error.properties.error.properties.code.enum.push('Fresh');
      },
    ],
  ])('shows %s that is new', (_, textOf, change) => {
    const changed = freshContract();
    change(changed);
    expect(textOf(changed)).not.toBe(textOf(contract));
  });
});

describe('errors', () => {
  test('each code has a class of its own', () => {
    expect(Object.keys(errorClasses).sort()).toEqual([...errorCodes].sort());
    expect(new Set(Object.values(errorClasses)).size).toBe(errorCodes.length);
    for (const code of errorCodes) expect(errorClasses[code].name).toBe(`${code}Error`);
  });

  test('a code of a newer server is an ApiError with that code', () => {
    const error = errorOf({ error: { code: 'Fresh', message: 'm', details: {}, request_id: '1' } }, 418);
    expect(error.constructor).toBe(ApiError);
    expect(error).toMatchObject({ code: 'Fresh', message: 'm', status: 418, requestId: '1' });
  });
});
