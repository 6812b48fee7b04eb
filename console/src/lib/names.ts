// What a sandbox is called. Its name is fixed at its creation, so a person who renames it sets a
// label, which goes before it.
import { shortId } from './format';

export const kTitleLabel = 'title';

export interface Named {
  id: string;
  name: string;
  labels: Record<string, string>;
}

export const titleOf = (box: Named): string =>
  box.labels[kTitleLabel] || box.name || shortId(box.id);

// Labels that say something to a person; the others are shown in other ways.
export const shownLabels = (box: Named): [string, string][] =>
  Object.entries(box.labels).filter(
    ([name]) => name !== kTitleLabel && !/^(caisson|sandboxer)\./.test(name),
  );
