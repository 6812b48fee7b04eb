// What a caller gives never changes which route is asked.
import { expect, test } from 'vitest';
import { fillPath, queryText } from '../src/address.js';
import { ArgumentError, Client } from '../src/index.js';

const file = (path: string) => fillPath('/s/{id}/files/{path}', { id: 'x', path });
const port = (path: string) => fillPath('/s/{id}/ports/{port}/{path}', { id: 'x', port: 80, path });
const asSent = (path: string) => new URL(`http://h${path}`).pathname;

test.each([
  ['a.txt', '/s/x/files/a.txt'],
  ['a b/ü?#.txt', '/s/x/files/a%20b/%C3%BC%3F%23.txt'],
  ['/etc/hostname', '/s/x/files/%2Fetc%2Fhostname'],
  ['', '/s/x/files/'],
  ['.', '/s/x/files/.%2F.'],
  ['..', '/s/x/files/.%2F..'],
  ['../../tokens', '/s/x/files/..%2F..%2Ftokens'],
  ['a/../b', '/s/x/files/a%2F..%2Fb'],
  ['%2e%2e/b', '/s/x/files/%252e%252e/b'],
  ['a\\..\\b', '/s/x/files/a%5C..%5Cb'],
])('the file %j stays in its route', (path, wanted) => {
  expect(file(path)).toBe(wanted);
  expect(asSent(file(path))).toBe(wanted);
});

test.each(['', '.', '..'])('%j is no id', (id) => {
  expect(() => fillPath('/s/{id}', { id })).toThrow(ArgumentError);
});

test('an id is one segment, whatever it holds', () => {
  expect(asSent(fillPath('/s/{id}', { id: '../x?y#z' }))).toBe('/s/..%2Fx%3Fy%23z');
});

test('path and query of a port go through as they are', () => {
  expect(port('/a/%20b?c=d&e')).toBe('/s/x/ports/80/a/%20b?c=d&e');
  expect(port('a#b')).toBe('/s/x/ports/80/a%23b');
});

test.each(['..', 'a/../..', '%2E%2e/x', 'a\\..', '.%2e'])('%j does not leave its port', (path) => {
  expect(() => port(path)).toThrow(ArgumentError);
});

test('a query leaves out what is undefined', () => {
  expect(queryText({ a: undefined, b: false, c: 'x y&z' })).toBe('?b=false&c=x%20y%26z');
  expect(queryText({})).toBe('');
});

test.each([
  { url: 'localhost:8080' },
  { url: 'ftp://host' },
  { url: 'http://user@host' },
  { url: 'http://host/?token=x' },
  { token: 'two words' },
  { token: 'line\nbreak' },
  { retries: -1 },
  { timeoutMs: 0 },
])('a client is not made of %j', (options) => {
  expect(() => new Client(options)).toThrow(ArgumentError);
});

test('a path of the url stays, its last slash does not', () => {
  expect(new Client({ url: 'https://host/caisson/' }).url).toBe('https://host/caisson');
});
