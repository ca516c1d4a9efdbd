import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { listenForSignals } from '../../../src/cli/signals.ts';

/** What is heard of signals that come at given milliseconds. */
function heard(...signals: readonly (readonly [atMs: number, signal: string])[]): string[] {
  const source = new EventEmitter();
  const names: string[] = [];
  let time = 0;
  listenForSignals(
    source,
    (signal) => names.push(signal),
    () => time,
  );
  for (const [atMs, signal] of signals) {
    time = atMs;
    source.emit(signal);
  }
  return names;
}

test.each(['SIGINT', 'SIGTERM'])('%s that npm passes on is heard once', (signal) => {
  expect(heard([0, signal], [1, signal])).toEqual([signal]);
  expect(heard([0, signal], [499, signal], [500, signal])).toEqual([signal, signal]);
});

test('a key that is held down is heard in the end', () => {
  expect(heard([0, 'SIGINT'], [300, 'SIGINT'], [600, 'SIGINT'])).toEqual(['SIGINT', 'SIGINT']);
});

test('another signal is no echo, and every hang-up counts', () => {
  expect(heard([0, 'SIGINT'], [1, 'SIGTERM'])).toEqual(['SIGINT', 'SIGTERM']);
  expect(heard([0, 'SIGHUP'], [1, 'SIGHUP'])).toEqual(['SIGHUP', 'SIGHUP']);
});
