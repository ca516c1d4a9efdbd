import type { JSX } from 'preact';
import { Dialog } from './ui/dialog.tsx';

const SHORTCUTS: readonly (readonly [keys: string, what: string])[] = [
  ['1 2 3 4', 'Processes, files, recordings, machine'],
  ['n', 'Start a command'],
  ['/', 'Filter the processes'],
  ['↑ ↓ Home End', 'Move in the table'],
  ['Enter', 'Open the process'],
  ['Delete', 'End the process'],
  ['Ctrl+Shift+F', 'Search in the terminal'],
  ['Ctrl+Shift+C', 'Copy the selection of the terminal'],
  ['Ctrl+F6', 'Leave the terminal'],
  ['Ctrl+S', 'Save the file'],
  ['?', 'This list'],
];

export function ShortcutsDialog({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="shortcuts">
        {SHORTCUTS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
