import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { printableName } from '../base/format.ts';
import { go } from '../base/route.ts';
import { useStore } from '../base/store.ts';
import { ConfirmDialog } from '../ui/confirm-dialog.tsx';
import { baseName, isBelow } from '../views/files/paths.ts';
import { downloadText } from '../views/files/transfers.ts';
import { type Draft, drafts, takeDraft } from './drafts.ts';

/**
 * Lists the drafts of this tab. `environments` are those whose files can be opened: none where the browser is signed out. `below` is the
 * directory to which files are limited: drafts of other files may be those of another person, and stay hidden.
 */
export function KeptDrafts({
  environments,
  below = null,
}: {
  environments: readonly string[];
  below?: string | null;
}): JSX.Element | null {
  const all = useStore(drafts).filter(({ path }) => below === null || isBelow(path, below));
  const [discarded, setDiscarded] = useState<Draft | null>(null);
  if (all.length === 0) return null;
  return (
    <div class="kept-drafts" role="status">
      {all.map((draft) => (
        <div key={`${draft.environment} ${draft.path}`} class="notice">
          <span title={printableName(draft.path)}>
            Your changes to <b>{printableName(baseName(draft.path))}</b> are not saved.
            {environments.length === 0 && ' They stay in this tab: sign in again to go on.'}
          </span>
          {environments.includes(draft.environment) && (
            <button
              type="button"
              class="button small"
              onClick={() => go({ environment: draft.environment, view: 'files', item: draft.path })}
            >
              Open
            </button>
          )}
          <button type="button" class="button small" onClick={() => downloadText(draft.file, draft.path)}>
            Download
          </button>
          <button type="button" class="text-button small" onClick={() => setDiscarded(draft)}>
            Discard
          </button>
        </div>
      ))}
      {discarded !== null && (
        <ConfirmDialog
          title="Discard your changes?"
          action="Discard"
          onConfirm={() => takeDraft(discarded.environment, discarded.path)}
          onClose={() => setDiscarded(null)}
        >
          <p class="mono dim break">{printableName(discarded.path)}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}
