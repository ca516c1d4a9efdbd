import type { ExecServerClient, RecordingInfo } from '../../../../src/client/browser.ts';

/** A player in a browser keeps the whole recording in memory. */
const MAX_PLAYED_BYTES = 64 * 1024 * 1024;

/** Lists recordings, the latest first. */
export async function listRecordings(client: ExecServerClient): Promise<readonly RecordingInfo[]> {
  return (await client.recordings.list()).toReversed();
}

/** Reads a recording in the format asciicast v3, up to what a player can hold. The text ends with a complete line. */
export async function readRecording(client: ExecServerClient, recordingId: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const block of client.recordings.read(recordingId)) {
    text += decoder.decode(block, { stream: true });
    bytes += block.length;
    if (bytes > MAX_PLAYED_BYTES) break;
  }
  return text.slice(0, text.lastIndexOf('\n') + 1);
}
