import { expect, test } from 'vitest';
import { Listeners } from '../../../src/client/listeners.ts';

test('calls listeners in order, once per registration, until they are removed', () => {
  const listeners = new Listeners<[number]>();
  const told: string[] = [];
  const twice = (value: number) => told.push(`twice ${value}`);
  const stop = listeners.add(twice);
  listeners.add(twice);
  listeners.add((value) => told.push(`last ${value}`));
  listeners.emit(1);
  stop();
  stop();
  listeners.emit(2);
  expect(told).toEqual(['twice 1', 'twice 1', 'last 1', 'twice 2', 'last 2']);
});

test('calls the other listeners when one throws, and rethrows the error', async () => {
  const listeners = new Listeners<[]>();
  const told: string[] = [];
  listeners.add(() => {
    throw new Error('mine alone');
  });
  listeners.add(() => told.push('told'));
  const existing = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  const surfaced = new Promise((resolve) => process.once('uncaughtException', resolve));
  listeners.emit();
  expect(told).toEqual(['told']);
  expect(await surfaced).toMatchObject({ message: 'mine alone' });
  for (const listener of existing) process.on('uncaughtException', listener);
});

test('allows adding and removing listeners during emit', () => {
  const listeners = new Listeners<[]>();
  const told: string[] = [];
  const stop = listeners.add(() => {
    told.push('first');
    stop();
    listeners.add(() => told.push('new'));
  });
  listeners.add(() => told.push('second'));
  listeners.emit();
  expect(told).toEqual(['first', 'second']);
});
