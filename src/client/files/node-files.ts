import type { PathLike } from '../paths.ts';
import { Files } from './files.ts';
import type { TransferOptions, TransferResult } from './transfer-result.ts';

/** {@link Files} that also transfer files between this machine and the executor. Needs Node. */
export class NodeFiles extends Files {
  /**
   * Copies a local file, or a directory with everything in it, to the executor. `target` is the path of the copy itself; a directory
   * that exists is merged. Each file replaces an old one in one step, and its SHA-256 is compared. A file whose connection was lost is
   * transferred again from its start. Rejects with a TransferError that names the files that were transferred.
   */
  async upload(source: PathLike, target: PathLike, options: TransferOptions = {}): Promise<TransferResult> {
    const { Transfer, localPath, upload } = await import('./transfer/transfers.ts');
    const uri = await this.uriOf(target, options);
    return Transfer.run(this, options, (transfer) => upload(transfer, localPath(source), uri));
  }

  /** Copies a file or directory of the executor to this machine, like {@link upload}. */
  async download(source: PathLike, target: PathLike, options: TransferOptions = {}): Promise<TransferResult> {
    const { Transfer, localPath, download } = await import('./transfer/transfers.ts');
    const uri = await this.uriOf(source, options);
    return Transfer.run(this, options, (transfer) => download(transfer, uri, localPath(target)));
  }
}
