import { expect, test } from 'vitest';
import { Listeners } from '../../../src/base/listeners.ts';

test('calls listeners in order, once per registration, until they are removed', () => {
  const listeners = new Listeners<[number]>();
  const calls: string[] = [];
  const twice = (value: number) => calls.push(`twice ${value}`);
  const stop = listeners.add(twice);
  listeners.add(twice);
  listeners.add((value) => calls.push(`last ${value}`));
  listeners.emit(1);
  stop();
  stop();
  listeners.emit(2);
  expect(calls).toEqual(['twice 1', 'twice 1', 'last 1', 'twice 2', 'last 2']);
});

test('calls the other listeners when one throws, and rethrows the error', async () => {
  const listeners = new Listeners<[]>();
  const calls: string[] = [];
  listeners.add(() => {
    throw new Error('mine alone');
  });
  listeners.add(() => calls.push('called'));
  const existing = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  const surfaced = new Promise((resolve) => process.once('uncaughtException', resolve));
  listeners.emit();
  expect(calls).toEqual(['called']);
  expect(await surfaced).toMatchObject({ message: 'mine alone' });
  for (const listener of existing) process.on('uncaughtException', listener);
});

test('allows adding and removing listeners during emit', () => {
  const listeners = new Listeners<[]>();
  const calls: string[] = [];
  const stop = listeners.add(() => {
    calls.push('first');
    stop();
    listeners.add(() => calls.push('new'));
  });
  listeners.add(() => calls.push('second'));
  listeners.emit();
  expect(calls).toEqual(['first', 'second']);
});
