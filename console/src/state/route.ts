// Which screen: the part of the address behind '#', so the server needs to know one page only.
import { computed, signal } from '@preact/signals';

const read = () => location.hash.replace(/^#\/?/, '').split('/').map(decode);

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const parts = signal<string[]>(read());
export const screen = computed(() => parts.value[0] || 'sandboxes');

addEventListener('hashchange', () => {
  parts.value = read();
});

export const href = (...path: string[]): string => '#/' + path.map(encodeURIComponent).join('/');

export function go(...path: string[]): void {
  location.hash = href(...path);
}

export const sandboxHref = (id: string, tab = 'terminal'): string => href('sandboxes', id, tab);
