import { textOfName } from '../../files/native-path.ts';
import { visible } from '../terminal-text.ts';

/** What has a name in a directory tree. Modes are permission bits, times are whole milliseconds. */
export type Entry = FileEntry | DirectoryEntry | LinkEntry | OpaqueEntry;

export interface FileEntry {
  readonly kind: 'file';
  readonly size: number;
  readonly mtimeMs: number;
  readonly mode: number;
}

export interface DirectoryEntry {
  readonly kind: 'directory';
  readonly mode: number;
}

interface LinkEntry {
  readonly kind: 'link';
  /** In bytes, one per character, as paths are. */
  readonly target: string;
}

/** Something that is not synchronized, and nothing below it: an ignored name, what could not be read, a socket or a device. */
interface OpaqueEntry {
  readonly kind: 'ignored' | 'unreadable' | 'special';
}

/**
 * The entries below a directory by their relative path, parents before their contents. Paths are bytes, one per character, because names
 * need not be UTF-8. They have no empty, `.` or `..` names.
 */
export type Tree = ReadonlyMap<string, Entry>;

/** What a destination can set on an entry. */
export interface Attributes {
  readonly mode?: number;
  readonly mtimeMs?: number;
}

/** An entry to remove. */
export interface Removal {
  readonly path: string;
  readonly kind: 'file' | 'directory' | 'link';
}

/** Whether nothing is known or done below an entry. */
export function isOpaque(entry: Entry): entry is OpaqueEntry {
  return entry.kind !== 'file' && entry.kind !== 'directory' && entry.kind !== 'link';
}

/** The path of the directory that an entry is in; empty for the root of the tree. */
export function parentOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash === -1 ? '' : path.slice(0, slash);
}

/** The last name of a path. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The path of an entry of a directory. */
export function joined(directory: string, name: string): string {
  return directory === '' ? name : `${directory}/${name}`;
}

/** The directories above a path, the highest first, without the root of the tree. */
export function ancestorsOf(path: string): string[] {
  const above: string[] = [];
  for (let slash = path.indexOf('/'); slash !== -1; slash = path.indexOf('/', slash + 1)) {
    above.push(path.slice(0, slash));
  }
  return above;
}

/** Whether these bytes can be the name of an entry. A server must not choose a place outside the tree. */
export function isName(bytes: string): boolean {
  return bytes !== '' && bytes !== '.' && bytes !== '..' && !/[/\0]|[^\u0000-\u00ff]/.test(bytes);
}

/** A path for people. */
export function shownPath(path: string): string {
  return visible(textOfName(path));
}
