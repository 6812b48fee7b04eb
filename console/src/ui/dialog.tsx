// A window in front of the page. The browser's own element keeps the focus inside and closes on Esc.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Button } from './button';

interface DialogProps {
  title: string;
  onClose: () => void;
  testid: string;
  wide?: boolean;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, testid, wide, children }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const leaving = useRef(false);
  useEffect(() => {
    const element = ref.current;
    const before = document.activeElement;
    element?.showModal();
    element?.querySelector<HTMLElement>('[data-first]')?.focus();
    return () => {
      leaving.current = true;
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={wide ? 'dialog wide' : 'dialog'}
      aria-label={title}
      data-testid={testid}
      onClose={() => {
        // A browser closes it on a second Esc whatever we say. Who owns it decides all the same.
        if (leaving.current) return;
        onClose();
        setTimeout(() => {
          if (!leaving.current && !ref.current?.open) ref.current?.showModal();
        }, 50);
      }}
      onCancel={(event) => {
        if (event.target !== ref.current) return; // a file picker inside was left
        event.preventDefault();
        onClose();
      }}
    >
      <header class="dialog-head">
        <h2>{title}</h2>
        <Button kind="quiet" icon="close" label="Close" testid="dialog-close" onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}
