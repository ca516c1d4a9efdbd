import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { ProgressLine, progressParts, shownBytes } from '../../../../src/cli/files/transfer-progress.ts';

const PROGRESS = {
  path: '/a/file',
  fileBytes: 1,
  fileSize: 2,
  files: 3,
  bytes: 250_000_000,
  resumedBytes: 0,
  totalFiles: 10,
  totalBytes: 1_000_000_000,
};

test('shows percent, files, bytes, rate and the time that is left', () => {
  expect(progressParts(PROGRESS, 10_000_000)).toEqual([
    '25%',
    '3/10 files',
    '250 MB',
    '10.0 MB/s',
    'ETA 1:15',
  ]);
  expect(progressParts({ ...PROGRESS, totalFiles: 1 }, 100_000)).toEqual([
    '25%',
    '250 MB',
    '100 kB/s',
    'ETA 2:05:00',
  ]);
  expect(progressParts({ ...PROGRESS, totalFiles: null, totalBytes: null }, 0)).toEqual([
    '3 files',
    '250 MB',
    '0 B/s',
  ]);
  expect(progressParts({ ...PROGRESS, bytes: 0, totalBytes: 0 }, 0)[0]).toBe('100%');
  // A file that grows.
  expect(progressParts({ ...PROGRESS, bytes: 2_000_000_000 }, 1)[0]).toBe('100%');
  expect(progressParts(PROGRESS, 0).at(-1)).toBe('ETA -');
});

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1_000, '1.0 kB'],
  [123_456_789, '123 MB'],
  [5e15, '5000 TB'],
])('%d bytes are %s', (bytes, text) => {
  expect(shownBytes(bytes)).toBe(text);
});

test('draws one line that fits the terminal, at most ten times a second, and does not count bytes that were there before', () => {
  const written: string[] = [];
  const out = Object.assign(
    new Writable({
      write(chunk, _encoding, done) {
        written.push(String(chunk));
        done();
      },
    }),
    { columns: 60 },
  );
  let now = 0;
  const line = new ProgressLine(out, () => now);
  now = 10_000;
  line.show({ ...PROGRESS, resumedBytes: 150_000_000, path: `/a/\u001b[31m${'x'.repeat(100)}` });
  now = 10_050;
  line.show(PROGRESS);
  line.clear();
  line.clear();
  expect(written).toEqual([
    expect.stringMatching(
      /^\r25% {2}3\/10 files {2}250 MB {2}10\.0 MB\/s {2}ETA 1:15 {2}\/a\/\\x1b\[.*…\x1b\[K$/,
    ),
    '\r\x1b[K',
  ]);
  expect(written[0]!.length).toBeLessThanOrEqual(60 + '\r\x1b[K'.length);
});
