import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ExecServerClient, FileInfo } from '../../../../src/client/browser.ts';
import { describeError, formatBytes, formatTime, printableName } from '../../base/format.ts';
import { go, guardLeaving, hrefOf, leaveUnguarded, route } from '../../base/route.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { type Draft, keepDraft, takeDraft } from '../../drafts/drafts.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { toast } from '../../ui/toasts.tsx';
import { ConflictDialog } from './conflict-dialog.tsx';
import { baseName, parentOf } from './paths.ts';
import { describeEndings, editTextFile, formatTextFile, parseTextFile, type TextFile } from './text-file.ts';
import { download, downloadText, reportChange, shownName } from './transfers.ts';
import { type Conflict, saveFile, versionOf } from './versions.ts';

const MAX_SHOWN_BYTES = 1_000_000;

interface Content {
  /** Null for a binary file. */
  readonly file: TextFile | null;
  readonly version: string;
}

/** A file: its text, to read and to edit, or a download. */
export function FileView({
  workspace,
  client,
  info: firstInfo,
}: {
  workspace: Workspace;
  client: ExecServerClient;
  info: FileInfo;
}): JSX.Element {
  const [info, setInfo] = useState(firstInfo);
  useEffect(() => setInfo(firstInfo), [firstInfo]);
  const { path, size } = info;
  const [content, setContent] = useState<Content | null>(null);
  const [draft, setDraft] = useState<TextFile | null>(null);
  const [leave, setLeave] = useState<(() => void) | null>(null);
  const [isSaving, setSaving] = useState(false);
  const editor = useRef<HTMLTextAreaElement>(null);
  const [error, setError] = useState<string | null>(null);
  const [conflict, setConflict] = useState<Conflict | null>(null);
  const [isDeleting, setDeleting] = useState(false);
  const [progress, setProgress] = useState<number | null>(null);
  const isSmall = size <= MAX_SHOWN_BYTES && info.kind === 'file';

  const environment = workspace.connection.name;
  /** The draft as it is now. It is kept when the session or the page ends. */
  const unsaved = useRef<Draft | null>(null);
  const isShown = useRef(true);

  const load = async () => {
    setError(null);
    try {
      if (!isSmall) return;
      const loaded = await readContent(client, path);
      if (!isShown.current) return;
      setContent(loaded);
      if (workspace.mayWriteFiles && loaded.file !== null) restoreDraft(loaded.file);
    } catch (failure) {
      setError(`The file cannot be read. ${describeError(failure)}`);
    }
  };
  /** Goes on with the edit of an earlier session. It stays an edit of the version that it began with. */
  const restoreDraft = (file: TextFile) => {
    const kept = takeDraft(environment, path);
    if (kept === null || kept.file.text === file.text) return;
    unsaved.current = kept;
    setContent({ file, version: kept.version });
    setDraft(kept.file);
  };
  const discard = () => {
    unsaved.current = null;
    setDraft(null);
  };
  const updateInfo = async () => {
    // The header may stay old where the file is gone again.
    setInfo(await client.files.stat(path).catch(() => info));
  };
  useEffect(() => {
    // An edit stays an edit of the version that it began with.
    if (draft === null) void load();
  }, [client, path]);
  const isEditing = draft !== null;
  const isChanged = isEditing && draft.text !== content?.file?.text;
  unsaved.current = isChanged ? { environment, path, file: draft, version: content!.version } : null;
  useEffect(() => {
    const keep = () => {
      if (unsaved.current !== null) keepDraft(unsaved.current);
    };
    addEventListener('pagehide', keep);
    return () => {
      isShown.current = false;
      removeEventListener('pagehide', keep);
      keep();
    };
  }, []);
  useLayoutEffect(() => {
    if (!isEditing) return;
    editor.current!.setSelectionRange(0, 0);
    editor.current!.focus();
  }, [isEditing]);
  useEffect(() => {
    if (!isChanged) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    const stop = guardLeaving((action) => setLeave(() => action));
    return () => {
      removeEventListener('beforeunload', warn);
      stop();
    };
  }, [isChanged]);

  const saveDraft = async (force: boolean) => {
    if (isSaving) return;
    setError(null);
    setSaving(true);
    const saved = draft!;
    try {
      // Another writer may have changed the file since it was opened.
      const expected = force ? null : content!.version;
      const result = await saveFile(client, path, formatTextFile(saved), expected);
      setConflict('conflict' in result ? result.conflict : null);
      if ('conflict' in result) return;
      setContent({ file: saved, version: result.version });
      // The tree and the folder may not have a file that was deleted.
      if (force) reportChange();
      await updateInfo();
      // Text that was typed meanwhile stays in the editor.
      setDraft((now) => (now === saved ? null : now));
      toast(`${shownName(baseName(path))} saved`);
    } catch (failure) {
      // The dialog would hide the message.
      setConflict(null);
      setError(`The file was not saved. ${describeError(failure)}`);
    } finally {
      setSaving(false);
    }
  };
  const remove = async () => {
    try {
      await client.files.remove(path);
      reportChange();
      go({ view: 'files', item: parentOf(path) }, { replace: true });
    } catch (failure) {
      setError(`The file was not deleted. ${describeError(failure)}`);
    }
  };
  const get = async () => {
    setError(null);
    setProgress(0);
    try {
      const file = { name: baseName(path), size, command: 'exec-server cp' };
      await download(client.files.readStream(path), file, setProgress);
    } catch (failure) {
      setError(`The file was not downloaded. ${describeError(failure)}`);
    }
    setProgress(null);
  };

  const endings = content?.file != null ? describeEndings(content.file) : null;
  return (
    <div class="file-pane">
      <div class="file-bar">
        <a
          class="icon-button small"
          href={hrefOf({ ...route.value, view: 'files', item: parentOf(path) })}
          aria-label="Folder"
          title="Back to the folder"
        >
          <Icon name="back" size={16} />
        </a>
        <h2 class="ellipsis">{printableName(baseName(path))}</h2>
        <span class="dim file-facts" title={formatTime(info.modifiedAt)}>
          {formatBytes(size)} · {formatTime(info.modifiedAt)}
          {endings !== null && ` · ${endings}`}
        </span>
        <span class="spring" />
        {isEditing ? (
          <>
            <button type="button" class="text-button small" onClick={discard}>
              Discard
            </button>
            <button
              type="button"
              class="button small"
              aria-label="Download your text"
              title="Download your text"
              onClick={() => downloadText(draft, path)}
            >
              <Icon name="download" size={14} />
            </button>
            <button
              type="button"
              class="button small primary"
              disabled={!isChanged || isSaving}
              title="Ctrl+S"
              onClick={() => void saveDraft(false)}
            >
              Save
            </button>
          </>
        ) : (
          <>
            {workspace.mayWriteFiles && (
              <button
                type="button"
                class="icon-button small"
                aria-label="Delete"
                title="Delete"
                onClick={() => setDeleting(true)}
              >
                <Icon name="trash" size={16} />
              </button>
            )}
            {workspace.mayWriteFiles && content?.file != null && (
              <button
                type="button"
                class="button small"
                aria-label="Edit"
                onClick={() => setDraft(content.file)}
              >
                <Icon name="edit" size={14} />
                <span class="button-label">Edit</span>
              </button>
            )}
            <button
              type="button"
              class="button small"
              aria-label="Download"
              disabled={progress !== null}
              onClick={() => void get()}
            >
              <Icon name="download" size={14} />
              <span class="button-label">Download</span>
            </button>
          </>
        )}
      </div>
      {progress !== null && (
        <div class="progress" role="status">
          <span>
            {formatBytes(progress)} of {formatBytes(size)}
          </span>
          <progress max={size} value={progress} />
        </div>
      )}
      {error !== null && <ErrorNotice text={error} onClose={() => setError(null)} />}
      {isEditing ? (
        <textarea
          class="editor mono"
          aria-label={`Content of ${printableName(baseName(path))}`}
          ref={editor}
          spellcheck={false}
          value={draft.text}
          onInput={(event) => setDraft(editTextFile(draft, event.currentTarget.value))}
          onKeyDown={(event) => {
            if ((event.ctrlKey || event.metaKey) && event.key === 's') {
              event.preventDefault();
              void saveDraft(false);
            }
          }}
        />
      ) : content?.file != null ? (
        <Text text={content.file.text} />
      ) : (
        (!isSmall || content !== null) && <NotShown info={info} isSmall={isSmall} />
      )}
      {conflict !== null && (
        <ConflictDialog
          conflict={conflict}
          path={path}
          onLoad={() => {
            setConflict(null);
            discard();
            void load().then(updateInfo);
          }}
          onSave={() => void saveDraft(true)}
          onClose={() => setConflict(null)}
        />
      )}
      {isDeleting && (
        <ConfirmDialog
          title={`Delete ${shownName(baseName(path))}?`}
          action="Delete"
          onConfirm={() => void remove()}
          onClose={() => setDeleting(false)}
        >
          <p class="mono dim break">{printableName(path)}</p>
        </ConfirmDialog>
      )}
      {leave !== null && (
        <ConfirmDialog
          title="Discard your changes?"
          action="Discard"
          cancel="Keep editing"
          onConfirm={() => {
            discard();
            leaveUnguarded(leave);
          }}
          onClose={() => setLeave(null)}
        >
          <p>
            Your changes to <b>{printableName(baseName(path))}</b> are not saved.
          </p>
        </ConfirmDialog>
      )}
    </div>
  );
}

