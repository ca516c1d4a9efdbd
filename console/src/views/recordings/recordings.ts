import { decodeBase64 } from '../../../../src/base/base64.ts';
import type { ExecServerClient } from '../../../../src/client/browser.ts';

/** A recording of a process on the server, as `recordings/list` has it. */
export interface Recording {
  readonly recordingId: string;
  readonly state: 'recording' | 'complete' | 'incomplete';
  readonly bytes: number;
  readonly ref: string;
  readonly name?: string;
  readonly owner: string;
  readonly command: string;
  readonly tty: boolean;
  readonly startedAtMs: number;
}

/** A player in a browser keeps the whole recording in memory. */
const MAX_PLAYED_BYTES = 64 * 1024 * 1024;
const MAX_PAGES = 100;

type Call = (method: string, params: unknown) => Promise<unknown>;

/** Lists recordings, the latest first. */
export async function listRecordings(client: ExecServerClient): Promise<readonly Recording[]> {
  const call = client.call.bind(client) as unknown as Call;
  const found: Recording[] = [];
  let after: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const result = (await call('recordings/list', after === undefined ? {} : { after })) as {
      recordings: readonly Recording[];
      next?: string;
    };
    found.push(...result.recordings);
    if (result.next === undefined) break;
    after = result.next;
  }
  return found.toReversed();
}

/** Reads a recording in the format asciicast v3, up to what a player can hold. */
export async function readRecording(
  client: ExecServerClient,
  recordingId: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const call = client.call.bind(client) as unknown as Call;
  const parts: Uint8Array[] = [];
  let offset = 0;
  while (offset < MAX_PLAYED_BYTES) {
    const { chunk } = (await call('recordings/read', { recordingId, offset })) as { chunk: string };
    const bytes = decodeBase64(chunk);
    if (bytes === null || bytes.length === 0) break;
    parts.push(bytes);
    offset += bytes.length;
  }
  const whole = new Uint8Array(offset);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
