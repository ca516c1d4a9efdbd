import { expect, test } from 'vitest';
import { shareDescriptors } from '../../../../src/server/listen/descriptor-shares.ts';

test.each([
  [null, 1024, { connections: 1024, sockets: 1152, work: Number.POSITIVE_INFINITY }],
  [1_048_576, 1024, { connections: 1024, sockets: 1152, work: 1_047_384 }],
  [1024, 1024, { connections: 369, sockets: 492, work: 492 }],
  [1024, 100, { connections: 100, sockets: 228, work: 756 }],
  [64, 1024, { connections: 9, sockets: 12, work: 12 }],
  [20, 1024, { connections: 1, sockets: 3, work: 3 }],
])('divides %s descriptors for %i configured connections', (limit, wanted, shares) => {
  expect(shareDescriptors(limit, wanted)).toEqual(shares);
});

test.each([null, 64, 256, 1024, 4096, 1_000_000])('never exceeds a limit of %s', (limit) => {
  for (const wanted of [1, 10, 1024, 100_000]) {
    const { connections, sockets, work } = shareDescriptors(limit, wanted);
    expect(connections).toBeLessThanOrEqual(wanted);
    expect(sockets).toBeGreaterThan(connections);
    expect(sockets + work).toBeLessThanOrEqual(limit ?? Number.POSITIVE_INFINITY);
  }
});
