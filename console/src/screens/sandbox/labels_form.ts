// Labels as lines. The server sets what is named and removes what is empty, so only differences go.
import { setLabels } from '../../api/sandboxes';
import type { Sandbox } from '../../api/types';
import { shownLabels } from '../../lib/names';
import { parsePairs, printPairs } from '../../lib/pairs';
import { put } from '../../state/fleet';
import { openForm } from '../../ui/form';

export function openLabels(box: Sandbox): void {
  const before = Object.fromEntries(shownLabels(box));
  openForm({
    name: 'labels',
    title: 'Labels',
    action: 'Save',
    fields: [
      {
        name: 'labels',
        label: 'One per line',
        kind: 'area',
        value: printPairs(before),
        placeholder: 'team=red',
      },
    ],
    run: async ({ labels = '' }) => {
      const after = parsePairs(labels);
      if (typeof after === 'string') throw new Error(after);
      const wish: Record<string, string> = {};
      for (const name of Object.keys(before)) if (!(name in after)) wish[name] = '';
      for (const [name, value] of Object.entries(after))
        if (before[name] !== value) wish[name] = value;
      if (Object.keys(wish).length > 0) put(await setLabels(box.id, wish));
    },
  });
}
