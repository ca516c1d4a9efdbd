import type { NativePath } from '../native-path.ts';
import type { WatchEventKind, WatchEventSource } from './event-queue.ts';

export type EntryKind = 'directory' | 'file' | 'link' | 'other';

/** What is to be found out about a name: whether it is there; also that it changed; or that it is in another directory now. */
export type Noted = 'look' | WatchEventKind | 'replaced';
export type NotedNames = Map<string, Noted>;

/** What is there under a name. */
export interface Found {
  readonly kind: EntryKind;
  /** Null when it was not looked up. */
  readonly inode: number | null;
}

/** A directory that is entered. Directories that are not are known like files. */
export class DirectoryNode {
  readonly path: NativePath;
  readonly parent: DirectoryNode | null;
  readonly entries = new Map<string, DirectoryNode | EntryKind>();
  source: WatchEventSource | null = null;
  inode: number | null = null;
  noted: NotedNames = new Map();
  /** All of it has to be looked at, and its watch renewed. */
  doubted = false;
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

/** Whether another directory stands in the place of the known one. */
export function isOther(folder: DirectoryNode, found: Found | null): boolean {
  return folder.inode !== null && found !== null && found.inode !== null && found.inode !== folder.inode;
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

export function* directoriesBelow(folder: DirectoryNode): Generator<DirectoryNode> {
  for (const entry of folder.entries.values()) {
    if (!(entry instanceof DirectoryNode)) continue;
    yield entry;
    yield* directoriesBelow(entry);
  }
}
