import type {
  RecordingInfo,
  RecordingListOptions,
  RecordingReadOptions,
  Recordings,
} from '../../client/recordings.ts';
import type { LazyConnection } from './lazy-connection.ts';

/** The recordings of an executor, through a connection that the first use opens. */
export class LazyRecordings implements Pick<Recordings, 'list' | 'read'> {
  readonly #connection: LazyConnection;

  constructor(connection: LazyConnection) {
    this.#connection = connection;
  }

  async list(options?: RecordingListOptions): Promise<readonly RecordingInfo[]> {
    const lease = await this.#connection.lease(options);
    try {
      return await lease.connection.client.recordings.list({ ...options, ...lease.options });
    } finally {
      lease.release();
    }
  }

  async *read(
    recordingId: string,
    options?: RecordingReadOptions,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const lease = await this.#connection.lease(options);
    try {
      yield* lease.connection.client.recordings.read(recordingId, options);
    } finally {
      lease.release();
    }
  }
}
