// Where a request goes. fetch() resolves `.` and `..` in an address before it is sent, so a path that holds one would
// reach another route: nothing that a caller gives is ever a segment of that kind.
import { ArgumentError } from './errors.js';

type Value = string | number | boolean | undefined;

function segment(name: string, value: Value): string {
  const text = String(value ?? '');
  if (text === '' || text === '.' || text === '..') {
    throw new ArgumentError(name, `${name} is "${text}": want the id or name of something`);
  }
  return encodeURIComponent(text);
}

// With its slashes encoded, too, wherever a part is empty, `.` or `..`: the server sees the path as it was written, and
// refuses `..` in its own words.
function filePath(path: string): string {
  if (path === '') return '';
  const parts = path.split('/');
  const plain = parts.every((part) => part !== '' && part !== '.' && part !== '..');
  if (plain) return parts.map(encodeURIComponent).join('/');
  return encodeURIComponent(parts.length === 1 ? `./${path}` : path);
}

// Of a program inside: path and query go through as they are.
function portPath(path: string): string {
  const tail = path.replace(/^\//, '').replaceAll('#', '%23');
  const parts = (tail.split('?')[0] ?? '').split(/[/\\]/);
  if (parts.some((part) => /^(\.|%2e){1,2}$/i.test(part))) {
    throw new ArgumentError('path', `path is "${path}": "." and ".." do not reach the program inside`);
  }
  return tail;
}

/** The path of an operation with its names filled in. */
export function fillPath(template: string, values: Readonly<Record<string, Value>>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (name !== 'path') return segment(name, value);
    return template.includes('/ports/') ? portPath(String(value)) : filePath(String(value));
  });
}

/** `?a=1&b=2`, or nothing. */
export function queryText(values: Readonly<Record<string, Value>> | undefined): string {
  let text = '';
  for (const name in values) {
    const value = values[name];
    if (value === undefined) continue;
    text += `${text === '' ? '?' : '&'}${name}=${encodeURIComponent(value)}`;
  }
  return text;
}
