// Inputs of the create dialog, each bound to one part of the draft.
import type { Draft } from './draft';

export interface Bound {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
}

type TextKey = { [K in keyof Draft]: Draft[K] extends string ? K : never }[keyof Draft];
type FlagKey = { [K in keyof Draft]: Draft[K] extends boolean ? K : never }[keyof Draft];

interface TextProps extends Bound {
  name: TextKey;
  label: string;
  placeholder?: string;
  hint?: string;
  list?: string;
  first?: boolean;
}

export function Text({ draft, change, name, label, placeholder, hint, list, first }: TextProps) {
  return (
    <div class="field">
      <label for={`create-${name}`}>{label}</label>
      <input
        id={`create-${name}`}
        type="text"
        autocomplete="off"
        spellcheck={false}
        placeholder={placeholder}
        list={list}
        value={draft[name]}
        data-testid={`create-${name}`}
        data-first={first ? '' : undefined}
        onInput={(event) => change({ [name]: event.currentTarget.value } as Partial<Draft>)}
      />
      {hint && <small>{hint}</small>}
    </div>
  );
}

export function Area({ draft, change, name, label, placeholder, hint }: TextProps) {
  return (
    <div class="field">
      <label for={`create-${name}`}>{label}</label>
      <textarea
        id={`create-${name}`}
        rows={3}
        spellcheck={false}
        placeholder={placeholder}
        value={draft[name]}
        data-testid={`create-${name}`}
        onInput={(event) => change({ [name]: event.currentTarget.value } as Partial<Draft>)}
      />
      {hint && <small>{hint}</small>}
    </div>
  );
}

export function Flag({
  draft,
  change,
  name,
  label,
  hint,
}: Bound & { name: FlagKey; label: string; hint?: string }) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={draft[name]}
        data-testid={`create-${name}`}
        onChange={(event) => change({ [name]: event.currentTarget.checked } as Partial<Draft>)}
      />
      <span>{label}</span>
      {hint && <small>{hint}</small>}
    </label>
  );
}

export function Choice({
  draft,
  change,
  name,
  label,
  options,
}: Bound & {
  name: TextKey;
  label: string;
  options: [string, string][];
}) {
  return (
    <div class="field">
      <label for={`create-${name}`}>{label}</label>
      <select
        id={`create-${name}`}
        value={draft[name]}
        data-testid={`create-${name}`}
        onChange={(event) => change({ [name]: event.currentTarget.value } as Partial<Draft>)}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}
