import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ClientError, type ExecServerClient, type FileInfo } from '../../../../src/client/browser.ts';
import { describeError, formatBytes, formatTime, printable } from '../../base/format.ts';
import { go, hrefOf, route } from '../../base/route.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { toast } from '../../ui/toasts.tsx';
import { baseName, parentOf } from './paths.ts';
import { download, reportChange } from './transfers.ts';

const MAX_SHOWN_BYTES = 1_000_000;

interface Content {
  /** Null for a binary file. */
  readonly text: string | null;
  readonly version: string;
}

/** A file: its text, to read and to edit, or a download. */
export function FileView({
  workspace,
  client,
  info,
}: {
  workspace: Workspace;
  client: ExecServerClient;
  info: FileInfo;
}): JSX.Element {
  const { path, size } = info;
  const [content, setContent] = useState<Content | null>(null);
  const [draft, setDraft] = useState<string | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [hasConflict, setConflict] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const [progress, setProgress] = useState<number | null>(null);
  const isSmall = size <= MAX_SHOWN_BYTES && info.kind === 'file';

  const load = async () => {
    setError(null);
    try {
      if (isSmall) setContent(await readContent(client, path));
    } catch (failure) {
      setError(`The file cannot be read. ${describeError(failure)}`);
    }
  };
  useEffect(() => void load(), [client, path]);
  useEffect(() => {
    if (draft === null || draft === content?.text) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [draft, content]);

  const saveDraft = async (force: boolean) => {
    setError(null);
    try {
      // Another writer may have changed the file since it was opened.
      if (!force && (await versionOf(client, path)) !== content!.version) {
        setConflict(true);
        return;
      }
      await client.files.write(path, draft!, { parents: false, atomic: true });
      setConflict(false);
      setContent({ text: draft, version: await versionOf(client, path) });
      setDraft(null);
      toast(`${baseName(path)} saved`);
    } catch (failure) {
      setError(`The file was not saved. ${describeError(failure)}`);
    }
  };
  const get = async () => {
    setError(null);
    setProgress(0);
    try {
      await download(client, path, baseName(path), size, setProgress);
    } catch (failure) {
      setError(`The file was not downloaded. ${describeError(failure)}`);
    }
    setProgress(null);
  };

  const isEditing = draft !== null;
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
        <h2 class="ellipsis">{printable(baseName(path))}</h2>
        <span class="dim file-facts" title={formatTime(info.modifiedAt)}>
          {formatBytes(size)} · {formatTime(info.modifiedAt)}
        </span>
        <span class="spring" />
        {isEditing ? (
          <>
            <button type="button" class="text-button small" onClick={() => setDraft(null)}>
              Discard
            </button>
            <button
              type="button"
              class="button small primary"
              disabled={draft === content?.text}
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
            {workspace.mayWriteFiles && content?.text != null && (
              <button
                type="button"
                class="button small"
                aria-label="Edit"
                onClick={() => setDraft(content.text)}
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
          aria-label={`Content of ${baseName(path)}`}
          autofocus
          spellcheck={false}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if ((event.ctrlKey || event.metaKey) && event.key === 's') {
              event.preventDefault();
              void saveDraft(false);
            }
          }}
        />
      ) : content?.text != null ? (
        <Text text={content.text} />
      ) : (
        (!isSmall || content !== null) && (
          <Empty
            icon="file"
            title={
              isSmall ? 'This file is not text' : `This file is too large to show (${formatBytes(size)})`
            }
          >
            <p>Download it to look at it.</p>
          </Empty>
        )
      )}
      {hasConflict && (
        <Dialog title="The file has changed" onClose={() => setConflict(false)}>
          <p>
            <b>{printable(baseName(path))}</b> was changed on the machine after you opened it. Saving replaces
            that change with your text.
          </p>
          <div class="dialog-actions">
            <button
              type="button"
              class="button"
              onClick={() => {
                setConflict(false);
                setDraft(null);
                void load();
              }}
            >
              Discard mine, load theirs
            </button>
            <span class="spring" />
            <button type="button" class="button" onClick={() => setConflict(false)}>
              Keep editing
            </button>
            <button type="button" class="button danger" onClick={() => void saveDraft(true)}>
              Replace
            </button>
          </div>
        </Dialog>
      )}
      {isDeleting && (
        <Dialog title={`Delete ${printable(baseName(path))}?`} onClose={() => setDeleting(false)}>
          <p class="mono dim break">{printable(path)}</p>
          <div class="dialog-actions">
            <span class="spring" />
            <button
              type="button"
              class="button danger"
              autofocus
              onClick={async () => {
                setDeleting(false);
                try {
                  await client.files.remove(path);
                  reportChange();
                  go({ view: 'files', item: parentOf(path) }, { replace: true });
                } catch (failure) {
                  setError(`The file was not deleted. ${describeError(failure)}`);
                }
              }}
            >
              Delete
            </button>
          </div>
        </Dialog>
      )}
    </div>
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
  try {
    const text = await client.files.readText(path);
    return { text: text.includes('\0') ? null : text, version };
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'invalidData') return { text: null, version };
    throw error;
  }
}

/** Changes when the content of the file does: its hash, or else its time and size. */
async function versionOf(client: ExecServerClient, path: string): Promise<string> {
  if (client.capabilities.fsHash) return (await client.files.hash(path)).sha256;
  const { modifiedAt, size } = await client.files.stat(path);
  return `${modifiedAt.getTime()} ${size}`;
}
