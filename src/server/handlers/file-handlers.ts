import type { DirectoryEntry, FileContent, LinkOption, WalkResult } from '../../files/file-system.ts';
import { DIRECTORY_BATCH_ENTRIES } from '../../files/limits.ts';
import { checkWalkLimits } from '../../files/local/walk.ts';
import { type NativePath, textOfName } from '../../files/native-path.ts';
import { decodeEscapes, uriFromPath } from '../../files/path-uri.ts';
import { EncodedWalk, encodeWalkEntry } from '../../files/thread/encoded-walk.ts';
import { invalidRequest } from '../../protocol/errors.ts';
import { encodeInTurns, joinInTurns } from '../../rpc/encode-in-turns.ts';
import {
  Base64Result,
  type ByteSource,
  BytesResult,
  EncodedResult,
  StreamedResult,
} from '../../rpc/results.ts';
import type { Handlers } from '../../rpc/router.ts';
import { FixedBufferPool } from '../../transport/buffer-pool.ts';
import { CONTENT_POOL_SIZE, INLINE_READ_BYTES, POOLED_CONTENT_MIN_BYTES } from '../limits.ts';
import { hashAll, hashTimeout } from './hash-files.ts';
import { listAll } from './list-directories.ts';
import { attributesParam, decodeParam, pathParam, pathsParam } from './params.ts';
import type { HandlerServices } from './services.ts';

/** Methods for whole files and directories. */
type WholeFileMethod =
  | `fs/${'readFile' | 'writeFile' | 'createDirectory' | 'getMetadata' | 'canonicalize' | 'readDirectory'}`
  | `fs/${'walk' | 'remove' | 'copy' | 'rename' | 'list' | 'setAttributes' | 'createLink' | 'hash' | 'search'}`;

/** Each handler turns URIs into paths, waits for its turn, calls the file system and encodes the result. */
export function fileHandlers({ files, config }: HandlerServices): Pick<Handlers, WholeFileMethod> {
  return {
    'fs/readFile': async (params, { park }) => {
      const fileSystem = files.under(params, 'read');
      const path = pathParam(params, 'path', config);
      const { turn, release } = files.order.claim([path], 'read');
      try {
        if (turn !== null) {
          park();
          await turn;
        }
        return await contentResult(await fileSystem.readFile(path, links(params)), release);
      } catch (error) {
        release();
        throw error;
      }
    },

    'fs/writeFile': (params, { signal, bulk, park }) => {
      const fileSystem = files.under(params, 'write');
      const path = pathParam(params, 'path', config);
      const bytes = decodeParam(params.dataBase64, bulk);
      if ('problem' in bytes) {
        throw invalidRequest(`fs/writeFile requires valid base64 dataBase64: ${bytes.problem}`);
      }
      return files.order.run([path], 'write', park, async (release) => {
        const onWait = () => {
          release();
          park();
        };
        await fileSystem.writeFile(path, bytes, links(params), { signal, onWait });
        bulk?.release();
        return {};
      });
    },

    'fs/createDirectory': (params, { park }) => {
      const fileSystem = files.under(params, 'write');
      const path = pathParam(params, 'path', config);
      const options = { ...links(params), recursive: params.recursive ?? true };
      return files.order.run([path], options.recursive ? 'make' : 'write', park, async () => {
        await fileSystem.createDirectory(path, options);
        return {};
      });
    },

    'fs/getMetadata': (params, { park }) => {
      const fileSystem = files.under(params, 'read');
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'read', park, () => fileSystem.getMetadata(path, links(params)));
    },

    'fs/canonicalize': (params, { park }) => {
      const fileSystem = files.under(params, 'read');
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'read', park, async () => ({
        path: uriFromPath(await fileSystem.canonicalize(path)),
      }));
    },

    'fs/readDirectory': (params, { park, maxResultBytes }) => {
      const fileSystem = files.under(params, 'read');
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'read', park, async () =>
        directoryResult(await fileSystem.readDirectory(path), maxResultBytes()),
      );
    },

    'fs/walk': (params, { park }) => {
      const fileSystem = files.under(params, 'read');
      checkWalkLimits(params.options);
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'read', park, async () =>
        walkResult(await fileSystem.walk(path, params.options, files.ended)),
      );
    },

    'fs/remove': (params, { park }) => {
      const fileSystem = files.under(params, 'write');
      const path = pathParam(params, 'path', config);
      const options = {
        ...links(params),
        recursive: params.recursive ?? true,
        force: params.force ?? true,
      };
      return files.order.run([path], 'write', park, async () => {
        await fileSystem.remove(path, options);
        return {};
      });
    },

    'fs/copy': (params, { park }) => {
      const fileSystem = files.under(params, 'write');
      const source = pathParam(params, 'sourcePath', config);
      const destination = pathParam(params, 'destinationPath', config);
      return files.order.run([source, destination], 'write', park, async () => {
        await fileSystem.copy(source, destination, { recursive: params.recursive });
        return {};
      });
    },

    'fs/rename': (params, { park }) => {
      const fileSystem = files.under(params, 'write');
      const source = pathParam(params, 'sourcePath', config);
      const destination = pathParam(params, 'destinationPath', config);
      return files.order.run([source, destination], 'write', park, async () => {
        await fileSystem.rename(source, destination);
        return {};
      });
    },

    'fs/list': (params, { park, maxResultBytes }) => {
      const fileSystem = files.under(params, 'read');
      const paths = pathsParam(params, config);
      return files.order.run(paths, 'read', park, async () => {
        park();
        const list = (path: NativePath) => fileSystem.list(path, { followSymlinks: true });
        return encodeInTurns(
          await listAll(paths, params.recursive ?? false, list, files.ended),
          maxResultBytes(),
        );
      });
    },

    'fs/setAttributes': (params, { park }) => {
      const fileSystem = files.under(params, 'write');
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'write', park, async () => {
        await fileSystem.setAttributes(path, attributesParam(params));
        return {};
      });
    },

    'fs/createLink': (params, { park }) => {
      const fileSystem = files.under(params, 'write');
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'write', park, async () => {
        await fileSystem.createLink(path, linkTarget(params.target), { replace: params.replace ?? false });
        return {};
      });
    },

    'fs/hash': (params, { park }) => {
      const fileSystem = files.under(params, 'read');
      const paths = pathsParam(params, config);
      const timeoutMs = hashTimeout(params.timeoutMs);
      return files.order.run(paths, 'read', park, async () => {
        park();
        const hash = (path: NativePath, signal: AbortSignal) => fileSystem.hash(path, links(params), signal);
        return { files: await hashAll(paths, hash, timeoutMs, files.ended) };
      });
    },

    'fs/search': (params, { park }) => {
      const search = files.searchUnder(params);
      const path = pathParam(params, 'path', config);
      return files.order.run([path], 'read', park, async () => {
        park();
        const found = await search({ ...params, path }, files.ended);
        const { matches, truncated, incompleteFiles, unreadable, engine } = found;
        return {
          matches: matches.map((match) => ({ ...match, path: uriFromPath(match.path) })),
          truncated,
          ...(incompleteFiles.length > 0 && { incompleteFiles: incompleteFiles.map(uriFromPath) }),
          ...(unreadable > 0 && { unreadable }),
          engine,
        };
      });
    },
  };
}

