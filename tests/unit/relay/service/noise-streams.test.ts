import { expect, onTestFinished, test } from 'vitest';
import { createIdentity } from '../../../../src/relay/noise/identity.ts';
import { NoisePublicKey } from '../../../../src/relay/noise/public-key.ts';
import { ExecutorLink } from '../../../../src/relay/stream/executor-link.ts';
import { HarnessLink } from '../../../../src/relay/stream/harness-link.ts';
import { connectFrameSocket, type FrameSocket } from '../../../../src/transport/frame-socket.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { RecordedEvents } from '../../transport/recorded-events.ts';
import { Environment, startTestRelay } from './relay-fixture.ts';

const executorIdentity = createIdentity();
const harnessIdentity = createIdentity();

/** An executor that accepts harnesses the registry validates, and echoes their messages. */
class EchoExecutor {
  readonly environment: Environment;
  readonly sessions: RecordedEvents[] = [];
  socket: FrameSocket | null = null;
  readonly link: ExecutorLink;
  #url = '';
  #registrationId = '';

  constructor(environment: Environment) {
    this.environment = environment;
    this.link = new ExecutorLink({
      identity: executorIdentity,
      environmentId: environment.id,
      validate: async ({ registrationId, harnessKey, authorization }) => {
        const { body } = await environment.validate(registrationId, harnessKey, authorization);
        return body.valid === true;
      },
      accept: (transport) => {
        const events = new RecordedEvents();
        this.sessions.push(events);
        transport.open({
          message: (text) => {
            events.message(text);
            transport.send(`echo ${text}`);
          },
          undecodable: () => {},
          drained: () => {},
          ended: () => {},
          closed: (reason) => events.closed(reason),
        });
      },
    });
    onTestFinished(() => this.link.close({ code: 1000, reason: '' }));
  }

  async register(): Promise<void> {
    const { body } = await this.environment.register(executorIdentity.publicKey);
    this.#url = body.url;
    this.#registrationId = body.executor_registration_id;
  }

  /** Connects or reconnects with its URL. */
  async attach(): Promise<void> {
    this.socket = await connectFrameSocket(this.#url);
    this.link.attach(this.socket, this.#registrationId);
  }
}

async function harness(environment: Environment, offerAcks: boolean, pipeLost = () => {}) {
  const { body } = await environment.connect(harnessIdentity.publicKey);
  const socket = await connectFrameSocket(body.url);
  const link = await HarnessLink.connect(socket, {
    identity: harnessIdentity,
    executorKey: NoisePublicKey.parse(body.executor_public_key),
    environmentId: body.environment_id,
    registrationId: body.executor_registration_id,
    authorization: body.harness_key_authorization,
    offerAcks,
    pipeLost,
  });
  onTestFinished(() => link.transport.close({ code: 1000, reason: '' }));
  return { link, socket, bundle: body, events: RecordedEvents.of(link.transport) };
}

async function startFixture() {
  const environment = new Environment((await startTestRelay()).url);
  const executor = new EchoExecutor(environment);
  await executor.register();
  await executor.attach();
  return { environment, executor };
}

test('carries small and large messages between harness and executor', async () => {
  const { environment } = await startFixture();
  const { link, events } = await harness(environment, false);
  const large = 'x'.repeat(3_000_000);
  link.transport.send('hello');
  link.transport.send(large);
  await waitFor('the answers', () => events.messages.length === 2);
  expect(events.messages).toEqual(['echo hello', `echo ${large}`]);
});

test('refuses a used authorization', async () => {
  const { environment } = await startFixture();
  const { bundle } = await harness(environment, false);
  const again = HarnessLink.connect(await connectFrameSocket(bundle.url), {
    identity: harnessIdentity,
    executorKey: executorIdentity.publicKey,
    environmentId: 'env-1',
    registrationId: bundle.executor_registration_id,
    authorization: bundle.harness_key_authorization,
  });
  await expect(again).rejects.toMatchObject({ kind: 'refused' });
});

test('ends a stream without acks when the harness disconnects', async () => {
  const { environment, executor } = await startFixture();
  const { socket } = await harness(environment, false);
  socket.drop();
  await waitFor('the end of the session', () => executor.sessions[0]?.closeReason);
});

test('resumes a stream with acks over another socket of the harness', async () => {
  const { environment, executor } = await startFixture();
  let lost = false;
  const { link, socket, events } = await harness(environment, true, () => {
    lost = true;
  });
  link.transport.send('one');
  await waitFor('the first answer', () => events.messages.length === 1);
  socket.drop();
  link.transport.send('two');
  await waitFor('the loss', () => lost);
  const { body } = await environment.connect(harnessIdentity.publicKey);
  link.attach(await connectFrameSocket(body.url));
  link.transport.send('three');
  await waitFor('all answers', () => events.messages.length === 3);
  expect(events.messages).toEqual(['echo one', 'echo two', 'echo three']);
  expect(executor.sessions).toHaveLength(1);
});

test('resumes a stream with acks when the executor reconnects', async () => {
  const { environment, executor } = await startFixture();
  let lost = false;
  const { link, events } = await harness(environment, true, () => {
    lost = true;
  });
  link.transport.send('one');
  await waitFor('the first answer', () => events.messages.length === 1);
  executor.socket?.drop();
  await waitFor('the loss', () => lost);
  link.transport.send('two');
  await executor.attach();
  const url = await waitFor<string | null>('the executor', async () => {
    const { status, body } = await environment.connect(harnessIdentity.publicKey);
    return status === 200 ? body.url : null;
  });
  link.attach(await connectFrameSocket(url!));
  await waitFor('all answers', () => events.messages.length === 2);
  expect(events.messages).toEqual(['echo one', 'echo two']);
  expect(executor.sessions).toHaveLength(1);
});
