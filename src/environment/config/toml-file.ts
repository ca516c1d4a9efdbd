import { open } from 'node:fs/promises';
import { ClientError } from '../../client/errors.ts';
import { MAX_CONFIG_FILE_BYTES } from '../limits.ts';
import { TomlTable } from './toml-table.ts';

/** Reads a TOML file; returns null when it does not exist. Every other failure is an error of kind `config`. */
export async function readTomlFile(path: string): Promise<TomlTable | null> {
  const text = await readText(path);
  if (text === null) return null;
  const { parse, TomlError } = await import('smol-toml');
  try {
    return new TomlTable(path, '', parse(text));
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const problem = error.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    throw new ClientError('config', `${path}:${error.line}:${error.column}: not valid TOML: ${problem}`);
  }
}

async function readText(path: string): Promise<string | null> {
  const bytes = await readBytes(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw new ClientError(
      'config',
      `cannot read ${path}: ${READ_FAILURES[error.code ?? ''] ?? error.message}`,
      {
        hint: 'make it a readable file or remove it',
        cause: error,
      },
    );
  });
  if (bytes === null) return null;
  if (bytes.length > MAX_CONFIG_FILE_BYTES) {
    throw new ClientError('config', `cannot read ${path}: it is larger than 1 MiB`, {
      hint: 'check that it is the right file: a configuration is much smaller',
    });
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ClientError('config', `${path}: not valid TOML: the file is not UTF-8 text`);
  }
}

const READ_FAILURES: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
};

/** Reads at most one byte more than the limit, also from a file without a size. */
async function readBytes(path: string): Promise<Uint8Array> {
  const file = await open(path, 'r');
  try {
    const buffer = new Uint8Array(MAX_CONFIG_FILE_BYTES + 1);
    let length = 0;
    for (let count = -1; count !== 0 && length < buffer.length; length += count) {
      count = (await file.read(buffer, length, buffer.length - length, null)).bytesRead;
    }
    return buffer.subarray(0, length);
  } finally {
    await file.close();
  }
}
