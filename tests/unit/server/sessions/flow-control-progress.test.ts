import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ProcessEventLog } from '../../../../src/client/process/event-log.ts';
import { FlowControl } from '../../../../src/client/process/flow-control.ts';
import type { SharedProcess } from '../../../../src/server/sessions/shared-process.ts';
import { settled } from './registry-fixture.ts';
import { createSharing, type SharingClient } from './sharing-fixture.ts';

/** Several small events fit. */
const WINDOW_BYTES = 4_000;
const PROGRAM = 'p';

type Sharing = ReturnType<typeof createSharing>;
type Attach = Parameters<SharingClient['attach']>[1];

/** One handle of a process on a client: its log, and a reader that takes one event at a time. */
class Handle {
  readonly #flow: FlowControl;
  readonly #log: ProcessEventLog;
  #lastSeq: number;
  #reader: ReturnType<ProcessEventLog['subscribe']> | null = null;
  #isReading = false;

  constructor(flow: FlowControl, afterSeq: number, report: (seq: number) => void) {
    this.#flow = flow;
    this.#lastSeq = afterSeq;
    const nothing = () => Promise.resolve([]);
    const window = flow.join(this, afterSeq, report);
    this.#log = new ProcessEventLog(nothing, { afterSeq, screen: null }, () => () => {}, window);
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  receive(seq: number, bytes: Buffer): void {
    if (seq <= this.#lastSeq) return;
    this.skipTo(seq - 1);
    this.#log.append({ type: 'output', seq, stream: 'stdout', bytes });
    this.#lastSeq = seq;
  }

  skipTo(toSeq: number): void {
    if (toSeq <= this.#lastSeq) return;
    const lost = { bytes: null, streamBytes: null };
    this.#log.append({ type: 'lost', fromSeq: this.#lastSeq + 1, toSeq, ...lost });
    this.#lastSeq = toSeq;
  }

  /** Takes the next event when there is one. Returns whether the reader does not wait for one already. */
  read(): boolean {
    if (this.#isReading) return false;
    this.#reader ??= this.#log.subscribe();
    this.#isReading = true;
    void this.#reader.next().then(() => {
      this.#isReading = false;
    });
    return true;
  }

  leaveLoop(): void {
    void this.#reader?.return?.();
    this.#reader = null;
  }

  leave(): void {
    this.#flow.leave(this);
    this.#log.end();
  }
}

/** A client of the library, with a connection whose two directions deliver when the test says so. */
class Client {
  readonly #sharing: Sharing;
  readonly #process: SharedProcess;
  /** The id by which the client knows the process. */
  readonly #processId: string;
  readonly #flow: FlowControl;
  readonly #session: SharingClient['session'];
  #connection: SharingClient | null;
  /** Whether the connection belongs to this client, and not to one that has resumed the session and reports nothing. */
  #isOwn = true;
  #received = 0;
  #handles: Handle[] = [];
  #requests: (() => void)[] = [];
  /** Requests that the server has read and still works on. */
  #late: (() => void)[] = [];

  constructor(sharing: Sharing, process: SharedProcess, connection: SharingClient, isOwner: boolean) {
    this.#sharing = sharing;
    this.#process = process;
    this.#connection = connection;
    this.#session = connection.session;
    this.#processId = isOwner ? PROGRAM : process.ref;
    this.#flow = new FlowControl(WINDOW_BYTES);
    this.addHandle();
  }

  addHandle(): void {
    const report = (seq: number) => {
      if (this.#isOwn) this.#send(({ processes }) => processes.consumed(this.#processId, seq));
    };
    if (this.#handles.length < 3) this.#handles.push(new Handle(this.#flow, 0, report));
  }

  removeHandle(): void {
    if (this.#handles.length < 2) return;
    this.#handles.pop()!.leave();
  }

  attach(options: Attach): void {
    const window = this.#isOwn ? { windowBytes: WINDOW_BYTES } : {};
    this.#send((connection) => connection.attach(this.#process, { ...window, ...options }));
  }

  detach(): void {
    this.#send(({ processes }) => processes.detach(this.#processId));
  }

  setSaturated(saturated: boolean): void {
    this.#connection?.setSaturated(saturated);
  }

  /** The connection is lost. The server may have read the first requests and not answered them. */
  drop(): void {
    if (this.#connection === null) return;
    this.#late = this.#requests.splice(0);
    this.#connection.disconnect();
    this.#connection = null;
  }

  /** Connects again, and attaches again as the library does. Or another client does, which does not know the process. */
  reconnect(isSameClient: boolean): void {
    if (this.#connection !== null) return;
    const { registry, connect } = this.#sharing;
    const home = this.#process.homeOf(this.#session);
    if (home !== null) registry.resume(this.#session.id);
    this.#connection = connect('again', home === null ? {} : { session: this.#session });
    this.#received = 0;
    this.#isOwn = isSameClient;
    if (!isSameClient) return;
    this.attach({});
    // Reports what it has received, and reads what it has missed.
    this.#send(({ processes }) => {
      processes.consumed(this.#processId, Math.min(...this.#handles.map(({ lastSeq }) => lastSeq)));
      for (const handle of this.#handles) handle.skipTo(this.#process.nextSeq - 1);
    });
  }

  /** All readers take an event. Returns whether one of them does not wait for it. */
  readAll(): boolean {
    if (!this.#isOwn) this.#connection?.processes.requested(this.#processId, this.#process.nextSeq - 1);
    return this.#handles.filter((handle) => handle.read()).length > 0;
  }

  readOne(): void {
    this.#handles[0]!.read();
  }

  leaveLoops(): void {
    for (const handle of this.#handles) handle.leaveLoop();
  }

  /** Delivers a message to the client. Returns whether there was one. */
  deliver(): boolean {
    const message = this.#connection?.peer.messages[this.#received];
    if (message === undefined) return false;
    this.#received++;
    const { seq, toSeq, chunk } = message.params as { seq: number; toSeq: number; chunk: string };
    for (const handle of this.#handles) {
      if (message.method === 'process/output') handle.receive(seq, Buffer.from(chunk, 'base64'));
      else if (message.method === 'process/skipped') handle.skipTo(toSeq);
    }
    return true;
  }

  /** Carries out a request on the server. Returns whether there was one. */
  serve(): boolean {
    const request = this.#requests.shift();
    request?.();
    return request !== undefined;
  }

  /** Ends the wait of a request whose connection is lost. */
  serveLate(): void {
    this.#late.shift()?.();
  }

  #send(carryOut: (connection: SharingClient) => void): void {
    const connection = this.#connection;
    if (connection === null) return;
    this.#requests.push(() => {
      try {
        carryOut(connection);
      } catch {
        // The server has refused.
      }
    });
  }
}

/** What can happen between two events, each with the client that it happens to. */
const STEPS: Readonly<Record<string, (client: Client) => void>> = {
  'the client gets a message': (client) => void client.deliver(),
  'the server gets a request': (client) => void client.serve(),
  'the reader takes an event': (client) => client.readOne(),
  'all readers take an event': (client) => void client.readAll(),
  'the readers leave their loops': (client) => client.leaveLoops(),
  'another handle begins': (client) => client.addHandle(),
  'a handle leaves': (client) => client.removeHandle(),
  'takes over': (client) => client.attach({ role: 'driver', takeOver: true }),
  'asks to drive': (client) => client.attach({ role: 'driver' }),
  'asks to view': (client) => client.attach({ role: 'viewer' }),
  detaches: (client) => client.detach(),
  'the connection does not keep up': (client) => client.setSaturated(true),
  'the connection keeps up': (client) => client.setSaturated(false),
  'the connection is lost': (client) => client.drop(),
  'a request ends after its connection': (client) => client.serveLate(),
  'connects again': (client) => client.reconnect(true),
  'another client resumes the session': (client) => client.reconnect(false),
};

const step = fc.record({
  what: fc.constantFrom(...Object.keys(STEPS)),
  who: fc.nat({ max: 2 }),
  writes: fc.nat({ max: 4 }),
});

test('a program makes progress while its driver reads, whatever has happened before', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), fc.boolean(), async (steps, isHeld) => {
      const sharing = createSharing();
      const owner = sharing.connect('owner');
      const { process, child } = await sharing.run(owner, PROGRAM, {
        windowBytes: WINDOW_BYTES,
        ...(isHeld && { heldBytes: WINDOW_BYTES / 2 }),
      });
      const clients = [owner, sharing.connect('one'), sharing.connect('other')].map(
        (connection) => new Client(sharing, process, connection, connection === owner),
      );
      let written = 0;
      const write = (events: number) => {
        for (let i = 0; i < events; i++) child.stdout.write('x'.repeat(300));
        written += events;
      };
      for (const { what, who, writes } of steps) {
        write(writes);
        STEPS[what]!(clients[who]!);
        await settled();
      }
      write(40);
      // A program whose output is held waits for its session.
      if (isHeld) clients[0]!.reconnect(true);
      for (const client of clients) client.setSaturated(false);
      for (let idle = 0; idle < 3 && process.nextSeq <= written; idle++) {
        for (const client of clients) {
          if (client.readAll()) idle = 0;
          while (client.deliver() || client.serve()) idle = 0;
        }
        await settled();
      }
      expect(process.nextSeq).toBe(written + 1);
      child.finish(0);
      await sharing.registry.close(null, 0);
    }),
    { numRuns: 200 },
  );
});
