import { expect, test } from 'vitest';
import { NodeUrls } from '../../../../src/relay/service/node-urls.ts';
import { LOOPBACK } from './relay-fixture.ts';

test('derives websocket URLs from the configured HTTP URLs', () => {
  const urls = new NodeUrls({
    address: LOOPBACK,
    publicUrl: 'HTTPS://relay.example/base/',
    nodeUrl: 'http://n1.relay.example',
  });
  expect([urls.public, urls.node]).toEqual(['wss://relay.example/base', 'ws://n1.relay.example']);
});
