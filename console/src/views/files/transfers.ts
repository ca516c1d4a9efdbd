import { ClientError, type ExecServerClient } from '../../../../src/client/browser.ts';
import { printableName } from '../../base/format.ts';
import { saveInBrowser } from '../../ui/save-in-browser.ts';
import { baseName, joinPath, nameProblem } from './paths.ts';
import { formatTextFile, type TextFile } from './text-file.ts';

/** The browser keeps a download in memory until it is complete. */
const MAX_DOWNLOAD_BYTES = 1024 ** 3;

/** Reads all blocks and gives them to the browser as a download. `command` is for sizes that a browser cannot hold. */
export async function download(
  blocks: AsyncIterable<Uint8Array>,
  { name, size, command }: { readonly name: string; readonly size: number; readonly command: string },
  onProgress: (bytes: number) => void,
): Promise<void> {
  if (size > MAX_DOWNLOAD_BYTES) throw new Error(`it is larger than 1 GB; use \`${command}\` instead`);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for await (const block of blocks) {
    parts.push(block as Uint8Array<ArrayBuffer>);
    bytes += block.length;
    onProgress(bytes);
  }
  saveInBrowser(parts, name);
}

/** Gives text of the editor to the browser as a download. Needs no connection. */
export function downloadText(file: TextFile, path: string): void {
  saveInBrowser([new TextEncoder().encode(formatTextFile(file))], baseName(path));
}

/** Files of the browser, before they are uploaded. */
interface CheckedUploads {
  readonly files: readonly File[];
  /** The names of those that the folder contains at this moment. Its listing on the page can be older. */
  readonly taken: readonly string[];
  /** Why other files are refused, one sentence or more for each. */
  readonly problems: readonly string[];
}

/** Finds out which files can be uploaded into a folder. Refuses names and links that lead out of it. */
export async function checkUploads(
  client: ExecServerClient,
  folder: string,
  files: readonly File[],
): Promise<CheckedUploads> {
  const checked = await Promise.all(
    files.map(async (file) => {
      const problem = nameProblem(file.name);
      if (problem !== null) return { file, problem, isTaken: false };
      const path = joinPath(folder, file.name);
      if (await isLink(client, path)) return { file, problem: LINK_PROBLEM, isTaken: true };
      return { file, problem: null, isTaken: await client.files.exists(path) };
    }),
  );
  const accepted = checked.filter(({ problem }) => problem === null);
  return {
    files: accepted.map(({ file }) => file),
    taken: accepted.filter(({ isTaken }) => isTaken).map(({ file }) => file.name),
    problems: checked
      .filter(({ problem }) => problem !== null)
      .map(({ file, problem }) => `${shownName(file.name)} was not uploaded. ${problem}`),
  };
}

/** The files of a drop, and what it contains instead of files. */
export function droppedFiles({ items }: DataTransfer): { files: File[]; problems: string[] } {
  const files: File[] = [];
  const problems: string[] = [];
  for (const item of items) {
    const file = item.getAsFile();
    if (file === null) continue;
    if (item.webkitGetAsEntry()?.isDirectory !== true) files.push(file);
    else
      problems.push(`${shownName(file.name)} is a folder and was not uploaded. Use \`exec-server cp -r\`.`);
  }
  return { files, problems };
}

/** The name of a file in a message. It may be any text. */
export function shownName(name: string): string {
  if (name === '') return 'A file without a name';
  const shown = printableName(name);
  return shown.length <= MAX_SHOWN_LENGTH ? shown : `${shown.slice(0, MAX_SHOWN_LENGTH)}…`;
}

const MAX_SHOWN_LENGTH = 80;

const LINK_PROBLEM =
  'The folder has a symbolic link of this name, which leads to another place. Delete the link first.';

/** Whether a path is a symbolic link, which may lead nowhere. Servers without attributes report only links that lead somewhere. */
async function isLink(client: ExecServerClient, path: string): Promise<boolean> {
  try {
    if (client.capabilities.fsAttributes) return (await client.files.attributes(path)).kind === 'symlink';
    return (await client.files.stat(path)).isSymlink;
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'notFound') return false;
    throw error;
  }
}

/** Writes a file of the browser, which {@link checkUploads} accepts, into a folder. Readers see the old file or the complete new one. */
export async function upload(
  client: ExecServerClient,
  folder: string,
  file: File,
  onProgress: (bytes: number) => void,
): Promise<void> {
  const path = joinPath(folder, file.name);
  let sent = 0;
  const blocks = async function* (): AsyncGenerator<Uint8Array> {
    const reader = file.stream().getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
      sent += value.length;
      onProgress(sent);
    }
  };
  await writeFile(client, path, blocks());
}

/**
 * Writes a file. Readers see the old file or the complete new one, except with a token that is limited to a directory: for it the server
 * follows no links, and can write only in place. Writes in place have no condition, so a change since the caller's comparison is lost.
 */
export async function writeFile(
  client: ExecServerClient,
  path: string,
  content: Uint8Array | AsyncIterable<Uint8Array>,
  ifSha256?: string,
): Promise<void> {
  try {
    await client.files.write(path, content, { parents: false, atomic: true, ifSha256 });
  } catch (error) {
    const isLimited = String(error).includes('an atomic replacement always follows symbolic links');
    if (!isLimited) throw error;
    // Nothing of the content has been read.
    await client.files.write(path, content, { parents: false, atomic: false });
  }
}

/** Tells open trees and folders to read their entries again. */
export function reportChange(): void {
  dispatchEvent(new Event('filesChanged'));
}
