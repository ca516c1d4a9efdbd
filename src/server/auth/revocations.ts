import { readFile, stat } from 'node:fs/promises';
import { MAX_REVOCATION_FILE_BYTES } from '../limits.ts';
import { StartError } from '../start-error.ts';

/** The ids of tokens that are no longer good: one per line of a file, `#` begins a comment. */
export class Revocations {
  readonly #file: string | null;
  readonly #option: string;
  #ids: ReadonlySet<string> = new Set();

  private constructor(file: string | null, option: string) {
    this.#file = file;
    this.#option = option;
  }

  /** Reads the list; without a file nothing is revoked. Throws StartError, which names the option, when it cannot be read. */
  static async open(file: string | null, option: string): Promise<Revocations> {
    const revocations = new Revocations(file, option);
    await revocations.reload();
    return revocations;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Reads the list again. Throws StartError and goes on with the old one. */
  async reload(): Promise<void> {
    if (this.#file === null) return;
    const lines = (await readList(this.#file, this.#option)).split('\n');
    this.#ids = new Set(lines.map((line) => line.replace(/#.*/, '').trim()).filter((id) => id !== ''));
  }
}

/** Whether an id, written into the list, would be read as it is. */
export function canBeRevoked(id: string): boolean {
  return id !== '' && id === id.trim() && !/[#\n]/.test(id);
}

async function readList(file: string, option: string): Promise<string> {
  try {
    if ((await stat(file)).size > MAX_REVOCATION_FILE_BYTES) throw new Error('it is too large');
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new StartError(
      `cannot read the list of revoked tokens ${file} (${option}): ${(error as Error).message}`,
    );
  }
}
