import { readFile, stat } from 'node:fs/promises';
import { StartError } from '../../../server/start-error.ts';
import { MAX_REVOCATION_FILE_BYTES } from '../limits.ts';

/** The ids of tokens that are no longer good: one per line of a file, `#` begins a comment. */
export class Revocations {
  readonly #file: string | null;
  #ids: ReadonlySet<string> = new Set();

  private constructor(file: string | null) {
    this.#file = file;
  }

  /** Reads the list; without a file nothing is revoked. Throws StartError when it cannot be read. */
  static async open(file: string | null): Promise<Revocations> {
    const revocations = new Revocations(file);
    await revocations.reload();
    return revocations;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Reads the list again. Throws StartError and goes on with the old one. */
  async reload(): Promise<void> {
    if (this.#file === null) return;
    const lines = (await readList(this.#file)).split('\n');
    this.#ids = new Set(lines.map((line) => line.replace(/#.*/, '').trim()).filter((id) => id !== ''));
  }
}

async function readList(file: string): Promise<string> {
  try {
    if ((await stat(file)).size > MAX_REVOCATION_FILE_BYTES) throw new Error('it is too large');
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new StartError(`cannot read --revoked-file ${file}: ${(error as Error).message}`);
  }
}
