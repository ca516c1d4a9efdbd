import type { PathLike } from '../../paths.ts';
import type { Files } from '../files.ts';
import type { TransferOptions, TransferResult } from '../transfer-result.ts';
import { copyTree } from './copy-tree.ts';
import { localPath } from './local-files.ts';
import { LocalSink, LocalSource } from './local-side.ts';
import { RemoteSink, RemoteSource } from './remote-side.ts';
import { Transfer } from './transfer.ts';

// Loaded by the first upload or download.

/** A path of an executor, or of this machine where there are no files of an executor. The path of an executor is a URI. */
export interface TransferEnd {
  readonly files: Files | null;
  readonly path: PathLike;
}

/** Copies a file or tree from one machine to another, through this one. */
export function transferBetween(
  from: TransferEnd,
  to: TransferEnd,
  options: TransferOptions,
): Promise<TransferResult> {
  return Transfer.run(options, async (transfer) => {
    const source =
      from.files === null
        ? new LocalSource(localPath(from.path))
        : new RemoteSource(transfer, from.files, String(from.path));
    const sink =
      to.files === null
        ? new LocalSink(localPath(to.path), transfer.durable)
        : new RemoteSink(transfer, to.files, String(to.path));
    await copyTree(transfer, source, sink);
  });
}
