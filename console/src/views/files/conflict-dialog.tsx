import type { JSX } from 'preact';
import { printableName } from '../../base/format.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { baseName } from './paths.ts';
import type { Conflict } from './versions.ts';

/** Asks what to do with text for a file that another program has changed or deleted. */
export function ConflictDialog({
  conflict,
  path,
  onLoad,
  onSave,
  onClose,
}: {
  conflict: Conflict;
  path: string;
  /** Discards the text, and loads the file. */
  onLoad: () => void;
  /** Saves the text nevertheless. */
  onSave: () => void;
  onClose: () => void;
}): JSX.Element {
  const name = <b>{printableName(baseName(path))}</b>;
  const isDeleted = conflict === 'deleted';
  return (
    <Dialog title={isDeleted ? 'The file is gone' : 'The file has changed'} onClose={onClose}>
      {isDeleted ? (
        <p>
          {name} was deleted or renamed on the machine after you opened it. Saving creates it again with your
          text.
        </p>
      ) : (
        <p>
          {name} was changed on the machine after you opened it. Replacing it overwrites that change with your
          text. Loading theirs discards your text.
        </p>
      )}
      <div class="dialog-actions">
        {!isDeleted && (
          <button type="button" class="button" title="Discards your text" onClick={onLoad}>
            Load theirs
          </button>
        )}
        <span class="spring" />
        <button type="button" class="button" autofocus onClick={onClose}>
          Keep editing
        </button>
        <button type="button" class={isDeleted ? 'button primary' : 'button danger'} onClick={onSave}>
          {isDeleted ? 'Create' : 'Replace'}
        </button>
      </div>
    </Dialog>
  );
}
