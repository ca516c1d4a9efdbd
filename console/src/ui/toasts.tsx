import type { JSX } from 'preact';
import { printable } from '../base/format.ts';
import { Store, useStore } from '../base/store.ts';

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly error: boolean;
}

const toasts = new Store<readonly Toast[]>([]);
const SHOWN_MS = 6000;
let nextId = 1;

/** Shows a short message. */
export function toast(text: string, { error = false } = {}): void {
  const id = nextId++;
  toasts.set([...toasts.value.slice(-3), { id, text, error }]);
  setTimeout(
    () => toasts.set(toasts.value.filter((other) => other.id !== id)),
    error ? SHOWN_MS * 2 : SHOWN_MS,
  );
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {useStore(toasts).map(({ id, text, error }) => (
        <div key={id} class={error ? 'toast error' : 'toast'}>
          {printable(text)}
        </div>
      ))}
    </div>
  );
}
