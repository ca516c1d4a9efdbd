import type { Readable } from 'node:stream';

/** What a command has printed so far. */
export interface Printed {
  stdout: string;
  stderr: string;
}

/** Collects everything that a command prints. */
export function collect({
  child,
}: {
  readonly child: { readonly stdout: Readable; readonly stderr: Readable };
}): Printed {
  const printed: Printed = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].on('data', (text) => {
      printed[name] += text;
    });
  }
  return printed;
}
