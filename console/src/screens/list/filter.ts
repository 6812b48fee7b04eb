// Which sandboxes a person means by what he typed: every word must be somewhere in it.
import type { Sandbox } from '../../api/types';

export function matches(box: Sandbox, text: string): boolean {
  const words = text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '');
  if (words.length === 0) return true;
  const labels = Object.entries(box.labels).map(([name, value]) => `${name}=${value}`);
  const hay = [box.id, box.name, box.image, box.state, box.profile, ...labels]
    .join(' ')
    .toLowerCase();
  return words.every((word) => hay.includes(word));
}
