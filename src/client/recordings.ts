import type { CallParamsOf, ResultOf } from '../protocol/registry.ts';
import type { CallOptions } from './backend.ts';
import { receivedBytes } from './connection/bytes.ts';
import { Deadline } from './connection/call-limit.ts';
import {
  CALL_OPTIONS,
  checkOneOf,
  checkSeq,
  expectOptions,
  expectText,
  type OptionNames,
} from './connection/option-checks.ts';
import { readRecordingPage } from './connection/sharing-messages.ts';
import { ClientError } from './errors.ts';
import { listPages } from './list-pages.ts';
import { unsupported } from './process/process-errors.ts';
import type { ClientHost } from './process/process-host.ts';
import type { RecordingState } from './sharing.ts';

/** What a server reports about a recording. Where the protocol has a URI and milliseconds, it has a native path and a date here. */
export interface RecordingInfo extends RecordingState {
  /** The server-wide reference of the process. */
  readonly ref: string;
  readonly name: string | null;
  readonly owner: string;
  /** The command line, with secrets masked. */
  readonly command: string;
  readonly tty: boolean;
  readonly startedAt: Date;
  /** The file on the server. */
  readonly path: string;
}

/** Options of {@link Recordings.list}. */
export type RecordingListOptions = CallOptions & Pick<NonNullable<CallParamsOf<'recordings/list'>>, 'scope'>;

/** Options of {@link Recordings.read}. */
export interface RecordingReadOptions extends CallOptions {
  /** Where to begin, in bytes. Default: 0. */
  readonly offset?: number;
}

/** The recordings of processes on a server: files in the format asciicast v3. */
export class Recordings {
  readonly #host: Pick<ClientHost, 'capabilities' | 'call'>;

  constructor(host: Pick<ClientHost, 'capabilities' | 'call'>) {
    this.#host = host;
  }

  /** Lists the recordings of the owner, or with the scope `server` all that there are, the oldest first. */
  async list(options: RecordingListOptions = {}): Promise<readonly RecordingInfo[]> {
    expectOptions('recordings.list', options, LIST_OPTIONS);
    checkOneOf('scope', options.scope, ['owner', 'server']);
    this.#requireRecordings();
    const deadline = new Deadline(options);
    const scope = options.scope && { scope: options.scope };
    return listPages<RecordingInfo, string>('recordings', async (after) => {
      const params = { ...scope, ...after };
      const result: ResultOf<'recordings/list'> = await this.#host.call(
        'recordings/list',
        params,
        deadline.remaining,
      );
      const { recordings, next } = readRecordingPage(result);
      return { items: recordings, next };
    });
  }

  /** Reads a recording as far as it is written. The limits apply to each call. */
  async *read(
    recordingId: string,
    options: RecordingReadOptions = {},
  ): AsyncGenerator<Uint8Array, void, undefined> {
    expectText('recordingId', recordingId, 'pass the `recordingId` of a recording');
    expectOptions('recordings.read', options, READ_OPTIONS);
    checkSeq('offset', options.offset);
    this.#requireRecordings();
    const { offset: start = 0, ...limits } = options;
    for (let offset = start; ; ) {
      const { chunk } = await this.#host.call('recordings/read', { recordingId, offset }, limits);
      const bytes = receivedBytes(chunk);
      if (bytes === null)
        throw new ClientError('protocol', 'invalid message from the server: a recording has no bytes');
      if (bytes.length === 0) return;
      yield bytes;
      offset += bytes.length;
    }
  }

  #requireRecordings(): void {
    if (!this.#host.capabilities.processRecording) {
      throw unsupported('record processes', 'update the server: it lacks the capability processRecording');
    }
  }
}

const LIST_OPTIONS: OptionNames<RecordingListOptions> = { ...CALL_OPTIONS, scope: true };
const READ_OPTIONS: OptionNames<RecordingReadOptions> = { ...CALL_OPTIONS, offset: true };
