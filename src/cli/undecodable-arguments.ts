import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { findCommand } from './commands.ts';
import { UsageError } from './failures.ts';

/**
 * Throws UsageError when Node could not decode an argument: its bytes are not UTF-8, so a program or a file would get another name than
 * the one that was typed. `cmdline` has the bytes that this process was started with. Where there is none, nothing is checked.
 */
export function refuseUndecodable(argv: readonly string[], cmdline = '/proc/self/cmdline'): void {
  let text: string;
  try {
    text = readFileSync(cmdline, 'latin1');
  } catch {
    return;
  }
  // Each argument ends with a NUL. The program itself comes first.
  const given = text.split('\0').slice(0, -1).slice(-argv.length);
  const index = given.findIndex((argument) => !isUtf8(Buffer.from(argument, 'latin1')));
  if (index === -1) return;
  const command = findCommand(argv[0] ?? '')?.name ?? null;
  const shown = given[index]!.replace(
    /[^\x20-\x7e]/g,
    (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  throw new UsageError(
    `argument ${index + 1} is not UTF-8, so it cannot be passed on as it is: ${shown}; write it in UTF-8, or build it there: run -- sh -c 'ls "$(printf "\\377")"'`,
    command,
  );
}
