import { useEffect, useRef } from 'preact/hooks';
import { dismiss, toasts } from '../state/toasts';
import { Button } from './button';

// A popover, so that it lies above dialogs, too; what came last goes on top.
export function ToastList() {
  const ref = useRef<HTMLDivElement>(null);
  const list = toasts.value;
  useEffect(() => {
    const element = ref.current;
    if (!element?.showPopover) return; // an older browser shows it below dialogs
    if (element.matches(':popover-open')) element.hidePopover();
    if (list.length > 0) element.showPopover();
  }, [list]);
  return (
    <div
      ref={ref}
      class="toasts"
      popover="manual"
      role="region"
      aria-label="Messages"
      data-testid="toasts"
    >
      {list.map((toast) => (
        <div
          key={toast.id}
          class={`toast ${toast.kind}`}
          role={toast.kind === 'error' ? 'alert' : 'status'}
          data-testid={`toast-${toast.kind}`}
        >
          <div class="toast-text">
            {toast.code && <strong>{toast.code}</strong>}
            <span>{toast.text}</span>
            {toast.requestId && <small>request {toast.requestId}</small>}
          </div>
          <Button
            kind="quiet"
            icon="close"
            label="Dismiss"
            testid="toast-dismiss"
            onClick={() => dismiss(toast.id)}
          />
        </div>
      ))}
    </div>
  );
}
