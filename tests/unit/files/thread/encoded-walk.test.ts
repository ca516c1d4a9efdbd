import { expect, test } from 'vitest';
import { WALK_ITEM_BYTES, WALK_RESPONSE_BYTES } from '../../../../src/files/limits.ts';
import {
  EncodedWalk,
  encodeWalkEntry,
  WalkText,
  walkTextBuffer,
} from '../../../../src/files/thread/encoded-walk.ts';

const OUTCOME = { errors: [{ uri: 'file:///e', message: 'no' }], truncated: true };

/** The text of the entries, given by the two parts of their URIs. */
function textOf(buffer: Buffer, ...entries: [string, string, 'file' | 'directory'][]): ArrayBuffer {
  const text = new WalkText(buffer);
  for (const entry of entries) text.add(...entry);
  return text.copy();
}

test('an empty walk has no text', () => {
  const nothing = textOf(walkTextBuffer());
  for (const texts of [[nothing], [nothing, nothing]]) {
    const walk = new EncodedWalk(texts, { errors: [], truncated: false });
    expect(walk.text).toHaveLength(0);
    expect(walk.entries).toEqual([]);
  }
});

test('entries are JSON in the form of the response, and can be parsed', () => {
  const text = textOf(
    walkTextBuffer(),
    ['file:///', 'a%20b', 'directory'],
    ['file:///', 'b', 'file'],
    ['file:///a%20b/', 'c', 'file'],
    ['', 'file:///whole', 'directory'],
    ['', 'file:///other', 'file'],
  );
  const walk = new EncodedWalk([text], OUTCOME);
  const entries = [
    { uri: 'file:///a%20b', kind: 'directory' },
    { uri: 'file:///b', kind: 'file' },
    { uri: 'file:///a%20b/c', kind: 'file' },
    { uri: 'file:///whole', kind: 'directory' },
    { uri: 'file:///other', kind: 'file' },
  ] as const;
  expect(walk.text.toString()).toBe(entries.map(({ uri, kind }) => encodeWalkEntry(uri, kind)).join(','));
  expect(walk).toMatchObject({ entries, ...OUTCOME });
});

test('texts are joined in order and contain nothing of an earlier walk in the same buffer', () => {
  const buffer = walkTextBuffer();
  const texts = [
    textOf(buffer, ['file:///a/', 'long name', 'directory']),
    textOf(buffer),
    textOf(buffer, ['file:///a/', 'b', 'file'], ['file:///a/', 'c', 'file']),
  ];
  const { text } = new EncodedWalk(texts, OUTCOME);
  expect(text.toString()).toBe(
    [
      encodeWalkEntry('file:///a/long name', 'directory'),
      encodeWalkEntry('file:///a/b', 'file'),
      encodeWalkEntry('file:///a/c', 'file'),
    ].join(','),
  );
});

test('the buffer is large enough for every walk within the response limit', () => {
  expect(encodeWalkEntry('', 'directory').length + 1).toBeLessThanOrEqual(WALK_ITEM_BYTES);
  expect(walkTextBuffer()).toHaveLength(WALK_RESPONSE_BYTES);
});
