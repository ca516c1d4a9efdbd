import { realpathSync } from 'node:fs';

/** The command line that starts this program: Node and the program's file. */
export function ownCommand(): [program: string, ...args: string[]] {
  return [process.execPath, realpathSync(process.argv[1]!)];
}