/** Why the content of a file is not shown. */
function NotShown({ info, isSmall }: { info: FileInfo; isSmall: boolean }): JSX.Element {
  if (info.kind !== 'file') {
    return (
      <Empty icon="file" title="This is a special file">
        <p>A pipe, a socket or a device has no content to show.</p>
      </Empty>
    );
  }
  return (
    <Empty
      icon="file"
      title={isSmall ? 'This file is not text' : `This file is too large to show (${formatBytes(info.size)})`}
    >
      <p>Download it to look at it.</p>
    </Empty>
  );
}

/** Text with line numbers. The numbers are a single column, so that selections contain only the text. */
function Text({ text }: { text: string }): JSX.Element {
  const count = text.split('\n').length - (text.endsWith('\n') ? 1 : 0);
  const numbers = Array.from({ length: Math.max(1, count) }, (_, index) => index + 1).join('\n');
  return (
    <div class="file-text mono" tabIndex={0} role="region" aria-label="Content">
      <pre class="numbers" aria-hidden="true">
        {numbers}
      </pre>
      <pre>{text}</pre>
    </div>
  );
}

async function readContent(client: ExecServerClient, path: string): Promise<Content> {
  // The version comes first: a change between the two calls is then found when the file is saved.
  const version = await versionOf(client, path);
  const bytes = await client.files.read(path);
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return { file: text.includes('\0') ? null : parseTextFile(text), version };
  } catch {
    // It is not UTF-8.
    return { file: null, version };
  }
}
