import type { NewAttributes, ReplacementContent } from '../../backend.ts';
import type { ClientError } from '../../errors.ts';
import { failedWith } from '../file-errors.ts';
import type { Files } from '../files.ts';
import { temporaryPartName } from './temporary-part-name.ts';
import type { Transfer } from './transfer.ts';

/**
 * Replaces files on the executor in one step, as far as the executor can: by an atomic replacement, else by a temporary file that is
 * renamed, else in place.
 */
export class RemoteReplacer {
  readonly #transfer: Transfer;
  readonly #files: Files;
  #way: 'attributes' | 'atomic' | 'rename' | 'inPlace' = 'attributes';

  constructor(transfer: Transfer, files: Files) {
    this.#transfer = transfer;
    this.#files = files;
  }

  async replace(
    uri: string,
    content: () => ReplacementContent,
    attributes: NewAttributes,
    resumeKey: string | undefined,
  ): Promise<void> {
    const { call, durable, verifies } = this.#transfer;
    const { fileSystem } = this.#files;
    if (this.#way === 'attributes') {
      try {
        await fileSystem.replaceFile(uri, content(), {
          ...call,
          attributes,
          resumeKey,
          durable,
          compareHash: verifies,
        });
        return;
      } catch (error) {
        if (failedWith(error, 'unsupported')) this.#way = 'atomic';
        else if (!isRestricted(error)) throw error;
        else this.#way = 'rename';
      }
    }
    if (this.#way === 'atomic') {
      try {
        await fileSystem.replaceFile(uri, content(), call);
        return;
      } catch (error) {
        if (!failedWith(error, 'unsupported')) throw error;
        this.#way = (await this.#canRename(uri)) ? 'rename' : 'inPlace';
      }
    }
    if (this.#way === 'inPlace') {
      this.#transfer.notAtomic();
      await fileSystem.replaceFile(uri, content(), { ...call, atomic: false });
      return;
    }
    const temporary = temporaryUri(uri);
    try {
      await fileSystem.replaceFile(temporary, content(), { ...call, atomic: false });
      await fileSystem.setAttributes(temporary, attributes, call).catch((error: unknown) => {
        if (!failedWith(error, 'unsupported')) throw error;
      });
      await fileSystem.rename(temporary, uri, call);
    } catch (error) {
      const { signal: _, ...rest } = call;
      await fileSystem.remove(temporary, { ...rest, force: true, recursive: false }).catch(() => {});
      throw error;
    }
  }

  /** Renaming a file that does not exist fails in one way or the other. */
  async #canRename(uri: string): Promise<boolean> {
    try {
      await this.#files.fileSystem.rename(temporaryUri(uri), uri, this.#transfer.call);
      return true;
    } catch (error) {
      return !failedWith(error, 'unsupported');
    }
  }
}

/** A token that is limited to a directory does not allow atomic replacements. */
function isRestricted(error: unknown): boolean {
  return (
    failedWith(error, 'invalidInput') &&
    (error as ClientError).message.includes('an atomic replacement always follows symbolic links')
  );
}

function temporaryUri(uri: string): string {
  return uri.replace(/[^/]*$/, temporaryPartName());
}
