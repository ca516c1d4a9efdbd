import { type Access, FULL_ACCESS } from '../../../../src/server/auth/access.ts';
import type { ExecServerConfig } from '../../../../src/server/config/config.ts';
import { ConnectionProcesses } from '../../../../src/server/sessions/connection-processes.ts';
import type { Session } from '../../../../src/server/sessions/session.ts';
import type { SharedProcess } from '../../../../src/server/sessions/shared-process.ts';
import { FakeChild } from '../../process/fake-child.ts';
import { createRegistry, PEER, settled } from './registry-fixture.ts';

type Message = { readonly method: string; readonly params: Readonly<Record<string, unknown>> };

/** A connection that keeps what it gets. The test decides whether it keeps up. */
export class RecordingPeer {
  saturated = false;
  readonly messages: Message[] = [];
  readonly call = PEER.call;
  readonly probe = PEER.probe;
  readonly confirmReceived = PEER.confirmReceived;

  sendBulk(frame: Uint8Array, released?: () => void): void {
    this.messages.push(JSON.parse(Buffer.from(frame).toString()) as Message);
    released?.();
  }

  /** The events of a process in short: output as text, `exit`, `closed`, and gaps as `[from-to]`. */
  events(processId: string): string[] {
    return this.messages.filter(({ params }) => params.processId === processId).flatMap(describe);
  }

  /** The roles that the connection was notified of. */
  roles(processId: string): string[] {
    return this.messages
      .filter(({ method, params }) => method === 'process/attachment' && params.processId === processId)
      .map(({ params: { role, reason } }) => (reason === undefined ? `${role}` : `${role} ${reason}`));
  }
}

function describe({ method, params }: Message): string[] {
  if (method === 'process/output') return [Buffer.from(params.chunk as string, 'base64').toString()];
  if (method === 'process/exited') return ['exit'];
  if (method === 'process/closed') return ['closed'];
  return method === 'process/skipped' ? [`[${params.fromSeq}-${params.toSeq}]`] : [];
}

/** One client: its connection, session, and processes. */
export interface SharingClient {
  readonly peer: RecordingPeer;
  readonly session: Session;
  readonly processes: ConnectionProcesses;
  /** Attaches to a process and returns the result of the attachment. */
  attach(
    process: SharedProcess,
    options?: {
      role?: 'viewer' | 'driver';
      takeOver?: boolean;
      windowBytes?: number;
      nextSeq?: number;
      withTimes?: boolean;
    },
  ): ReturnType<ConnectionProcesses['attach']>;
  setSaturated(saturated: boolean): void;
  /** The connection is lost. */
  disconnect(): void;
}

/** A server with clients and programs that the test controls. */
export function createSharing(config: Partial<ExecServerConfig> = {}) {
  const { registry, spawner } = createRegistry(config);
  const records: unknown[][] = [];

  const connect = (
    clientName: string,
    options: { owner?: string; access?: Partial<Access>; sharing?: boolean; session?: Session } = {},
  ): SharingClient => {
    const access = { ...FULL_ACCESS, ...options.access };
    const session = options.session ?? registry.create(undefined, clientName, options.owner);
    const peer = new RecordingPeer();
    session.clientName = clientName;
    session.sharing = options.sharing ?? true;
    session.attach(peer);
    const processes = new ConnectionProcesses(session, registry, access, peer, {
      attachment: (...record) => void records.push(record),
      lifetime: (...record) => void records.push(record),
    });
    return {
      peer,
      session,
      processes,
      attach: (process, { role = 'viewer', takeOver = false, windowBytes, nextSeq, withTimes } = {}) =>
        processes.attach(process, { role, takeOver, windowBytes, withTimes }, nextSeq ?? null),
      setSaturated(saturated) {
        peer.saturated = saturated;
        session.flowChanged();
        processes.flowChanged();
      },
      disconnect() {
        processes.dispose();
        registry.detach(session);
      },
    };
  };

  const run = async (
    { session }: Pick<SharingClient, 'session'>,
    processId = 'p',
    options: {
      name?: string;
      retainMs?: number;
      tailBytes?: number;
      windowBytes?: number;
      heldBytes?: number;
    } = {},
  ) => {
    const { name = null, retainMs, tailBytes = 1_000, windowBytes = null, heldBytes = null } = options;
    const lifetime = retainMs === undefined ? 'session' : 'detached';
    const process = registry.directory.enter(session, {
      processId,
      name,
      lifetime,
      windowBytes,
      heldBytes,
      dialect: 'process',
    });
    const started = process.manager.start({
      processId: process.key,
      observer: process,
      listener: process,
      retainMs: retainMs ?? null,
      spec: {
        program: 'p',
        argv: ['p'],
        cwd: '/',
        env: {},
        io: { kind: 'pipe', stdin: 'closed' },
      },
      retention: { headBytes: 0, tailBytes, maxChunks: 10_000 },
    });
    const child = spawner.succeed(new FakeChild());
    await started;
    return { process, child };
  };
  return { registry, directory: registry.directory, records, connect, run };
}

/** How long a closed process of {@link viewed} is kept. */
export const VIEWED_RETENTION_MS = 30_000;

/** A process of one client, and another client that views it. */
export async function viewed(options: { tailBytes?: number; nextSeq?: number; sharing?: boolean } = {}) {
  const sharing = createSharing({ closedProcessRetentionMs: VIEWED_RETENTION_MS });
  const owner = sharing.connect('owner', { sharing: options.sharing ?? true });
  const viewer = sharing.connect('viewer');
  const { process, child } = await sharing.run(owner, 'p', options);
  viewer.attach(process, options);
  await settled();
  const write = (...texts: string[]) => {
    for (const text of texts) child.stdout.write(text);
  };
  return { ...sharing, owner, viewer, process, child, write, events: () => viewer.peer.events(process.ref) };
}
