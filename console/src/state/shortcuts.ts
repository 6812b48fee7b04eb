// Keys that work on every screen. Never while somebody types: a field or a terminal gets its keys.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { can } from './session';

export const paletteOpen = signal(false);
export const helpOpen = signal(false);
export const createOpen = signal(false);

export const kShortcuts: [string, string][] = [
  ['Ctrl K', 'Search everything'],
  ['/', 'Filter the list, or search'],
  ['n', 'New sandbox'],
  ['?', 'This help'],
  ['↑ ↓', 'Move in the list'],
  ['→ ←', 'Open and close a branch'],
  ['Enter', 'Open the sandbox'],
  ['Ctrl P', 'Type a path, in the files'],
  ['Ctrl S', 'Save a file that is open'],
  ['Esc', 'Close a dialog'],
];

function types(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target.matches('input:not([type=checkbox]):not([type=radio]), textarea, select'))
  );
}

function onKey(event: KeyboardEvent): void {
  const inTerminal = event.target instanceof HTMLElement && event.target.closest('.xterm') !== null;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && !inTerminal) {
    event.preventDefault();
    paletteOpen.value = true;
    return;
  }
  if (types(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector('dialog[open]')) return;
  if (event.key === '/') {
    event.preventDefault();
    const filter = document.querySelector<HTMLInputElement>('[data-filter]');
    if (filter) filter.focus();
    else paletteOpen.value = true;
  } else if (event.key === 'n' && can('create')) {
    event.preventDefault();
    createOpen.value = true;
  } else if (event.key === '?') {
    event.preventDefault();
    helpOpen.value = true;
  }
}

export function useShortcuts(): void {
  useEffect(() => {
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}
