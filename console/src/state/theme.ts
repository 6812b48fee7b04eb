// Dark, light, or as the system says.
import { computed, effect, signal } from '@preact/signals';

export type Theme = 'system' | 'dark' | 'light';
const kKey = 'caisson.theme';

function stored(): Theme {
  try {
    const value = localStorage.getItem(kKey);
    return value === 'dark' || value === 'light' ? value : 'system';
  } catch {
    return 'system'; // a browser may refuse to keep anything
  }
}

export const theme = signal<Theme>(stored());
const prefers = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(prefers.matches);
prefers.addEventListener('change', () => {
  systemDark.value = prefers.matches;
});

export const dark = computed(() =>
  theme.value === 'system' ? systemDark.value : theme.value === 'dark',
);

effect(() => {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem(kKey, theme.value);
  } catch {
    // It holds until the page is left, then.
  }
});
