import { expect, test } from 'vitest';
import { WALK_TEXT_BYTES } from '../../../../src/files/limits.ts';
import { EncodedWalk, WalkText } from '../../../../src/files/thread/encoded-walk.ts';

const OUTCOME = { errors: [{ uri: 'file:///e', message: 'no' }], truncated: true };

test('a walk that found nothing has no text', () => {
  const walk = new EncodedWalk(Buffer.from(new WalkText().take()), { errors: [], truncated: false });
  expect(walk.text).toHaveLength(0);
  expect(walk.entries).toEqual([]);
});

test('entries are JSON as answers have it, and can be looked at', () => {
  const text = new WalkText();
  text.add('file:///a%20b', 'directory');
  text.add('file:///a%20b/c', 'file');
  const walk = new EncodedWalk(Buffer.from(text.take()), OUTCOME);
  expect(walk.text.toString()).toBe(
    '{"path":"file:///a%20b","kind":"directory"},{"path":"file:///a%20b/c","kind":"file"}',
  );
  expect(walk).toMatchObject({
    entries: [
      { uri: 'file:///a%20b', kind: 'directory' },
      { uri: 'file:///a%20b/c', kind: 'file' },
    ],
    ...OUTCOME,
  });
});

test('a text grows as long as entries are added', () => {
  const text = new WalkText();
  const uris = Array.from({ length: 10_000 }, (_, index) => `file:///${'x'.repeat(index % 200)}${index}`);
  for (const uri of uris) text.add(uri, 'file');
  const bytes = text.take();
  expect(bytes.byteLength).toBeGreaterThan(2 * WALK_TEXT_BYTES);
  const { entries } = new EncodedWalk(Buffer.from(bytes), OUTCOME);
  expect(entries.map(({ uri }) => uri)).toEqual(uris);
});
