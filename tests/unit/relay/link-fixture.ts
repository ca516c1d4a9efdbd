import { decodeFrame, type FrameBody } from '../../../src/relay/frames/frame.ts';
import { createIdentity } from '../../../src/relay/noise/identity.ts';
import {
  ExecutorLink,
  type ExecutorLinkOptions,
  type RelayPeer,
} from '../../../src/relay/stream/executor-link.ts';
import { HarnessLink, type HarnessLinkOptions } from '../../../src/relay/stream/harness-link.ts';
import type { Transport } from '../../../src/transport/transport.ts';
import { RecordedEvents } from '../transport/recorded-events.ts';
import { createPipePair, type MemoryPipe } from './memory-pipe.ts';

export const executorIdentity = createIdentity();
export const harnessIdentity = createIdentity();

export const REGISTRATION = 'registration-1';

/** Default options of a harness in these tests. */
export const harnessOptions: HarnessLinkOptions = {
  identity: harnessIdentity,
  executorKey: executorIdentity.publicKey,
  environmentId: 'env-1',
  registrationId: REGISTRATION,
  authorization: 'authorization-1',
};

/** An executor that accepts all harnesses and records them. */
export class TestExecutor {
  readonly accepted: { transport: Transport; events: RecordedEvents; peer: RelayPeer }[] = [];
  readonly link: ExecutorLink;

  constructor(options: Partial<ExecutorLinkOptions> = {}) {
    this.link = new ExecutorLink({
      identity: executorIdentity,
      environmentId: 'env-1',
      validate: () => Promise.resolve(true),
      accept: (transport, peer) => {
        this.accepted.push({ transport, peer, events: RecordedEvents.of(transport) });
      },
      ...options,
    });
  }
}

/** Connects a harness and an executor over pipes, without a rendezvous. */
export async function connectLinks(
  options: { harness?: Partial<HarnessLinkOptions>; executor?: Partial<ExecutorLinkOptions> } = {},
) {
  const executor = new TestExecutor(options.executor);
  const [harnessPipe, executorPipe] = createPipePair();
  executor.link.attach(executorPipe, REGISTRATION);
  const harness = await HarnessLink.connect(harnessPipe, { ...harnessOptions, ...options.harness });
  const events = RecordedEvents.of(harness.transport);
  const served = executor.accepted[0]!;
  return { executor, served, harness, events, harnessPipe, executorPipe };
}

/** Decodes the frames sent through a pipe. */
export function bodies(pipe: MemoryPipe): FrameBody[] {
  return pipe.sent.map((frame) => decodeFrame(frame).body);
}

export const countOf = (pipe: MemoryPipe, kind: FrameBody['kind']): number =>
  bodies(pipe).filter((body) => body.kind === kind).length;

/** Waits until all work that needs no timer is done. */
export async function settle(turns = 50): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
}
