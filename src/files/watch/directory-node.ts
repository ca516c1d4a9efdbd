import type { NativePath } from '../native-path.ts';
import type { WatchEventKind, WatchEventSource } from './event-queue.ts';

export type EntryKind = 'directory' | 'file' | 'link' | 'other';

/** What to check about a name: only whether it exists (`check`), also that it changed, or that its directory was replaced. */
export type PendingCheck = 'check' | WatchEventKind | 'replaced';
export type PendingNames = Map<string, PendingCheck>;

/** The entry found under a name. */
export interface Found {
  readonly kind: EntryKind;
  /** Null when it was not read. */
  readonly inode: number | null;
}

/** A directory that the watch enters. Other directories are stored like files. */
export class DirectoryNode {
  readonly path: NativePath;
  readonly parent: DirectoryNode | null;
  readonly entries = new Map<string, DirectoryNode | EntryKind>();
  source: WatchEventSource | null = null;
  inode: number | null = null;
  pending: PendingNames = new Map();
  /** The whole directory has to be compared, and its watch renewed. */
  stale = false;
  gone = false;

  constructor(path: NativePath, parent: DirectoryNode | null) {
    this.path = path;
    this.parent = parent;
  }

  close(): void {
    this.gone = true;
    this.source?.close();
    this.source = null;
  }
}

/** Whether the entry found is a different directory with the same name. */
export function isReplacedBy(directory: DirectoryNode, found: Found | null): boolean {
  return (
    directory.inode !== null && found !== null && found.inode !== null && found.inode !== directory.inode
  );
}

export function kindOf(known: DirectoryNode | EntryKind): EntryKind {
  return known instanceof DirectoryNode ? 'directory' : known;
}

export function entryKind(entry: {
  isDirectory(): boolean;
  isFile(): boolean;
  isSymbolicLink(): boolean;
}): EntryKind {
  if (entry.isDirectory()) return 'directory';
  if (entry.isFile()) return 'file';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

export function* directoriesBelow(directory: DirectoryNode): Generator<DirectoryNode> {
  for (const entry of directory.entries.values()) {
    if (!(entry instanceof DirectoryNode)) continue;
    yield entry;
    yield* directoriesBelow(entry);
  }
}
