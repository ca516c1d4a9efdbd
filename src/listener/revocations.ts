import { isUtf8 } from 'node:buffer';
import { readFile, stat } from 'node:fs/promises';
import { MAX_REVOCATION_FILE_BYTES } from './limits.ts';
import { StartError } from './start-error.ts';

/** The ids of revoked tokens, read from a file: one id per line, `#` starts a comment. */
export class Revocations {
  readonly #file: string | null;
  readonly #option: string;
  readonly #readList: typeof readList;
  #ids: ReadonlySet<string> = new Set();
  #reading: Promise<void> = Promise.resolve();
  /** The read that is queued behind the current one; all callers that wait share it. */
  #next: Promise<void> | null = null;

  private constructor(file: string | null, option: string, read: typeof readList) {
    this.#file = file;
    this.#option = option;
    this.#readList = read;
  }

  /**
   * Reads the list. Without a file no token is revoked. Throws StartError when the file cannot be read; `option` is the setting that
   * the message names.
   */
  static async open(file: string | null, option: string, read = readList): Promise<Revocations> {
    const revocations = new Revocations(file, option, read);
    await revocations.reload();
    return revocations;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /**
   * Reads the list again. On failure rejects with StartError and keeps the previous list. Reads run one after the other, so an older
   * list never replaces a newer one.
   */
  reload(): Promise<void> {
    this.#next ??= this.#readAfter(this.#reading);
    return this.#next;
  }

  async #readAfter(earlier: Promise<void>): Promise<void> {
    await earlier.catch(() => {});
    this.#next = null;
    this.#reading = this.#read();
    await this.#reading;
  }

  async #read(): Promise<void> {
    if (this.#file === null) return;
    const lines = (await this.#readList(this.#file, this.#option)).split('\n');
    this.#ids = new Set(lines.map((line) => line.replace(/#.*/, '').trim()).filter((id) => id !== ''));
  }
}

/** Whether the list can hold this id: the reader must find it again unchanged. */
export function canBeRevoked(id: string): boolean {
  return id !== '' && id === id.trim() && !['#', '\n', '\0'].some((sign) => id.includes(sign));
}

async function readList(file: string, option: string): Promise<string> {
  try {
    const found = await stat(file);
    // A pipe is empty on the second read, which would un-revoke every token.
    if (!found.isFile()) throw new Error('it is not a file');
    if (found.size > MAX_REVOCATION_FILE_BYTES) throw new Error('it is too large');
    const bytes = await readFile(file);
    // In another encoding no id would match.
    if (!isUtf8(bytes) || bytes.includes(0)) throw new Error('it is not UTF-8 text');
    return bytes.toString();
  } catch (error) {
    throw new StartError(
      `cannot read the list of revoked tokens ${file} (${option}): ${(error as Error).message}`,
    );
  }
}
