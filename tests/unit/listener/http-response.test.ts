import { expect, test } from 'vitest';
import { encodeResponse } from '../../../src/listener/http-response.ts';

test('encodes a complete HTTP response', () => {
  const encoded = encodeResponse(
    { status: 404, body: 'né\n', headers: { 'content-length': '4' } },
    'Not Found',
  );
  expect(encoded).toBe('HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\nconnection: close\r\n\r\nné\n');
});
