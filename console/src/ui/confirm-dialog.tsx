import type { ComponentChildren, JSX } from 'preact';
import { Dialog } from './dialog.tsx';

/** Asks before something is lost. The focus is on the button that loses nothing. */
export function ConfirmDialog({
  title,
  action,
  cancel = 'Cancel',
  onConfirm,
  onClose,
  children,
}: {
  title: string;
  action: string;
  cancel?: string;
  onConfirm: () => void;
  onClose: () => void;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <div class="dialog-actions">
        <span class="spring" />
        <button type="button" class="button" autofocus onClick={onClose}>
          {cancel}
        </button>
        <button
          type="button"
          class="button danger"
          onClick={() => {
            onClose();
            onConfirm();
          }}
        >
          {action}
        </button>
      </div>
    </Dialog>
  );
}
