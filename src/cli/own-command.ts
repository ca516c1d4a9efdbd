import { realpathSync } from 'node:fs';
import { embeddedFiles } from '../base/embedded-files.ts';

/** The command line that starts this program: the single executable, or Node and the program's file. */
export function ownCommand(): [program: string, ...args: string[]] {
  if (embeddedFiles !== null) return [process.execPath];
  return [process.execPath, realpathSync(process.argv[1]!)];
}
