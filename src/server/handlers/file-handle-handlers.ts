import { FileError } from '../../files/errors.ts';
import type { ReplacementPart } from '../../files/file-system.ts';
import { HASH_THREAD } from '../../files/hash-thread.ts';
import { HashedFile } from '../../files/hashed-file.ts';
import { inlineHasher } from '../../files/local/hash-file.ts';
import type { NativePath } from '../../files/native-path.ts';
import type { Access } from '../../files/path-order.ts';
import { uriFromPath } from '../../files/path-uri.ts';
import { invalidRequest } from '../../protocol/errors.ts';
import { Base64Result } from '../../rpc/results.ts';
import type { Handlers } from '../../rpc/router.ts';
import { attributesParam, bytesParam, pathParam } from './params.ts';
import type { HandlerServices } from './services.ts';

type FileHandleMethod = `fs/${'open' | 'readBlock' | 'writeBlock' | 'close'}`;

/** The path and access with which a handle's operations are ordered. */
interface Target {
  readonly path: NativePath;
  readonly access: Access;
}

/**
 * Block-wise access through handles that the client names. The operations of a handle run in order. Each is also queued among the
 * operations on the file's path when it arrives, and waits for its turn when the handle reaches it.
 */
export function fileHandleHandlers({ files, config }: HandlerServices): Pick<Handlers, FileHandleMethod> {
  const { handles, order } = files;
  const targets = new Map<string, Target>();

  const forget = (handleId: string, target: Target | undefined) => {
    if (targets.get(handleId) === target) targets.delete(handleId);
  };

  return {
    'fs/open': async (params, { park }) => {
      const path = pathParam(params, 'path', config);
      const { handleId, mode } = params;
      const access = mode === 'read' ? 'read' : 'write';
      const target: Target = { path, access };
      if (params.attributes != null && mode !== 'atomicReplace') {
        throw invalidRequest('fs/open accepts attributes only with the mode atomicReplace');
      }
      const attributes = attributesParam(params.attributes ?? {});
      const resumeKey = params.resumeKey ?? undefined;
      if (resumeKey !== undefined && (mode !== 'atomicReplace' || attributes.mode === undefined)) {
        throw invalidRequest(
          'fs/open accepts resumeKey only with the mode atomicReplace and attributes.mode',
        );
      }
      const hash = params.hash ?? false;
      if (hash && mode !== 'atomicReplace') {
        throw invalidRequest('fs/open accepts hash only with the mode atomicReplace');
      }
      const ifSha256 = params.ifSha256 ?? undefined;
      if (ifSha256 !== undefined && mode !== 'atomicReplace') {
        throw invalidRequest('fs/open accepts ifSha256 only with the mode atomicReplace');
      }
      const durable = params.durable ?? true;
      const options = { followSymlinks: true, attributes, resumeKey, durable, ifSha256 };
      let part: ReplacementPart | undefined;
      const fileSystem = files.under(params, access);
      if (!targets.has(handleId)) targets.set(handleId, target);
      const { turn, release } = order.claim([path], target.access);
      if (turn !== null) park();
      try {
        const open = async () => {
          const file = await fileSystem.open(path, mode, options);
          part = file.part;
          return hash ? new HashedFile(file, HASH_THREAD.begin() ?? inlineHasher()) : file;
        };
        await handles.open(handleId, open, turn);
      } catch (error) {
        forget(handleId, target);
        throw error;
      } finally {
        release();
      }
      return { handleId, ...(part && { part: { path: uriFromPath(part.path), size: part.size } }) };
    },

    'fs/readBlock': async ({ handleId, offset, len }, { park }) => {
      const target = targets.get(handleId);
      const claim = target && order.claim([target.path], 'read');
      if (claim?.turn) park();
      try {
        const { bytes, eof } = await handles.readBlock(handleId, offset, len, claim?.turn);
        return new Base64Result('{"chunk":"', bytes, `","eof":${eof}}`, {
          release: () => files.blocks.give(bytes),
        });
      } catch (error) {
        // A read that fails in the system closes the handle.
        if (error instanceof FileError && error.errno !== null) forget(handleId, target);
        throw error;
      } finally {
        claim?.release();
      }
    },

    'fs/writeBlock': async (params, { bulk, park }) => {
      const { handleId, offset } = params;
      const bytes = bytesParam(params, 'chunk', bulk);
      const target = targets.get(handleId);
      const claim = target && order.claim([target.path], target.access);
      if (claim?.turn) park();
      try {
        await handles.writeBlock(handleId, offset, bytes, claim?.turn);
        bulk?.release();
        return {};
      } finally {
        claim?.release();
      }
    },

    'fs/close': async ({ handleId, discard, sha256 }, { park }) => {
      const target = targets.get(handleId);
      const claim = target && order.claim([target.path], target.access);
      if (claim?.turn) park();
      targets.delete(handleId);
      try {
        await handles.close(handleId, claim?.turn, {
          discard: discard ?? false,
          sha256: sha256 ?? undefined,
        });
        return {};
      } finally {
        claim?.release();
      }
    },
  };
}
