import type { PathLike } from '../paths.ts';
import { expectFileOptions } from './file-operations.ts';
import { Files } from './files.ts';
import type { TransferOptions, TransferResult } from './transfer-result.ts';

/** {@link Files} that also transfer files between this machine and the executor. Needs Node. */
export class NodeFiles extends Files {
  /**
   * Copies a local file, or a directory with everything in it, to the executor. `target` is the path of the copy itself; a directory
   * that exists is merged. Each file has the mode of the source, replaces an old one in one step, and its SHA-256 is compared. Links
   * stay links. Large files continue where an interrupted upload of the same file has ended. Rejects with a TransferError that names
   * the files that were transferred.
   */
  async upload(source: PathLike, target: PathLike, options: TransferOptions = {}): Promise<TransferResult> {
    expectFileOptions('upload', options);
    const { transferBetween } = await import('./transfer/transfers.ts');
    const uri = await this.uriOf(target, options);
    return transferBetween({ files: null, path: source }, { files: this, path: uri }, options);
  }

  /** Copies a file or directory of the executor to this machine, like {@link upload}. */
  async download(source: PathLike, target: PathLike, options: TransferOptions = {}): Promise<TransferResult> {
    expectFileOptions('download', options);
    const { transferBetween } = await import('./transfer/transfers.ts');
    const uri = await this.uriOf(source, options);
    return transferBetween({ files: this, path: uri }, { files: null, path: target }, options);
  }
}
