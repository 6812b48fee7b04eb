import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { attempt } from '../state/toasts';
import { Icon } from './icon';

interface ButtonProps {
  children?: ComponentChildren;
  icon?: string;
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  title?: string;
  label?: string; // for who cannot see the icon
  disabled?: boolean;
  type?: 'button' | 'submit';
  pressed?: boolean;
  testid?: string;
  onClick?: (event: MouseEvent) => unknown;
}

// A button whose work takes time stands still until it is done; what fails becomes a message.
export function Button(props: ButtonProps) {
  const [busy, setBusy] = useState(false);
  const click = async (event: MouseEvent) => {
    const result = props.onClick?.(event);
    if (!(result instanceof Promise)) return;
    setBusy(true);
    await attempt(() => result);
    setBusy(false);
  };
  const kind = props.kind ?? 'plain';
  return (
    <button
      type={props.type ?? 'button'}
      class={`button ${kind} ${props.children ? '' : 'only-icon'} ${busy ? 'busy' : ''}`}
      disabled={props.disabled || busy}
      title={props.title ?? props.label}
      aria-label={props.label}
      aria-pressed={props.pressed}
      aria-busy={busy || undefined}
      data-testid={props.testid}
      onClick={click}
    >
      {props.icon && <Icon name={props.icon} />}
      {props.children && <span>{props.children}</span>}
    </button>
  );
}
