import { describe, expect, test } from 'vitest';
import { waitFor } from '../../../support/wait-for.ts';
import { FakeServer, SILENCE, startedProcess, startParams, wirePage } from '../fake-server.ts';

const protocolError = { name: 'ClientError', kind: 'protocol', hint: expect.any(String) };

describe.each([[null], [7], ['yes'], [{}], [{ status: 1 }]])('the invalid answer %j', (answer) => {
  test('rejects a write to stdin with a protocol error', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/write'] = (_params, link) => {
      link.respond(server.requests('process/write').at(-1)!, answer);
      return SILENCE;
    };
    server.answers['process/closeStdin'] = (_params, link) => {
      link.respond(server.requests('process/closeStdin').at(-1)!, answer);
      return SILENCE;
    };
    await expect(process.write('x')).rejects.toMatchObject(protocolError);
    await expect(process.closeStdin()).rejects.toMatchObject(protocolError);
    await client.close();
  });

  test('makes terminate report that the process was not running', async () => {
    const { server, client, process } = await startedProcess();
    server.answers['process/terminate'] = (_params, link) => {
      link.respond(server.requests('process/terminate').at(-1)!, answer);
      return SILENCE;
    };
    expect(await process.terminate()).toBe(false);
    await client.close();
  });

  test('leaves the size of lost output unknown', async () => {
    const server = new FakeServer();
    (server.environmentInfo as { capabilities: Record<string, boolean> }).capabilities.processReadPosition =
      true;
    const client = await server.connect();
    const process = await client.backend.start(startParams());
    server.answers['process/read'] = () => ({ ...wirePage(9, [8]), position: answer });
    server.link.break();
    const events = process.events();
    const unknown = { bytes: null, streamBytes: null };
    expect((await events.next()).value).toEqual({ type: 'lost', fromSeq: 1, toSeq: 7, ...unknown });
    await waitFor('the recovery', () => client.state === 'connected');
    await client.close();
  });
});

test('a recovery survives one garbled answer to initialize', async () => {
  const { server, client, process } = await startedProcess();
  const initialize = server.answers.initialize!;
  server.answers.initialize = (_params, link) => {
    server.answers.initialize = initialize;
    link.send('{"id":1,"res');
    return SILENCE;
  };
  server.link.break();
  await waitFor('the recovery', () => server.links.length === 3 && client.state === 'connected');
  expect(process.state.failure).toBeNull();
  await client.close();
});

test('a call that is always answered with an invalid message fails without failing the client', async () => {
  const { server, client, process } = await startedProcess();
  server.answers['process/list'] = (_params, link) => {
    link.send('{"id":2,"result":{"processes":[],"processes":[]}}');
    return SILENCE;
  };
  await expect(client.call('process/list', {})).rejects.toMatchObject(protocolError);
  await waitFor('the recovery', () => client.state === 'connected');
  expect(process.state.failure).toBeNull();
  expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
  await client.close();
});

test('a write that is always answered with an invalid message fails without failing the client', async () => {
  const { server, client, process } = await startedProcess();
  server.answers['process/write'] = (_params, link) => {
    link.send('not JSON');
    return SILENCE;
  };
  await expect(process.write('x')).rejects.toMatchObject({ kind: 'brokenPipe' });
  await waitFor('the recovery', () => client.state === 'connected');
  expect(process.state.failure).toBeNull();
  await client.close();
});

test('accepts a megabyte of output in one-byte chunks', async () => {
  const { server, client, process } = await startedProcess();
  const pieces = 2 ** 20;
  const text = `{"seq":1,"stream":"stdout","chunk":"eA=="},`.repeat(pieces - 1);
  server.answers['process/read'] = (_params, link) => {
    const { id } = server.requests('process/read').at(-1)!;
    const last = `{"seq":${pieces},"stream":"stdout","chunk":"eA=="}`;
    link.send(`{"id":${id},"result":{"chunks":[${text}${last}],"nextSeq":${pieces + 1},"closed":false}}`);
    return SILENCE;
  };
  expect((await process.read()).chunks).toHaveLength(pieces);
  expect(server.links).toHaveLength(1);
  await client.close();
}, 60_000);
