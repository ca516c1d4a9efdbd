import { expectTypeOf, test } from 'vitest';
import {
  type AttachOptions,
  type Capabilities,
  type ClientError,
  type ClientState,
  type EnvironmentInfo,
  type ExecBackend,
  type ExecProcess,
  ExecServerClient,
  type ProcessEvent,
  type ProcessInfo,
  type ReadPage,
  type RunResult,
  run,
  type SharedProcesses,
  type TransportSource,
} from '../../../src/client/index.ts';
import { stdioCommand } from '../../../src/client/stdio.ts';

type Client = ExecServerClient;

test('calls are typed by their method', () => {
  expectTypeOf<ReturnType<Client['call']>>().resolves.not.toBeAny();
  const read = (client: Client) => client.call('process/read', { processId: 'p' });
  expectTypeOf(read).returns.resolves.toHaveProperty('nextSeq').toEqualTypeOf<number>();
  const metadata = (client: Client) => client.call('fs/getMetadata', { path: 'file:///' }, { timeoutMs: 1 });
  expectTypeOf(metadata).returns.resolves.toHaveProperty('isDirectory').toEqualTypeOf<boolean>();
  // @ts-expect-error: a param is missing.
  const incomplete = (client: Client) => client.call('process/read', {});
  // @ts-expect-error: there is no such method.
  const unknown = (client: Client) => client.call('process/fly', {});
  expectTypeOf([incomplete, unknown]).toBeArray();
});

test('notifications are typed by their name', () => {
  const listen = (client: Client) =>
    client.onNotification('fs/changed', (params) => {
      expectTypeOf(params.watchId).toEqualTypeOf<string>();
      expectTypeOf(params.overflow).toEqualTypeOf<boolean>();
    });
  expectTypeOf(listen).returns.toEqualTypeOf<() => void>();
});

test('exposes its state and capabilities', () => {
  expectTypeOf<Client['state']>().toEqualTypeOf<ClientState>();
  expectTypeOf<Client['failure']>().toEqualTypeOf<ClientError | null>();
  expectTypeOf<Client['environmentInfo']>().toEqualTypeOf<EnvironmentInfo | null>();
  expectTypeOf<Client['capabilities']>().toEqualTypeOf<Capabilities>();
  expectTypeOf<Client['backend']>().toEqualTypeOf<ExecBackend>();
  expectTypeOf<Client>().toHaveProperty('close').returns.resolves.toBeVoid();
});

test('connects by URL or over transports', () => {
  expectTypeOf(ExecServerClient.connect).toBeCallableWith({
    url: 'ws://x',
    authToken: 't',
    tls: { ca: 'pem' },
  });
  expectTypeOf(stdioCommand).returns.toEqualTypeOf<TransportSource>();
  expectTypeOf(ExecServerClient.connect).toBeCallableWith({
    ...stdioCommand({ program: 'x' }),
    clientName: 'me',
  });
  // @ts-expect-error: neither a URL nor a transport.
  expectTypeOf(ExecServerClient.connect).toBeCallableWith({ clientName: 'me' });
});

test('attaches to processes and lists them', () => {
  expectTypeOf<Client['attach']>().returns.resolves.toEqualTypeOf<ExecProcess>();
  expectTypeOf<Client['attach']>().parameter(1).toEqualTypeOf<AttachOptions | undefined>();
  expectTypeOf<Client['processes']>().toEqualTypeOf<SharedProcesses>();
  expectTypeOf<ProcessInfo['state']>().toEqualTypeOf<'starting' | 'running' | 'exited' | 'closed'>();
  expectTypeOf<ExecProcess['role']>().toEqualTypeOf<'viewer' | 'driver' | 'none'>();
  expectTypeOf<ExecProcess['screen']>().returns.resolves.toHaveProperty('redraw').toEqualTypeOf<Uint8Array>();
});

test('distinguishes events by their type', () => {
  const seqOf = (event: ProcessEvent): number | null => {
    if (event.type === 'failed') {
      expectTypeOf(event.error).toEqualTypeOf<ClientError>();
      return null;
    }
    if (event.type === 'output') expectTypeOf(event.bytes).toEqualTypeOf<Uint8Array>();
    return event.type === 'lost' ? event.toSeq : event.seq;
  };
  expectTypeOf(seqOf).returns.toEqualTypeOf<number | null>();
  expectTypeOf<ExecProcess['read']>().returns.resolves.toEqualTypeOf<ReadPage>();
  expectTypeOf(run).returns.resolves.toEqualTypeOf<RunResult>();
  expectTypeOf(run).parameter(1).extract<readonly string[]>().toEqualTypeOf<readonly string[]>();
});
