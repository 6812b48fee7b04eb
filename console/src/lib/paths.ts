// Paths inside a sandbox: always absolute, always with '/', whatever their names hold.

// For the address of a request. The leading slash is written as %2F, since some proxies make one
// slash of two.
export const urlPath = (path: string): string =>
  '%2F' + path.replace(/^\/+/, '').split('/').map(encodeURIComponent).join('/');

export function join(folder: string, name: string): string {
  return folder.endsWith('/') ? folder + name : `${folder}/${name}`;
}

export function parent(path: string): string {
  const at = path.replace(/\/+$/, '').lastIndexOf('/');
  return at <= 0 ? '/' : path.slice(0, at);
}

export const baseName = (path: string): string => path.replace(/\/+$/, '').split('/').pop() ?? '';

// What a person typed: absolute, without empty parts, "." and "..". Relative means the workspace.
export function tidy(path: string, from = '/workspace'): string {
  const whole = path.startsWith('/') ? path : `${from}/${path}`;
  const out: string[] = [];
  for (const part of whole.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') out.pop();
    else out.push(part);
  }
  return '/' + out.join('/');
}

// "/a/b" as "/", "a", "b" with the path of each.
export function crumbs(path: string): { name: string; path: string }[] {
  const out = [{ name: '/', path: '/' }];
  let at = '';
  for (const part of path.split('/').filter((piece) => piece !== '')) {
    at += `/${part}`;
    out.push({ name: part, path: at });
  }
  return out;
}

export type Showing = 'text' | 'image' | 'none';
const kImages = new Set(['png', 'jpg', 'jpeg', 'gif', 'webp', 'avif', 'bmp', 'ico', 'svg']);
const kBinaries = new Set([
  'zip',
  'gz',
  'xz',
  'bz2',
  'zst',
  'tar',
  'tgz',
  '7z',
  'jar',
  'whl',
  'pdf',
  'mp3',
  'mp4',
  'webm',
  'mkv',
  'mov',
  'avi',
  'ogg',
  'wav',
  'flac',
  'so',
  'o',
  'a',
  'pyc',
  'class',
  'exe',
  'bin',
  'db',
  'sqlite',
  'wasm',
  'woff',
  'woff2',
  'ttf',
]);

export const extension = (name: string): string => {
  const at = name.lastIndexOf('.');
  return at <= 0 ? '' : name.slice(at + 1).toLowerCase();
};

export function showingOf(name: string): Showing {
  const ending = extension(name);
  if (kImages.has(ending)) return 'image';
  return kBinaries.has(ending) ? 'none' : 'text';
}

const kImageTypes: Record<string, string> = {
  jpg: 'image/jpeg',
  ico: 'image/x-icon',
  svg: 'image/svg+xml',
};
export const imageType = (name: string): string =>
  kImageTypes[extension(name)] ?? `image/${extension(name)}`;

// Bytes that a text editor would damage: a NUL, or what is not UTF-8. Nothing then.
export function asText(bytes: Uint8Array): string | undefined {
  if (bytes.subarray(0, 65536).includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
