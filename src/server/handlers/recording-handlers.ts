import { nativePathOfText } from '../../files/native-path.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import { forbidden, invalidRequest, notFound, printable, type RpcError } from '../../protocol/errors.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import type { RecordingStore, StoredRecording } from '../../recording/recording-store.ts';
import { Base64Result } from '../../rpc/results.ts';
import type { Handlers } from '../../rpc/router.ts';
import { LIST_PAGE_BYTES, RECORDING_PAGE_BYTES } from '../limits.ts';
import { mayRead } from '../sessions/process-directory.ts';
import type { HandlerServices } from './services.ts';

type ListedRecording = ResultOf<'recordings/list'>['recordings'][number];

/** The `recordings/*` methods. */
export function recordingHandlers({
  recordings,
  processes: { reader },
}: HandlerServices): Pick<Handlers, 'recordings/list' | 'recordings/read'> {
  const isReadable = (recording: StoredRecording) => mayRead(reader, { owner: ownerOf(recording) });
  return {
    'recordings/list': async ({ after, scope }, { maxResultBytes }) => {
      if (scope === 'server' && !reader.observe) {
        throw forbidden(
          'the token does not allow to list the recordings of all owners: it needs the scope `observe`',
        );
      }
      const store = required(recordings);
      const isListed = ({ owner }: ListedRecording) => scope === 'server' || owner === reader.owner;
      return await page(store, after ?? '', Math.min(maxResultBytes(), LIST_PAGE_BYTES), isListed);
    },

    'recordings/read': async ({ recordingId, offset, maxBytes }, { maxResultBytes }) => {
      const store = required(recordings);
      const recording = await store.find(recordingId);
      if (recording === null || !isReadable(recording)) throw unknownRecording(recordingId);
      // Base64 has four characters for three bytes.
      const fitting = Math.floor(((maxResultBytes() - ENVELOPE_BYTES) / 4) * 3);
      const length = Math.min(maxBytes ?? RECORDING_PAGE_BYTES, RECORDING_PAGE_BYTES, Math.max(1, fitting));
      const chunk = await store.read(recording, offset, length);
      if (chunk === null) throw unknownRecording(recordingId);
      return new Base64Result(
        '{"chunk":"',
        chunk,
        `","bytes":${recording.bytes},"state":"${recording.state}"}`,
      );
    },
  };
}

function unknownRecording(recordingId: string): RpcError {
  return notFound(`unknown recording ${printable(recordingId)}; it may have been removed to limit space`);
}

/** What a result of `recordings/read` takes besides its chunk. */
const ENVELOPE_BYTES = 256;

/** The first recordings after an id whose JSON fits, but at least one. */
async function page(
  store: RecordingStore,
  after: string,
  maxBytes: number,
  isListed: (recording: ListedRecording) => boolean,
): Promise<ResultOf<'recordings/list'>> {
  const listed: ListedRecording[] = [];
  let bytes = ENVELOPE_BYTES;
  for (const id of await store.ids()) {
    if (id <= after) continue;
    const found = await store.find(id);
    if (found === null) continue;
    const recording = wireRecording(found);
    if (!isListed(recording)) continue;
    bytes += Buffer.byteLength(JSON.stringify(recording)) + 1;
    if (bytes > maxBytes && listed.length > 0)
      return { recordings: listed, next: listed.at(-1)!.recordingId };
    listed.push(recording);
  }
  return { recordings: listed };
}

function wireRecording(recording: StoredRecording): ListedRecording {
  const { recordingId, state, bytes, path, header } = recording;
  const { ref = '', name, tty = true } = header.exec_server ?? {};
  return {
    recordingId,
    state,
    bytes,
    ref,
    ...(name !== undefined && { name }),
    owner: ownerOf(recording),
    command: header.command ?? '',
    tty,
    startedAtMs: Math.floor(header.timestamp * 1_000),
    path: uriFromPath(nativePathOfText(path)),
  };
}

/** A file that another program wrote has no owner. Only those who may read everything can read it. */
function ownerOf({ header }: StoredRecording): string {
  return header.exec_server?.owner ?? '';
}

function required(recordings: RecordingStore | null): RecordingStore {
  if (recordings !== null) return recordings;
  throw invalidRequest('recordings are switched off on this server (maxRecordingsBytes)');
}
