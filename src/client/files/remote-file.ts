import { randomHex } from '../../base/random-hex.ts';
import type { CallParamsOf, Method, ResultOf } from '../../protocol/registry.ts';
import type { CallOptions, ReplacementPart } from '../backend.ts';
import { bytesParam, receivedBytes } from '../connection/bytes.ts';
import { asFileError } from '../connection/call-errors.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { ClientError } from '../errors.ts';
import { FILE_BLOCK_BYTES } from '../limits.ts';
import type { FileSystemClient } from './remote-file-system.ts';

/** The params of `fs/open` besides those that the file itself sets. */
export type OpenOptions = Omit<CallParamsOf<'fs/open'>, 'handleId' | 'path' | 'mode'>;
export type OpenMode = NonNullable<CallParamsOf<'fs/open'>['mode']>;

/** A file that is open on the server. */
export class RemoteFile {
  readonly #client: FileSystemClient;
  readonly #path: string;
  readonly #mode: OpenMode;
  readonly #options: CallOptions;
  readonly #handleId = randomHex();
  /** Memory of blocks that the server has answered. Allocating and collecting a megabyte for each block takes longer than filling it. */
  readonly #spareBlocks: Uint8Array[] = [];

  constructor(client: FileSystemClient, path: string, mode: OpenMode, options: CallOptions) {
    this.#client = client;
    this.#path = path;
    this.#mode = mode;
    this.#options = options;
  }

  /** Opens the file. When the client gives up first, the file may still be open on the server. */
  async open(own: OpenOptions): Promise<ReplacementPart | null> {
    const mode = this.#mode === 'read' ? {} : { mode: this.#mode };
    const params = { handleId: this.#handleId, path: this.#path, ...mode, ...own };
    try {
      return (await this.#client.call('fs/open', params, this.#options)).part ?? null;
    } catch (error) {
      if (!(error instanceof ClientError && error.code !== null)) void this.abandon();
      throw error;
    }
  }

  async read(offset: number): Promise<{ readonly bytes: Uint8Array; readonly eof: boolean }> {
    const { chunk, eof } = await this.#call('fs/readBlock', { offset, len: FILE_BLOCK_BYTES });
    const bytes = decoded(chunk, this.#path);
    if (bytes.length > FILE_BLOCK_BYTES || (bytes.length < FILE_BLOCK_BYTES && !eof)) {
      throw new ClientError(
        'invalidData',
        `invalid message from the server: a block of ${bytes.length} bytes of ${this.#path}`,
      );
    }
    return { bytes, eof };
  }

  /** The caller may reuse the bytes. */
  async write(offset: number, bytes: Uint8Array): Promise<void> {
    if (!this.#client.takesBytes || bytes.length < FILE_BLOCK_BYTES) {
      await this.#call('fs/writeBlock', { offset, chunk: bytesParam(bytes, this.#client) });
      return;
    }
    const block = this.#spareBlocks.pop() ?? new Uint8Array(FILE_BLOCK_BYTES);
    block.set(bytes);
    await this.#call('fs/writeBlock', { offset, chunk: block as unknown as string });
    // Not after an error: the block may still wait to be sent.
    this.#spareBlocks.push(block);
  }

  /** Closes the file. An atomic replacement takes effect; with a hash, only if the server has received content with this hash. */
  async close(sha256?: string): Promise<void> {
    await this.#call('fs/close', sha256 === undefined ? {} : { sha256 });
  }

  /**
   * Closes the file and drops an atomic replacement. Resolves when that is done or the caller's limit is reached. A
   * handle that stays open ends with the connection.
   */
  async abandon(): Promise<void> {
    const discard = this.#mode === 'atomicReplace' ? { discard: true } : {};
    const limit = new CallLimit(`closing ${this.#path}`, this.#options);
    const closing = this.#client.call('fs/close', { handleId: this.#handleId, ...discard });
    await limit.race(closing).catch(() => undefined);
    limit.end();
  }

  async #call<M extends 'fs/readBlock' | 'fs/writeBlock' | 'fs/close'>(
    method: M,
    params: Omit<CallParamsOf<M>, 'handleId'>,
  ): Promise<ResultOf<M>> {
    try {
      const full = { ...params, handleId: this.#handleId } as CallParamsOf<M>;
      return await callForBytes(this.#client, method, full, this.#options);
    } catch (error) {
      throw this.#explained(asFileError(error));
    }
  }

  /** An unknown handle that was opened before has ended with its connection; the file itself may exist. */
  #explained(error: unknown): unknown {
    if (!(error instanceof ClientError && error.kind === 'notFound')) return error;
    const message = `the connection on which ${this.#path} was open is gone`;
    return new ClientError('brokenPipe', message, { cause: error });
  }
}

/** Calls a method. Only checks that the result is an object, so that an invalid one is a protocol error. */
export async function callForBytes<M extends Method>(
  client: FileSystemClient,
  method: M,
  params: CallParamsOf<M>,
  options: CallOptions,
): Promise<ResultOf<M>> {
  const call = client.callForBytes ?? client.call;
  const result = await call.call(client, method, params, options);
  if (typeof result === 'object' && result !== null) return result as ResultOf<M>;
  throw new ClientError(
    'protocol',
    `invalid message from the server: the result of \`${method}\` is not an object`,
  );
}

/** The bytes of a base64 member of a result. */
export function decoded(base64: unknown, path: string): Uint8Array {
  const bytes = receivedBytes(base64);
  if (bytes !== null) return bytes;
  throw new ClientError(
    'invalidData',
    `invalid message from the server: the content of ${path} is not base64`,
  );
}
