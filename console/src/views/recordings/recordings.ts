import type { ExecServerClient, RecordingInfo } from '../../../../src/client/browser.ts';
import { isDrawable } from '../../../../src/process/screen/drawable.ts';

/** A player in a browser keeps the whole recording in memory. */
export const MAX_PLAYED_BYTES = 64 * 1024 * 1024;

/** Lists recordings of this owner or of all, the latest first. */
export async function listRecordings(
  client: ExecServerClient,
  everyone: boolean,
): Promise<readonly RecordingInfo[]> {
  return (await client.recordings.list({ scope: everyone ? 'server' : 'owner' })).toReversed();
}

/** What a player plays. */
interface PlayedRecording {
  /** In the format asciicast v3. The text ends with a complete line. */
  readonly text: string;
  /** Whether the end of the recording is missing. */
  readonly isCut: boolean;
}

/** Reads a recording in the format asciicast v3, up to what a player can hold. Throws for a terminal that cannot be drawn. */
export async function readRecording(
  blocks: AsyncIterable<Uint8Array>,
  maxBytes = MAX_PLAYED_BYTES,
): Promise<PlayedRecording> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  let isCut = false;
  for await (const block of blocks) {
    isCut = bytes + block.length > maxBytes;
    if (isCut) break;
    text += decoder.decode(block, { stream: true });
    bytes += block.length;
  }
  const recording = text.slice(0, text.lastIndexOf('\n') + 1);
  for (const size of terminalSizes(recording)) {
    if (!isDrawable(size)) throw new Error(`its terminal of ${size.cols}x${size.rows} is too large to show`);
  }
  return { text: recording, isCut };
}

/** The first size of the terminal and all later ones. */
function terminalSizes(recording: string): readonly { readonly rows: number; readonly cols: number }[] {
  const header = JSON.parse(recording.slice(0, recording.indexOf('\n')));
  const { cols = header.width ?? 0, rows = header.height ?? 0 } = header.term ?? {};
  const resizes = recording.matchAll(/^\[[^"]*"r"\s*,\s*"(\d+)x(\d+)"/gm);
  return [{ cols, rows }, ...Array.from(resizes, ([, c, r]) => ({ cols: Number(c), rows: Number(r) }))];
}
