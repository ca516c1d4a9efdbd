import type { NativePath } from '../native-path.ts';
import type { NoticeKind, NoticeSource } from './notice-queue.ts';

export type EntryKind = 'directory' | 'file' | 'link' | 'other';

/** What is to be found out about a name: whether it is there; also that it changed; or that it is in another directory now. */
export type Noted = 'look' | NoticeKind | 'replaced';
export type NotedNames = Map<string, Noted>;

/** What is there under a name. */
export interface Found {
  readonly kind: EntryKind;
  /** Null when it was not looked up. */
  readonly inode: number | null;
}

/** A directory that is entered. Directories that are not are known like files. */
export class Folder {
  readonly path: NativePath;
  readonly parent: Folder | null;
  readonly entries = new Map<string, Folder | EntryKind>();
  source: NoticeSource | null = null;
  inode: number | null = null;
  noted: NotedNames = new Map();
  /** All of it has to be looked at, and its watch renewed. */
  doubted = false;
  gone = false;

  constructor(path: NativePath, parent: Folder | null) {
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
export function isOther(folder: Folder, found: Found | null): boolean {
  return folder.inode !== null && found !== null && found.inode !== null && found.inode !== folder.inode;
}

export function kindOf(known: Folder | EntryKind): EntryKind {
  return known instanceof Folder ? 'directory' : known;
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

export function* foldersBelow(folder: Folder): Generator<Folder> {
  for (const entry of folder.entries.values()) {
    if (!(entry instanceof Folder)) continue;
    yield entry;
    yield* foldersBelow(entry);
  }
}
