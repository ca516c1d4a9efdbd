import { isUtf8 } from 'node:buffer';
import { readFile, stat } from 'node:fs/promises';
import { MAX_REVOCATION_FILE_BYTES } from '../limits.ts';
import { StartError } from '../start-error.ts';

/** The ids of tokens that are no longer good: one per line of a file, `#` begins a comment. */
export class Revocations {
  readonly #file: string | null;
  readonly #option: string;
  readonly #readList: typeof readList;
  #ids: ReadonlySet<string> = new Set();
  #reading: Promise<void> = Promise.resolve();
  /** The read that follows the one under way, if anybody has asked for it. */
  #next: Promise<void> | null = null;

  private constructor(file: string | null, option: string, read: typeof readList) {
    this.#file = file;
    this.#option = option;
    this.#readList = read;
  }

  /** Reads the list; without a file nothing is revoked. Throws StartError, which names the option, when it cannot be read. */
  static async open(file: string | null, option: string, read = readList): Promise<Revocations> {
    const revocations = new Revocations(file, option, read);
    await revocations.reload();
    return revocations;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /**
   * Reads the list again. Rejects with StartError and goes on with the old one. Lists are read one after the other, so that none
   * replaces a newer one.
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

/** Whether an id, written into the list, would be read as it is. */
export function canBeRevoked(id: string): boolean {
  return id !== '' && id === id.trim() && !['#', '\n', '\0'].some((sign) => id.includes(sign));
}

async function readList(file: string, option: string): Promise<string> {
  try {
    const found = await stat(file);
    // A pipe would have nothing to say the second time, and everything would be allowed again.
    if (!found.isFile()) throw new Error('it is not a file');
    if (found.size > MAX_REVOCATION_FILE_BYTES) throw new Error('it is too large');
    const bytes = await readFile(file);
    // In another encoding no id would be found.
    if (!isUtf8(bytes) || bytes.includes(0)) throw new Error('it is not a text in UTF-8');
    return bytes.toString();
  } catch (error) {
    throw new StartError(
      `cannot read the list of revoked tokens ${file} (${option}): ${(error as Error).message}`,
    );
  }
}
