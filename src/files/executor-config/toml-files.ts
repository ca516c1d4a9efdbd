import { isObject } from '../../base/is-object.ts';
import { FileError } from '../errors.ts';
import type { FileSystem } from '../file-system.ts';
import { type NativePath, textOfNativePath } from '../native-path.ts';
import { readUpTo } from '../read-up-to.ts';
import { utf8Problem } from '../utf8-problem.ts';
import { MAX_EXECUTOR_CONFIG_BYTES, MAX_EXECUTOR_CONFIG_TOTAL_BYTES, MAX_TOML_DEPTH } from './limits.ts';

/** A TOML table. Integers are bigints, to distinguish them from floats. */
export type TomlTable = Readonly<Record<string, unknown>>;

/** Reads the configuration files for one response. */
export class TomlFiles {
  readonly #files: FileSystem;
  readonly #signal: AbortSignal;
  #bytes = 0;

  constructor(files: FileSystem, signal: AbortSignal) {
    this.#files = files;
    this.#signal = signal;
  }

  /** The table of a file; null when the file does not exist. Throws FileError when it is invalid. */
  async read(path: NativePath): Promise<TomlTable | null> {
    this.#signal.throwIfAborted();
    const text = await this.#text(path);
    return text === null ? null : parseToml(textOfNativePath(path), text);
  }

  async #text(path: NativePath): Promise<string | null> {
    const bytes = await this.#content(path);
    if (bytes === null) return null;
    this.#bytes += bytes.length;
    if (bytes.length > MAX_EXECUTOR_CONFIG_BYTES) {
      throw unreadable(path, `it has more than ${MAX_EXECUTOR_CONFIG_BYTES} bytes`);
    }
    if (this.#bytes > MAX_EXECUTOR_CONFIG_TOTAL_BYTES) {
      throw unreadable(path, `all files together have more than ${MAX_EXECUTOR_CONFIG_TOTAL_BYTES} bytes`);
    }
    const problem = utf8Problem(bytes);
    if (problem !== null) throw unreadable(path, problem);
    return bytes.toString().replace(/^\ufeff/, '');
  }

  async #content(path: NativePath): Promise<Buffer | null> {
    try {
      const { isFile } = await this.#files.getMetadata(path, { followSymlinks: true });
      if (!isFile) throw unreadable(path, `path \`${textOfNativePath(path)}\` is not a file`);
      const content = await this.#files.readFile(path, { followSymlinks: true });
      try {
        return await readUpTo(content, MAX_EXECUTOR_CONFIG_BYTES + 1);
      } finally {
        await content.close();
      }
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      if (error.kind === 'notFound' || error.errno === ENOTDIR) return null;
      throw error.errno === null ? error : unreadable(path, error.message);
    }
  }
}

const ENOTDIR = 20;

async function parseToml(path: string, text: string): Promise<TomlTable> {
  const { parse, TomlError } = await import('smol-toml');
  try {
    const table = parse(text, { integersAsBigInt: true, maxDepth: MAX_TOML_DEPTH });
    const problem = problemIn(table, MAX_TOML_DEPTH);
    if (problem !== null) throw badConfig(`${path}: ${problem}`);
    return table;
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const problem = error.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    throw badConfig(`${path}:${error.line}:${error.column}: ${problem}`);
  }
}

/** Checks what the parser accepts: deep tables from dotted keys, and integers beyond 64 bits. */
function problemIn(value: unknown, depth: number): string | null {
  if (typeof value === 'bigint' && BigInt.asIntN(64, value) !== value)
    return 'an integer has more than 64 bits';
  if (!isTable(value) && !Array.isArray(value)) return null;
  if (depth < 0) return `tables and lists are nested more than ${MAX_TOML_DEPTH} deep`;
  for (const inner of Object.values(value)) {
    const problem = problemIn(inner, depth - 1);
    if (problem !== null) return problem;
  }
  return null;
}

function unreadable(path: NativePath, why: string): FileError {
  return badConfig(`Failed to read config file ${textOfNativePath(path)}: ${why}`);
}

/** The error for an unusable configuration, in the reference's wording. */
export function badConfig(problem: string): FileError {
  return new FileError('failed', `failed to load executor-local config: ${problem}`);
}

/** Whether a TOML value is a table. Arrays and dates are objects too. */
export function isTable(value: unknown): value is TomlTable {
  return isObject(value) && !(value instanceof Date);
}