function links(params: { readonly followSymlinks?: boolean | null | undefined }): LinkOption {
  return { followSymlinks: params.followSymlinks ?? true };
}

/** The bytes of a link's target, one per character. Characters that are not ASCII stand for their UTF-8 bytes. */
function linkTarget(text: string): string {
  return decodeEscapes(Buffer.from(text).toString('latin1'));
}

const BEFORE_DATA = '{"dataBase64":"';
const AFTER_DATA = '"}';

/** A small file becomes one response; a large one is read while it is sent. `onRead` is called when reading is complete. */
async function contentResult(
  content: FileContent,
  onRead: () => void,
): Promise<Base64Result | StreamedResult> {
  if (content.whole !== undefined) {
    onRead();
    return new Base64Result(BEFORE_DATA, content.whole, AFTER_DATA);
  }
  let streamed = false;
  const wanted = Math.min(multipleOfThree(content.size + 1), INLINE_READ_BYTES);
  const buffer = wanted < POOLED_CONTENT_MIN_BYTES ? Buffer.allocUnsafeSlow(wanted) : CONTENTS.take(wanted);
  try {
    const first = buffer.subarray(0, wanted);
    const length = await content.read(first);
    streamed = length === wanted;
    return streamed
      ? new StreamedResult(BEFORE_DATA, first, untilClosed(content, onRead), AFTER_DATA, content.size)
      : new Base64Result(BEFORE_DATA, first.subarray(0, length), AFTER_DATA, {
          release: () => CONTENTS.give(buffer),
        });
  } finally {
    if (!streamed) {
      // The bytes are complete; an error on close does not matter.
      content.close().catch(() => {});
      onRead();
    }
  }
}

/** The sender closes the source, also when it is aborted. */
function untilClosed(content: FileContent, onClosed: () => void): ByteSource {
  return {
    read: (buffer) => content.read(buffer),
    close: () => content.close().finally(onClosed),
  };
}

const CONTENTS = new FixedBufferPool(INLINE_READ_BYTES, CONTENT_POOL_SIZE);

function multipleOfThree(bytes: number): number {
  return Math.ceil(bytes / 3) * 3;
}

/** Few names contain characters that JSON escapes, and the test is cheaper than JSON.stringify. */
function directoryResult(
  entries: readonly DirectoryEntry[],
  maxBytes: number,
): EncodedResult | Promise<BytesResult> {
  if (entries.length > DIRECTORY_BATCH_ENTRIES) return joinInTurns(directoryPieces(entries), maxBytes);
  return new EncodedResult(`{"entries":[${entries.map(encodeEntry).join(',')}]}`);
}

function* directoryPieces(entries: readonly DirectoryEntry[]): Generator<string> {
  let separator = '{"entries":[';
  for (const entry of entries) {
    yield separator + encodeEntry(entry);
    separator = ',';
  }
  yield ']}';
}

function encodeEntry({ name, isDirectory, isFile }: DirectoryEntry): string {
  const fileName = textOfName(name);
  const encoded = NEEDS_ESCAPE.test(fileName) ? JSON.stringify(fileName) : `"${fileName}"`;
  return `{"fileName":${encoded},"isDirectory":${isDirectory},"isFile":${isFile}}`;
}

const NEEDS_ESCAPE = /["\\\u0000-\u001f]/;

function walkResult(result: WalkResult): EncodedResult | BytesResult {
  const errors = result.errors.map(({ uri, message }) => ({ path: uri, message }));
  const after = `],"errors":${JSON.stringify(errors)},"truncated":${result.truncated}}`;
  if (result instanceof EncodedWalk) return new BytesResult('{"entries":[', result.text, after);
  const entries = result.entries.map(({ uri, kind }) => encodeWalkEntry(uri, kind));
  return new EncodedResult(`{"entries":[${entries.join(',')}${after}`);
}
