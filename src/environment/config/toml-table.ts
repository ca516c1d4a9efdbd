import { isObject } from '../../base/is-object.ts';
import { escapeUnprintable } from '../../base/unprintable.ts';
import { ClientError } from '../../client/errors.ts';
import { MAX_QUOTED_CHARS } from '../limits.ts';

/** A table of a configuration file. Every error names the file, the table, the key and a fix. */
export class TomlTable {
  readonly file: string;
  readonly #name: string;
  readonly #values: Readonly<Record<string, unknown>>;

  /** `name` identifies the table in messages; empty for the root. */
  constructor(file: string, name: string, values: Readonly<Record<string, unknown>>) {
    this.file = file;
    this.#name = name;
    this.#values = values;
  }

  has(key: string): boolean {
    return Object.hasOwn(this.#values, key);
  }

  /** Returns the same table under a more specific name. */
  named(name: string): TomlTable {
    return new TomlTable(this.file, name, this.#values);
  }

  refuseUnknownKeys(known: readonly string[]): void {
    for (const key of Object.keys(this.#values)) {
      if (!known.includes(key)) {
        throw this.error(`unknown key ${quote(key)}`, `the keys here are ${known.join(', ')}`);
      }
    }
  }

  /** Whether the value is this string. For keys that also take values of another type. */
  is(key: string, word: string): boolean {
    return this.#get(key) === word;
  }

  string(key: string): string | undefined {
    const value = this.#get(key);
    if (value === undefined || typeof value === 'string') return value;
    throw this.error(`'${key}' is ${kindOf(value)}, not a string`, `write ${key} = "…"`);
  }

  boolean(key: string): boolean | undefined {
    const value = this.#get(key);
    if (value === undefined || typeof value === 'boolean') return value;
    throw this.error(
      `'${key}' is ${kindOf(value)}, not a truth value`,
      `write ${key} = true or ${key} = false`,
    );
  }

  number(key: string, advice = `write ${key} = 10, without quotes`): number | undefined {
    const value = this.#get(key);
    if (value === undefined || typeof value === 'number') return value;
    throw this.error(`'${key}' is ${kindOf(value)}, not a number`, advice);
  }

  strings(key: string): readonly string[] | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
    throw this.error(`'${key}' is not a list of strings`, `write ${key} = ["…", "…"]`);
  }

  stringMap(key: string): Readonly<Record<string, string>> | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (isTable(value) && Object.values(value).every((item) => typeof item === 'string')) {
      return value as Record<string, string>;
    }
    throw this.error(`'${key}' is not a table of strings`, `write ${key} = { NAME = "value" }`);
  }

  table(key: string): TomlTable | undefined {
    const value = this.#get(key);
    if (value === undefined) return undefined;
    if (isTable(value)) return new TomlTable(this.file, this.#path(key), value);
    throw this.error(`'${key}' is ${kindOf(value)}, not a table`, `write ${key} = { … }`);
  }

  tables(key: string): readonly TomlTable[] {
    const value = this.#get(key) ?? [];
    if (Array.isArray(value) && value.every(isTable)) {
      return value.map((item, index) => new TomlTable(this.file, `[[${key}]] number ${index + 1}`, item));
    }
    throw this.error(`'${key}' is not a list of tables`, `write [[${key}]] above the keys of each`);
  }

  error(problem: string, hint: string): ClientError {
    const prefix = this.#name === '' ? '' : `${this.#name}: `;
    return new ClientError('config', `${this.file}: ${prefix}${problem}`, { hint });
  }

  #get(key: string): unknown {
    return this.has(key) ? this.#values[key] : undefined;
  }

  #path(key: string): string {
    return this.#name === '' ? key : `${this.#name} ${key}`;
  }
}

/** Quotes a value in a one-line message: escapes control characters and truncates long text. */
export function quote(text: string): string {
  const cut = text.length > MAX_QUOTED_CHARS ? `${text.slice(0, MAX_QUOTED_CHARS)}…` : text;
  return `'${escapeUnprintable(cut)}'`;
}

function isTable(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !(value instanceof Date);
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Date) return 'a date';
  if (typeof value === 'object') return 'a table';
  return typeof value === 'boolean'
    ? 'a truth value'
    : `a ${typeof value === 'bigint' ? 'number' : typeof value}`;
}
