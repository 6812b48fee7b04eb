// Limits that a living sandbox can change. Empty fields stay as they are.
import { setLimits } from '../../api/sandboxes';
import type { Limits, Sandbox } from '../../api/types';
import { parseNumber, parseSpan } from '../../lib/pairs';
import { put } from '../../state/fleet';
import { inform } from '../../state/toasts';
import { openForm } from '../../ui/form';

const now = (value: number | null, unit: string) =>
  value === null ? 'no limit' : `${value}${unit} now`;

export function openLimits(box: Sandbox): void {
  const limits = box.resource_limits;
  openForm({
    name: 'limits',
    title: 'Change limits',
    text: 'What is left empty stays. Disk and open files are fixed when a sandbox is made.',
    action: 'Change',
    fields: [
      { name: 'cpu', label: 'CPU, cores', placeholder: now(limits.cpu, '') },
      { name: 'memory_mb', label: 'Memory, MiB', placeholder: now(limits.memory_mb, '') },
      { name: 'processes', label: 'Processes', placeholder: now(limits.processes, '') },
      { name: 'cpu_seconds', label: 'CPU time', placeholder: now(limits.cpu_seconds, ' s') },
      {
        name: 'timeout_seconds',
        label: 'Time to live, from its creation',
        placeholder: now(limits.timeout_seconds, ' s'),
      },
      { name: 'idle_seconds', label: 'Idle time', placeholder: now(limits.idle_seconds, ' s') },
    ],
    run: async (values) => {
      const wish: Partial<Limits> = {};
      for (const [name, text] of Object.entries(values)) {
        const value = name.endsWith('_seconds') ? parseSpan(text, name) : parseNumber(text, name);
        if (typeof value === 'string') throw new Error(value);
        if (value !== undefined) wish[name as keyof Limits] = value;
      }
      if (Object.keys(wish).length === 0) throw new Error('Nothing is filled in.');
      put(await setLimits(box.id, wish));
      inform('The limits are changed');
    },
  });
}

// So many seconds from now, whatever its age.
export async function liveOn(box: Sandbox, seconds: number): Promise<void> {
  const age = (Date.now() - Date.parse(box.created_at)) / 1000;
  put(await setLimits(box.id, { timeout_seconds: Math.ceil(age + seconds) }));
  inform('It lives longer now');
}
