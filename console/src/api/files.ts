import { call, send } from './client';
import { urlPath } from '../lib/paths';
import { at } from './sandboxes';
import type { FileEntry } from './types';

export const listFolder = async (id: string, path: string) =>
  (await call<{ entries: FileEntry[] }>('GET', `${at(id)}/list/${urlPath(path)}`)).entries;
export const stat = (id: string, path: string) =>
  call<FileEntry>('GET', `${at(id)}/stat/${urlPath(path)}`);
export const fileAddress = (id: string, path: string) => `${at(id)}/files/${urlPath(path)}`;
export const archiveAddress = (id: string, path: string) => `${at(id)}/archive/${urlPath(path)}`;
export const readFile = (id: string, path: string) => send('GET', fileAddress(id, path));
export const writeFile = (
  id: string,
  path: string,
  body: BodyInit,
  etag?: string,
  signal?: AbortSignal,
) =>
  call<{ path: string; size: number; etag: string }>('PUT', fileAddress(id, path), {
    raw: body,
    signal,
    headers: {
      'Content-Type': 'application/octet-stream',
      ...(etag ? { 'If-Match': etag } : {}),
    },
  });
// A new file must not take the place of one that is there.
export const createFile = (id: string, path: string) =>
  call<{ path: string }>('PUT', fileAddress(id, path), {
    raw: '',
    headers: { 'Content-Type': 'application/octet-stream', 'If-None-Match': '*' },
  });
export const removeFile = (id: string, path: string, recursive: boolean) =>
  call<{ removed: number }>('DELETE', fileAddress(id, path), { query: { recursive } });
export const makeFolder = (id: string, path: string) =>
  call<{ path: string }>('POST', `${at(id)}/mkdir`, { body: { path, parents: false } });
export const moveFile = (id: string, from: string, to: string) =>
  call<{ to: string }>('POST', `${at(id)}/move`, { body: { from, to, replace: false } });
