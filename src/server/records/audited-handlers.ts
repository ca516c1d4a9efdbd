import { FileError } from '../../files/errors.ts';
import type { BulkBytes } from '../../protocol/envelope.ts';
import { METHODS, type Method } from '../../protocol/registry.ts';
import type { Handlers, RequestContext } from '../../rpc/router.ts';
import type { ConnectionAuditTrail, FileChange } from './audit-trail.ts';

/**
 * Wraps the handlers so that every file change is recorded before its response. Writes through a handle are recorded when it is opened
 * and, with the number of bytes, when it is closed. Process starts are recorded in the start itself, because their record must precede
 * them.
 */
export function auditedHandlers(handlers: Handlers, auditTrail: ConnectionAuditTrail): Handlers {
  const audited = new Map<string, unknown>(Object.entries(handlers));
  for (const method of Object.keys(handlers) as (keyof Handlers)[]) {
    if (METHODS[method].needs === 'files.write') {
      const handler = handlers[method] as Handler;
      audited.set(method, (params: Params, context: RequestContext) =>
        recorded(auditTrail, { method, paths: pathsOf(params), bytes: bytesOf(params, context.bulk) }, () =>
          handler(params, context),
        ),
      );
    }
  }
  return { ...(Object.fromEntries(audited) as Handlers), ...auditedHandles(handlers, auditTrail) };
}

type HandleMethod = `fs/${'open' | 'readBlock' | 'writeBlock' | 'close'}`;

function auditedHandles(handlers: Handlers, auditTrail: ConnectionAuditTrail): Pick<Handlers, HandleMethod> {
  const writing = new Map<string, { readonly path: string; bytes: number }>();

  const ended = async (handleId: string, end: Pick<FileChange, 'outcome' | 'reason'>) => {
    const handle = writing.get(handleId);
    if (handle === undefined) return;
    writing.delete(handleId);
    await auditTrail.fileChange({ method: 'fs/close', paths: [handle.path], bytes: handle.bytes, ...end });
  };
  const failed = (handleId: string, error: unknown) =>
    ended(handleId, { outcome: 'failed', reason: (error as Error).message }).catch(() => {});

  return {
    'fs/open': async (params, context) => {
      const { handleId, path, mode } = params;
      if (mode === 'read') return handlers['fs/open'](params, context);
      const change = { method: 'fs/open' as const, paths: [path], bytes: null };
      return await recorded(auditTrail, change, async () => {
        const result = await handlers['fs/open'](params, context);
        // Before the record is written, because blocks and the close may be pipelined behind this request.
        writing.set(handleId, { path, bytes: 0 });
        return result;
      });
    },

    'fs/readBlock': async (params, context) => {
      try {
        return await handlers['fs/readBlock'](params, context);
      } catch (error) {
        // A read that fails in the system closes the handle.
        if (error instanceof FileError && error.errno !== null) await failed(params.handleId, error);
        throw error;
      }
    },

    'fs/writeBlock': async (params, context) => {
      const result = await handlers['fs/writeBlock'](params, context);
      const handle = writing.get(params.handleId);
      if (handle !== undefined) handle.bytes += bytesOf(params, context.bulk) ?? 0;
      return result;
    },

    'fs/close': async (params, context) => {
      let result: Awaited<ReturnType<Handlers['fs/close']>>;
      try {
        result = await handlers['fs/close'](params, context);
      } catch (error) {
        await failed(params.handleId, error);
        throw error;
      }
      await ended(params.handleId, { outcome: 'done' });
      return result;
    },
  };
}

type Params = Readonly<Record<string, unknown>>;
type Handler = (params: Params, context: RequestContext) => unknown;

/** Makes a change and records its outcome. Does not start a change that cannot be recorded. */
async function recorded<T>(
  auditTrail: ConnectionAuditTrail,
  change: { readonly method: Method; readonly paths: readonly string[]; readonly bytes: number | null },
  carryOut: () => T | Promise<T>,
): Promise<T> {
  auditTrail.requireWritable();
  let result: T;
  try {
    result = await carryOut();
  } catch (error) {
    const reason = (error as Error).message;
    await auditTrail.fileChange({ ...change, bytes: null, outcome: 'failed', reason }).catch(() => {});
    throw error;
  }
  await auditTrail.fileChange({ ...change, outcome: 'done' });
  return result;
}

function pathsOf(params: Params): string[] {
  return [params.path, params.sourcePath, params.destinationPath].filter((path) => typeof path === 'string');
}

/** Number of bytes that a request carries in base64; null when it carries none. */
function bytesOf(params: Params, bulk: BulkBytes | null): number | null {
  if (bulk !== null) return bulk.bytes.length;
  const text = params.dataBase64 ?? params.chunk;
  if (typeof text !== 'string') return null;
  const padding = [text.at(-1), text.at(-2)].filter((last) => last === '=').length;
  return (text.length / 4) * 3 - padding;
}
