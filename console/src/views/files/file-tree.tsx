import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ExecServerClient, FileEntry } from '../../../../src/client/browser.ts';
import { printableName } from '../../base/format.ts';
import { go, hrefOf, route } from '../../base/route.ts';
import { Icon } from '../../ui/icons.tsx';
import { useFolder } from './folder-entries.ts';
import { baseName, parentOf } from './paths.ts';

const MAX_ENTRIES = 1000;

/**
 * Folders that open in place. Up and down move between visible entries. Right opens a folder, or moves into it. Left closes it, or moves to
 * the folder that contains the entry.
 */
export function FileTree({
  client,
  root,
  selected,
}: {
  client: ExecServerClient;
  root: string;
  selected: string;
}): JSX.Element {
  const top = isOnPath(root, selected) ? root : '/';
  const [isSettled, setSettled] = useState(false);
  return (
    <div
      role="tree"
      class={isSettled ? '' : 'loading'}
      aria-label="Files"
      aria-busy={!isSettled}
      onKeyDown={(event) => {
        const links = [...event.currentTarget.querySelectorAll<HTMLElement>('[role=treeitem]')];
        const index = links.indexOf(document.activeElement as HTMLElement);
        if (index < 0) return;
        const item = links[index]!;
        const isOpen = item.getAttribute('aria-expanded');
        if (event.key === 'ArrowDown') links[index + 1]?.focus();
        else if (event.key === 'ArrowUp') links[index - 1]?.focus();
        else if (event.key === 'ArrowRight' && isOpen === 'false') item.querySelector('button')?.click();
        else if (event.key === 'ArrowRight' && isOpen === 'true') links[index + 1]?.focus();
        else if (event.key === 'ArrowLeft' && isOpen === 'true') item.querySelector('button')?.click();
        else if (event.key === 'ArrowLeft') {
          const isAbove = (other: HTMLElement) => Number(other.ariaLevel) < Number(item.ariaLevel);
          links.slice(0, index).findLast(isAbove)?.focus();
        } else return;
        event.preventDefault();
      }}
    >
      {top !== '/' && (
        <a class="tree-row up" href={hrefOf({ ...route.value, view: 'files', item: parentOf(top) })}>
          <Icon name="back" size={14} /> Parent folder
        </a>
      )}
      <Node
        client={client}
        path={top}
        kind="directory"
        selected={selected}
        depth={0}
        onSettled={() => setSettled(true)}
      />
    </div>
  );
}

/** Whether a path is the selected one, or a folder that contains it. */
function isOnPath(path: string, selected: string): boolean {
  return selected === path || selected.startsWith(path === '/' ? '/' : `${path}/`);
}

function Node({
  client,
  path,
  kind,
  selected,
  depth,
  onSettled,
}: {
  client: ExecServerClient;
  path: string;
  kind: FileEntry['kind'];
  selected: string;
  depth: number;
  /** All folders on the way to the selected entry are loaded. Until then their entries would move those below. */
  onSettled: () => void;
}): JSX.Element {
  const contains = isOnPath(path, selected);
  const [isOpen, setOpen] = useState(kind === 'directory' && (depth === 0 || contains));
  useEffect(() => {
    if (kind === 'directory' && contains) setOpen(true);
  }, [selected]);
  const row = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (selected === path) row.current?.scrollIntoView({ block: 'nearest' });
  }, [selected]);
  const isFolder = kind === 'directory';
  const { entries, error } = useFolder(client, path, isOpen && isFolder);
  const shown = entries?.slice(0, MAX_ENTRIES) ?? null;
  useEffect(() => {
    if (!contains) return;
    const leadsOn = shown?.some((entry) => isOnPath(entry.path, selected)) === true;
    const isLoaded = !isFolder || entries !== null || error !== null;
    if (isLoaded && !leadsOn) onSettled();
  }, [entries, error, selected]);
  return (
    <>
      <div
        ref={row}
        class={selected === path ? 'tree-row selected' : 'tree-row'}
        role="treeitem"
        aria-level={depth + 1}
        aria-expanded={isFolder ? isOpen : undefined}
        aria-selected={selected === path}
        tabIndex={selected === path || depth === 0 ? 0 : -1}
        style={{ paddingLeft: `${8 + depth * 14}px` }}
        title={printableName(path)}
        onClick={() => go({ view: 'files', item: path })}
        onKeyDown={(event) => {
          if (event.key === 'Enter') go({ view: 'files', item: path });
        }}
      >
        {isFolder ? (
          <button
            type="button"
            class={isOpen ? 'twist open' : 'twist'}
            tabIndex={-1}
            aria-hidden="true"
            onClick={(event) => {
              event.stopPropagation();
              setOpen(!isOpen);
            }}
          >
            <Icon name="chevron" size={13} />
          </button>
        ) : (
          <span class="twist" />
        )}
        <Icon name={isFolder ? 'folder' : 'file'} size={15} />
        <span class="ellipsis">{printableName(baseName(path))}</span>
      </div>
      {isOpen && error !== null && <p class="tree-note">{error}</p>}
      {isOpen &&
        shown?.map((entry) => (
          <Node
            key={entry.path}
            client={client}
            path={entry.path}
            kind={entry.kind}
            selected={selected}
            depth={depth + 1}
            onSettled={onSettled}
          />
        ))}
      {isOpen && entries !== null && entries.length > MAX_ENTRIES && (
        <p class="tree-note">{(entries.length - MAX_ENTRIES).toLocaleString()} more are not shown</p>
      )}
    </>
  );
}
