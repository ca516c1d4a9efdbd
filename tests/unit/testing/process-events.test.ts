import { expect, test } from 'vitest';
import { ProcessEvents } from '../../../src/testing/process-events.ts';

const chunk = (text: string) => [{ seq: 1, stream: 'stdout', chunk: Buffer.from(text).toString('base64') }];

function eventsWith(text: string): ProcessEvents {
  const events = new ProcessEvents('p');
  events.addChunks(chunk('abcdef'));
  events.addChunks(chunk(text));
  return events;
}

test.each(['abcdef', 'def', 'f'])('counts a chunk once when it is read again as %s', (text) => {
  const events = eventsWith(text);
  expect([events.repeated, events.text()]).toEqual([1, 'abcdef']);
});

test.each(['abc', 'xabcdef', 'deg'])('refuses another chunk with the same number: %s', (text) => {
  expect(() => eventsWith(text)).toThrow('two different events have seq 1');
});
