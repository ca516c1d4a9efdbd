import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { ExecServerClient, FileEntry, PathAttributes } from '../../../../src/client/browser.ts';
import { describeError, formatBytes, formatTime, printableName } from '../../base/format.ts';
import { hrefOf, route } from '../../base/route.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Empty, ErrorNotice } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { toast } from '../../ui/toasts.tsx';
import { useAttributes, useFolder } from './folder-entries.ts';
import { joinPath, nameProblem, parentOf } from './paths.ts';
import { checkUploads, droppedFiles, reportChange, shownName, upload } from './transfers.ts';

const MAX_ENTRIES = 2000;

/** The entries of a folder, and uploads into it. */
export function FolderView({
  workspace,
  client,
  path,
}: {
  workspace: Workspace;
  client: ExecServerClient;
  path: string;
}): JSX.Element {
  const { entries, error } = useFolder(client, path);
  const attributes = useAttributes(client, path, entries);
  const [replacing, setReplacing] = useState<{ files: readonly File[]; taken: readonly string[] } | null>(
    null,
  );
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [progress, setProgress] = useState<{ name: string; bytes: number; size: number } | null>(null);
  const [isDropping, setDropping] = useState(false);
  const [isNaming, setNaming] = useState(false);
  const picker = useRef<HTMLInputElement>(null);

  const send = async (chosen: readonly File[], ownProblems: readonly string[] = []) => {
    setProblems(ownProblems);
    try {
      const { files, taken, problems: refused } = await checkUploads(client, path, chosen);
      setProblems([...ownProblems, ...refused]);
      if (taken.length > 0) setReplacing({ files, taken });
      else await sendAll(files);
    } catch (failure) {
      setProblems([...ownProblems, `Nothing was uploaded. ${describeError(failure)}`]);
    }
  };
  const sendAll = async (files: readonly File[]) => {
    const uploaded: File[] = [];
    for (const file of files) {
      try {
        setProgress({ name: file.name, bytes: 0, size: file.size });
        await upload(client, path, file, (bytes) => setProgress({ name: file.name, bytes, size: file.size }));
        uploaded.push(file);
      } catch (failure) {
        const problem = `${shownName(file.name)} was not uploaded. ${describeError(failure)}`;
        setProblems((before) => [...before, problem]);
      }
    }
    setProgress(null);
    if (uploaded.length === 1) toast(`${shownName(uploaded[0]!.name)} uploaded`);
    else if (uploaded.length > 1) toast(`${uploaded.length.toLocaleString()} files uploaded`);
    reportChange();
  };
  const mayWrite = workspace.mayWriteFiles;
  const acceptDrag = (event: DragEvent) => {
    if (!mayWrite || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    setDropping(true);
  };
  const shown = entries?.slice(0, MAX_ENTRIES) ?? [];

  return (
    <div
      class={isDropping ? 'file-pane dropping' : 'file-pane'}
      onDragEnter={acceptDrag}
      onDragOver={acceptDrag}
      onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        event.preventDefault();
        setDropping(false);
        if (!mayWrite || event.dataTransfer === null) return;
        const { files, problems } = droppedFiles(event.dataTransfer);
        void send(files, problems);
      }}
    >
      <div class="file-bar">
        {path !== '/' && (
          <a
            class="icon-button small"
            href={hrefOf({ ...route.value, view: 'files', item: parentOf(path) })}
            aria-label="Parent folder"
            title="Parent folder"
          >
            <Icon name="back" size={16} />
          </a>
        )}
        <span class="dim">
          {entries === null
            ? ''
            : `${entries.length.toLocaleString()} ${entries.length === 1 ? 'entry' : 'entries'}`}
        </span>
        <span class="spring" />
        {mayWrite && (
          <>
            <button
              type="button"
              class="button small"
              aria-label="New folder"
              onClick={() => setNaming(true)}
            >
              <Icon name="plus" size={14} />
              <span class="button-label">New folder</span>
            </button>
            <button
              type="button"
              class="button small"
              aria-label="Upload"
              onClick={() => picker.current?.click()}
            >
              <Icon name="upload" size={14} />
              <span class="button-label">Upload</span>
            </button>
            <input
              ref={picker}
              class="offscreen"
              type="file"
              multiple
              tabIndex={-1}
              aria-label="Files to upload"
              onChange={(event) => {
                void send([...(event.currentTarget.files ?? [])]);
                event.currentTarget.value = '';
              }}
            />
          </>
        )}
      </div>
      {progress !== null && (
        <div class="progress" role="status">
          <span class="ellipsis">
            {progress.name} · {formatBytes(progress.bytes)} of {formatBytes(progress.size)}
          </span>
          <progress max={progress.size} value={progress.bytes} />
        </div>
      )}
      {error !== null && <ErrorNotice text={error} />}
      {problems.length > 0 && <ErrorNotice text={summaryOf(problems)} onClose={() => setProblems([])} />}
      {entries !== null && entries.length === 0 ? (
        <Empty icon="folder" title="This folder is empty">
          {mayWrite && <p>Drop files here, or choose Upload.</p>}
        </Empty>
      ) : (
        <ul class="entries">
          {shown.map((entry) => (
            <li key={entry.path}>
              <a href={hrefOf({ ...route.value, view: 'files', item: entry.path })}>
                <Icon name={entry.kind === 'directory' ? 'folder' : 'file'} size={16} />
                <span class="ellipsis">{printableName(entry.name)}</span>
                {entry.isSymlink && <span class="chip">link</span>}
                {entry.kind === 'other' && <span class="chip">special</span>}
                <EntryFacts entry={entry} attributes={attributes.get(entry.path)} />
              </a>
            </li>
          ))}
        </ul>
      )}
      {entries !== null && entries.length > MAX_ENTRIES && (
        <p class="dim">
          {(entries.length - MAX_ENTRIES).toLocaleString()} more are not shown. Type a path above to open one.
        </p>
      )}
      {replacing !== null && (
        <ConfirmDialog
          title={
            replacing.files.length === 1 ? `Replace ${shownName(replacing.taken[0]!)}?` : 'Replace files?'
          }
          action="Replace"
          onConfirm={() => void sendAll(replacing.files)}
          onClose={() => setReplacing(null)}
        >
          <p>This folder already contains {listOf(replacing.taken)}.</p>
        </ConfirmDialog>
      )}
      {isNaming && <NewFolder client={client} path={path} onClose={() => setNaming(false)} />}
    </div>
  );
}

