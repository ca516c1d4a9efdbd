import type { JSX } from 'preact';
import { useStore } from '../../base/store.ts';
import type { ProcessSession } from '../../connection/process-session.ts';
import type { TerminalDisplay } from './terminal-display.ts';

/** Keys that the keyboards of phones lack. Arrows follow the cursor mode of the program. */
export function KeyBar({
  session,
  display,
}: {
  session: ProcessSession;
  display: TerminalDisplay;
}): JSX.Element {
  const ctrl = useStore(display.ctrl);
  const send = (data: string) => {
    session.write(data);
    display.focus();
  };
  const arrow = (letter: string) =>
    send(display.terminal.modes.applicationCursorKeysMode ? `\x1bO${letter}` : `\x1b[${letter}`);
  const keys: readonly (readonly [label: string, name: string, action: () => void])[] = [
    ['Esc', 'Esc', () => send('\x1b')],
    ['Tab', 'Tab', () => send('\t')],
    ['^C', 'Ctrl C', () => send('\x03')],
    ['←', 'Left', () => arrow('D')],
    ['↓', 'Down', () => arrow('B')],
    ['↑', 'Up', () => arrow('A')],
    ['→', 'Right', () => arrow('C')],
  ];
  return (
    // The terminal keeps the focus, and with it the keyboard of the phone stays open.
    <div class="key-bar" role="toolbar" aria-label="Keys" onPointerDown={(event) => event.preventDefault()}>
      {keys.slice(0, 2).map(([label, name, action]) => (
        <button key={name} type="button" aria-label={name} onClick={action}>
          {label}
        </button>
      ))}
      <button
        type="button"
        aria-pressed={ctrl}
        aria-label="Ctrl for the next key"
        onClick={() => {
          display.ctrl.set(!ctrl);
          display.focus();
        }}
      >
        Ctrl
      </button>
      {keys.slice(2).map(([label, name, action]) => (
        <button key={name} type="button" aria-label={name} onClick={action}>
          {label}
        </button>
      ))}
    </div>
  );
}
