import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ExecServerClient, FileInfo } from '../../../../src/client/browser.ts';
import { describeError } from '../../base/format.ts';
import { go } from '../../base/route.ts';
import { useStore } from '../../base/store.ts';
import type { Workspace } from '../../connection/workspace.ts';
import { Empty } from '../../ui/empty.tsx';
import { Icon } from '../../ui/icons.tsx';
import { FileTree } from './file-tree.tsx';
import { FileView } from './file-view.tsx';
import { FolderView } from './folder-view.tsx';
import { parentOf } from './paths.ts';

/** The files of the environment: a tree, and the folder or file that is selected. */
export function FilesView({ workspace, path }: { workspace: Workspace; path: string | null }): JSX.Element {
  const connected = useStore(workspace.connection.client);
  // Without a connection the view stays: it may have text that is not saved.
  const latest = useRef(connected);
  if (connected !== null) latest.current = connected;
  const client = latest.current;
  const [root, setRoot] = useState<string | null>(null);
  useEffect(() => {
    if (client === null || root !== null) return;
    workspace
      .startDirectory(client)
      .then((directory) => client.files.realPath(directory ?? '.'))
      .then(setRoot, () => setRoot('/'));
  }, [client, root]);
  const selected = path ?? workspace.folder ?? root;
  if (workspace.session.scopes.files === 'none') {
    return (
      <section class="view" aria-label="Files">
        <Empty icon="files" title="No access to files">
          <p>This link may not read files. Sign in with a token that has the scope files.</p>
        </Empty>
      </section>
    );
  }
  return (
    <section
      class={path === null ? 'view files-view' : 'view files-view has-selection'}
      aria-labelledby="view-title"
    >
      <header class="view-head">
        <h1 id="view-title">Files</h1>
        {selected !== null && <PathField path={selected} />}
      </header>
      <div class="files">
        <nav class="tree" aria-label="Folders">
          {client !== null && root !== null && (
            <FileTree client={client} root={root} selected={selected ?? root} />
          )}
        </nav>
        {client !== null && selected !== null && (
          <Selected key={selected} workspace={workspace} client={client} path={selected} />
        )}
      </div>
    </section>
  );
}

/** The path, to read and to change. */
function PathField({ path }: { path: string }): JSX.Element {
  const [text, setText] = useState(path);
  useEffect(() => setText(path), [path]);
  return (
    <form
      class="field path-field"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.startsWith('/')) go({ view: 'files', item: text.replace(/(.)\/+$/, '$1') });
      }}
    >
      <Icon name="folder" size={16} />
      <input
        class="mono"
        aria-label="Path"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  );
}

function Selected({
  workspace,
  client,
  path,
}: {
  workspace: Workspace;
  client: ExecServerClient;
  path: string;
}): JSX.Element {
  const [info, setInfo] = useState<FileInfo | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    let current = true;
    client.files.stat(path).then(
      (found) => {
        if (!current) return;
        workspace.folder = found.kind === 'directory' ? path : parentOf(path);
        setInfo(found);
      },
      (failure) => {
        if (!current) return;
        // The remembered folder may be gone.
        workspace.folder = null;
        setError(describeError(failure));
      },
    );
    return () => {
      current = false;
    };
  }, [client, path, attempt]);
  if (error !== null && info === null) {
    return (
      <div class="file-pane">
        <Empty icon="warning" title="This path cannot be opened">
          <p>{error}</p>
          <button
            type="button"
            class="button"
            onClick={() => {
              setError(null);
              setAttempt(attempt + 1);
            }}
          >
            Try again
          </button>
        </Empty>
      </div>
    );
  }
  if (info === null) return <div class="file-pane" aria-busy="true" />;
  return info.kind === 'directory' ? (
    <FolderView workspace={workspace} client={client} path={path} />
  ) : (
    <FileView workspace={workspace} client={client} info={info} />
  );
}
