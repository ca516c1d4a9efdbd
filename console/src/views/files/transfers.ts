import type { ExecServerClient } from '../../../../src/client/browser.ts';
import { joinPath, nameProblem } from './paths.ts';

/** The browser keeps a download in memory until it is complete. */
const MAX_DOWNLOAD_BYTES = 1024 ** 3;

/** Reads a file of the environment and gives it to the browser as a download. */
export async function download(
  client: ExecServerClient,
  path: string,
  name: string,
  size: number,
  onProgress: (bytes: number) => void,
): Promise<void> {
  if (size > MAX_DOWNLOAD_BYTES)
    throw new Error('the file is larger than 1 GB; copy it with `exec-server cp` instead');
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for await (const block of client.files.readStream(path)) {
    parts.push(block as Uint8Array<ArrayBuffer>);
    bytes += block.length;
    onProgress(bytes);
  }
  save(new Blob(parts, { type: 'application/octet-stream' }), name);
}

/** Gives data to the browser as a download. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Writes a file of the browser into a folder. Readers see the old file or the complete new one. Refuses names with path tricks. */
export async function upload(
  client: ExecServerClient,
  folder: string,
  file: File,
  onProgress: (bytes: number) => void,
): Promise<string> {
  const problem = nameProblem(file.name);
  if (problem !== null) throw new Error(problem);
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
  await client.files.write(path, blocks(), { parents: false, atomic: true });
  return path;
}

/** Tells open trees and folders to read their entries again. */
export function reportChange(): void {
  dispatchEvent(new Event('filesChanged'));
}
