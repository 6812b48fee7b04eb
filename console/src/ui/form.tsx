// Small forms in a dialog: `openForm` from anywhere, one at a time. What fails is said inside of
// it, and what was typed stays.
import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { ApiError } from '../api/client';
import { Dialog } from './dialog';
import { Button } from './button';

export interface FormField {
  name: string;
  label: string;
  kind?: 'text' | 'password' | 'number' | 'check' | 'select' | 'area' | 'file';
  value?: string;
  hint?: string;
  placeholder?: string;
  options?: { value: string; text: string }[];
  required?: boolean;
}

export type Values = Record<string, string>;

export interface FormWish {
  name: string; // of its test id
  title: string;
  text?: string;
  fields?: FormField[];
  action: string;
  danger?: boolean;
  notice?: boolean; // there is nothing to cancel
  run: (values: Values, files: Record<string, File>) => Promise<unknown>;
}

const current = signal<FormWish | undefined>(undefined);

export function openForm(wish: FormWish): void {
  current.value = wish;
}

export const errorText = (error: unknown): string => {
  if (error instanceof ApiError && error.requestId)
    return `${error.message} (request ${error.requestId})`;
  return error instanceof Error ? error.message : String(error);
};

export function FormHost() {
  const wish = current.value;
  if (!wish) return null;
  return (
    <Form
      key={`${wish.name} ${wish.title}`}
      wish={wish}
      onClose={() => {
        if (current.value === wish) current.value = undefined;
      }}
    />
  );
}

function Form({ wish, onClose }: { wish: FormWish; onClose: () => void }) {
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const values: Values = {};
    const files: Record<string, File> = {};
    const form = event.target as HTMLFormElement;
    for (const [name, value] of new FormData(form)) {
      if (typeof value === 'string') values[name] = value;
      else files[name] = value;
    }
    setBusy(true);
    setError('');
    try {
      await wish.run(values, files);
      onClose();
    } catch (problem) {
      setError(errorText(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title={wish.title} onClose={onClose} testid={`dialog-${wish.name}`}>
      <form class="form" onSubmit={submit}>
        {wish.text && <p class="lead">{wish.text}</p>}
        {(wish.fields ?? []).map((field, index) => (
          <FieldInput key={field.name} field={field} first={index === 0} />
        ))}
        {error && (
          <p class="form-error" role="alert" data-testid="dialog-error">
            {error}
          </p>
        )}
        <footer class="dialog-foot">
          {!wish.notice && (
            <Button onClick={onClose} testid="dialog-cancel">
              Cancel
            </Button>
          )}
          <Button
            type="submit"
            kind={wish.danger ? 'danger' : 'primary'}
            disabled={busy}
            testid="dialog-submit"
          >
            {wish.action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function FieldInput({ field, first }: { field: FormField; first: boolean }) {
  const id = `form-${field.name}`;
  const common = {
    id,
    name: field.name,
    'data-testid': `field-${field.name}`,
    'data-first': first ? '' : undefined,
    required: field.required,
    'aria-describedby': field.hint ? `${id}-hint` : undefined,
  };
  if (field.kind === 'check') {
    return (
      <label class="check">
        <input type="checkbox" value="true" defaultChecked={field.value === 'true'} {...common} />
        <span>{field.label}</span>
        {field.hint && <small id={`${id}-hint`}>{field.hint}</small>}
      </label>
    );
  }
  return (
    <div class="field">
      <label for={id}>{field.label}</label>
      <Control field={field} common={common} />
      {field.hint && <small id={`${id}-hint`}>{field.hint}</small>}
    </div>
  );
}

function Control({ field, common }: { field: FormField; common: Record<string, unknown> }) {
  if (field.kind === 'select') {
    return (
      <select {...common}>
        {field.options?.map((option) => (
          <option key={option.value} value={option.value} selected={option.value === field.value}>
            {option.text}
          </option>
        ))}
      </select>
    );
  }
  if (field.kind === 'area') {
    return (
      <textarea
        rows={5}
        spellcheck={false}
        placeholder={field.placeholder}
        defaultValue={field.value}
        {...common}
      />
    );
  }
  // The types want one kind of input at a time; this is whichever the field asks for.
  const type = (field.kind ?? 'text') as 'text';
  return (
    <input
      type={type}
      autocomplete="off"
      spellcheck={false}
      step="any"
      placeholder={field.placeholder}
      defaultValue={field.value}
      {...common}
    />
  );
}

// A question with two answers.
export function confirm(
  name: string,
  title: string,
  text: string,
  action: string,
  run: () => Promise<unknown>,
): void {
  openForm({ name, title, text, action, danger: true, run });
}
