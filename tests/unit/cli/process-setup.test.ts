import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { listenForSignals, planThreadPool, startThreadPool } from '../../../src/cli/process-setup.ts';

/** The signals that are reported when signals arrive at the given milliseconds. */
function reported(isUnderNpm: boolean, ...signals: readonly (readonly [atMs: number, signal: string])[]) {
  const source = new EventEmitter();
  const names: string[] = [];
  let time = 0;
  const sources = { now: () => time, isTerminal: () => false, isUnderNpm };
  listenForSignals(source, (signal) => names.push(signal), sources);
  for (const [atMs, signal] of signals) {
    time = atMs;
    source.emit(signal);
  }
  return names;
}

test.each(['SIGINT', 'SIGTERM'])('reports %s once when npm forwards a copy of it', (signal) => {
  expect(reported(true, [0, signal], [1, signal])).toEqual([signal]);
  expect(reported(true, [0, signal], [499, signal], [500, signal])).toEqual([signal, signal]);
});

test('without npm two quick Ctrl-C of a person are two, and two signals of timeout(1) are one', () => {
  expect(reported(false, [0, 'SIGINT'], [150, 'SIGINT'])).toEqual(['SIGINT', 'SIGINT']);
  expect(reported(false, [0, 'SIGTERM'], [1, 'SIGTERM'])).toEqual(['SIGTERM']);
});

test('reports a signal again when Ctrl-C is held down long enough', () => {
  expect(reported(true, [0, 'SIGINT'], [300, 'SIGINT'], [600, 'SIGINT'])).toEqual(['SIGINT', 'SIGINT']);
});

test('reports a different signal and every SIGHUP', () => {
  expect(reported(true, [0, 'SIGINT'], [1, 'SIGTERM'])).toEqual(['SIGINT', 'SIGTERM']);
  expect(reported(true, [0, 'SIGHUP'], [1, 'SIGHUP'])).toEqual(['SIGHUP', 'SIGHUP']);
});

test('reports a closed terminal instead of SIGHUP', () => {
  const source = new EventEmitter();
  const names: string[] = [];
  const terminals = new Set([1, 2]);
  listenForSignals(source, (signal) => names.push(signal), { isTerminal: (fd) => terminals.has(fd) });
  source.emit('SIGHUP');
  terminals.clear();
  source.emit('SIGHUP');
  expect(names).toEqual(['SIGHUP', 'the terminal was closed']);
});

test('sets the pool size until the pool has started, then removes it from the environment', () => {
  const env: NodeJS.ProcessEnv = {};
  planThreadPool(env);
  expect(Number(env.UV_THREADPOOL_SIZE)).toBeGreaterThan(4);
  startThreadPool(env);
  expect(env).toEqual({});
});

test('keeps a pool size that the user has set', () => {
  const env: NodeJS.ProcessEnv = { UV_THREADPOOL_SIZE: '3' };
  planThreadPool(env);
  startThreadPool(env);
  expect(env).toEqual({ UV_THREADPOOL_SIZE: '3' });
});
