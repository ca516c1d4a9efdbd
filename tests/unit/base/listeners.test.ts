import { expect, test } from 'vitest';
import { Listeners } from '../../../src/base/listeners.ts';

test('calls listeners in order, once per registration, until they are removed', () => {
  const listeners = new Listeners<[number]>('x');
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

const nextWarning = () => new Promise<Error>((resolve) => process.once('warning', resolve));

test('calls the other listeners when one throws, and warns of the one that threw', async () => {
  const listeners = new Listeners<[]>('client.onSomething');
  const calls: string[] = [];
  listeners.add(() => {
    throw new Error('mine alone');
  });
  listeners.add(() => calls.push('called'));
  const warning = nextWarning();
  listeners.emit();
  expect(calls).toEqual(['called']);
  expect(await warning).toMatchObject({
    name: 'ExecServerListenerWarning',
    message: expect.stringMatching(
      /^a listener of client\.onSomething threw: Error: mine alone\n.*listeners\.test/s,
    ),
  });
});

test('warns of an async listener that rejects', async () => {
  const listeners = new Listeners<[]>('client.onSomething');
  listeners.add(async () => {
    throw 'no error object';
  });
  const warning = nextWarning();
  listeners.emit();
  expect((await warning).message).toBe('a listener of client.onSomething threw: no error object');
});

test('allows adding and removing listeners during emit', () => {
  const listeners = new Listeners<[]>('x');
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