const MAX_NAMES = 5;

/** The first names of a list that may be long. */
function listOf(names: readonly string[]): string {
  const shown = names.slice(0, MAX_NAMES).map(shownName).join(', ');
  const more = names.length - MAX_NAMES;
  return more > 0 ? `${shown} and ${more.toLocaleString()} more` : shown;
}

const MAX_PROBLEMS = 5;

function summaryOf(problems: readonly string[]): string {
  const more = problems.length - MAX_PROBLEMS;
  const last = more > 0 ? [`${more.toLocaleString()} more were not uploaded.`] : [];
  return [...problems.slice(0, MAX_PROBLEMS), ...last].join(' ');
}

function EntryFacts({
  entry,
  attributes,
}: {
  entry: FileEntry;
  attributes: PathAttributes | undefined;
}): JSX.Element | null {
  if (attributes === undefined) return null;
  return (
    <span class="entry-facts dim number">
      <span>{entry.kind === 'file' && !entry.isSymlink ? formatBytes(attributes.size) : ''}</span>
      <span class="entry-time">{formatTime(new Date(attributes.modifiedAtMs))}</span>
    </span>
  );
}

function NewFolder({
  client,
  path,
  onClose,
}: {
  client: ExecServerClient;
  path: string;
  onClose: () => void;
}): JSX.Element {
  const [name, setName] = useState('');
  const [error, setError] = useState<string | null>(null);
  return (
    <Dialog title="New folder" onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault();
          const problem = nameProblem(name);
          if (problem !== null) return setError(problem);
          try {
            await client.files.makeDirectory(joinPath(path, name), { parents: false });
            reportChange();
            onClose();
          } catch (failure) {
            setError(describeError(failure));
          }
        }}
      >
        <input
          class="text-field"
          aria-label="Name"
          autofocus
          autocomplete="off"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        {error !== null && <ErrorNotice text={error} />}
        <div class="dialog-actions">
          <span class="spring" />
          <button type="submit" class="button primary">
            Create
          </button>
        </div>
      </form>
    </Dialog>
  );
}
