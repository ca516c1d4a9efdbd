import type { EventEmitter } from 'node:events';

/** How soon the same signal again is no second one: whoever passes it on does so at once, and nobody changes their mind as fast. */
const ECHO_MS = 500;

/**
 * Tells of signals that end a program or have it read its files again. Under npx one Ctrl-C, or one SIGTERM to all programs of a
 * unit, arrives twice, from its sender and from npm: the second is left out, because it would end the program at once.
 */
export function listenForSignals(
  source: Pick<EventEmitter, 'on'>,
  listener: (signal: string) => void,
  now: () => number = () => performance.now(),
): void {
  source.on('SIGHUP', () => listener('SIGHUP'));
  for (const signal of ['SIGTERM', 'SIGINT']) {
    let heardAt = Number.NEGATIVE_INFINITY;
    source.on(signal, () => {
      if (now() - heardAt < ECHO_MS) return;
      heardAt = now();
      listener(signal);
    });
  }
}
