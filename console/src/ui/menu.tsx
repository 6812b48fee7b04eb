// A list of actions behind one button.
import { useEffect, useRef } from 'preact/hooks';
import { Icon } from './icon';

export interface MenuItem {
  name: string;
  text: string;
  hint?: string;
  danger?: boolean;
  disabled?: boolean;
  run: () => unknown;
}

export function Menu({
  label,
  icon,
  items,
  testid,
}: {
  label: string;
  icon?: string;
  items: MenuItem[];
  testid: string;
}) {
  const ref = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const away = (event: Event) => {
      if (ref.current?.open && !ref.current.contains(event.target as Node))
        ref.current.open = false;
    };
    document.addEventListener('pointerdown', away);
    document.addEventListener('focusin', away);
    return () => {
      document.removeEventListener('pointerdown', away);
      document.removeEventListener('focusin', away);
    };
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const details = ref.current;
    if (!details?.open) return;
    const buttons = [
      ...details.querySelectorAll<HTMLButtonElement>('.menu-list button:not(:disabled)'),
    ];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === 'Escape') {
      details.open = false;
      details.querySelector('summary')?.focus();
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      const step = event.key === 'ArrowDown' ? 1 : -1;
      buttons[(at + step + buttons.length) % buttons.length]?.focus();
      event.preventDefault();
    }
  };
  return (
    <details class="menu" ref={ref} onKeyDown={onKeyDown}>
      <summary class="button plain" data-testid={testid} aria-label={label} title={label}>
        {icon ? <Icon name={icon} /> : <span>{label}</span>}
        {!icon && <Icon name="down" />}
      </summary>
      <div class="menu-list">
        {items.map((item) => (
          <button
            key={item.name}
            type="button"
            class={item.danger ? 'danger' : ''}
            disabled={item.disabled}
            data-testid={`${testid}-${item.name}`}
            onClick={() => {
              if (ref.current) ref.current.open = false;
              item.run();
            }}
          >
            {item.text}
            {item.hint && <small>{item.hint}</small>}
          </button>
        ))}
      </div>
    </details>
  );
}
