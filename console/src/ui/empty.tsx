import type { ComponentChildren, JSX } from 'preact';
import { Icon, type IconName } from './icons.tsx';

/** What a view shows when it has nothing to show: why, and what to do. */
export function Empty({
  icon,
  title,
  children,
}: {
  icon: IconName;
  title: string;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={icon} size={22} />
      </span>
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

/** An error that stays until its cause is gone or the user closes it. */
export function ErrorNotice({ text, onClose }: { text: string; onClose?: () => void }): JSX.Element {
  return (
    <div class="notice error" role="alert">
      <Icon name="warning" />
      <span>{text}</span>
      {onClose && (
        <button type="button" class="icon-button small" aria-label="Dismiss" onClick={onClose}>
          <Icon name="close" size={15} />
        </button>
      )}
    </div>
  );
}
