import { expect, test } from 'vitest';
import { Listeners } from '../../../src/client/listeners.ts';

test('listeners are told in order, each as often as it was added, until it is taken out', () => {
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

test('one that throws keeps no other from being told, and its error surfaces', async () => {
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

test('one that is added or taken out while others are told does not disturb', () => {
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
