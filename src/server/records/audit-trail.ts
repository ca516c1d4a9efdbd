import type { AuditLog, AuditRecord } from '../../audit/audit-log.ts';
import { AUDIT_LIST_CHARS, AUDIT_LIST_ENTRIES, AUDIT_TEXT_CHARS } from '../../audit/limits.ts';
import { textOfNativePath } from '../../files/native-path.ts';
import { redactArguments } from '../../observability/redact.ts';
import type { ProcessListener } from '../../process/managed-process.ts';
import type { SpawnSpec } from '../../process/spawn/spawner.ts';
import type { RpcError } from '../../protocol/errors.ts';
import type { SandboxType } from '../../sandbox/sandbox-enforcer.ts';
import type { CloseReason } from '../../transport/transport.ts';
import type { Principal } from '../auth/principal.ts';

/** Who asked, and under which rules: what every record of a connection carries. */
export class ConnectionAuditTrail {
  readonly #log: AuditLog;
  readonly #who: AuditRecord['who'];
  readonly #connection: string;
  #session: string | null = null;

  /** Records the connection. `id` tells it from others of this server. */
  constructor(log: AuditLog, id: number, principal: Principal) {
    const { kind, tokenId, address, access } = principal;
    this.#log = log;
    this.#who = { kind, tokenId, address };
    this.#connection = `${process.pid}.${id}`;
    const { exec, files, net, metrics, below } = access;
    const directory = below === null ? null : textOfNativePath(below);
    this.#tell({ event: 'connected', access: { exec, files, net, metrics, below: directory } });
  }

  /** Throws RpcError while new work must not begin. */
  requireWritable(): void {
    this.#log.requireWritable();
  }

  attached(sessionId: string, clientName: string, resumed: boolean): void {
    // Whoever knows the whole id can resume the session.
    this.#session = sessionId.slice(0, 8);
    this.#tell({ event: 'session', clientName, resumed });
  }

  disconnected({ code, reason }: CloseReason): void {
    this.#tell({ event: 'disconnected', code, reason });
  }

  /** A request that was not carried out because of who sent it or how much is going on. */
  refused(method: string, error: RpcError): void {
    this.#tell({ event: 'refused', method, code: error.code, reason: error.message });
  }

  /** Resolves when the intent to start is on record, which must precede the start. Rejects with RpcError when it cannot be. */
  starting(processId: string, spec: SpawnSpec, policy: StartPolicy): Promise<void> {
    return this.#record({ event: 'start', processId, ...describeStart(spec), policy });
  }

  startFailed(processId: string, error: Error): void {
    this.#note({ event: 'startFailed', processId, reason: error.message });
  }

  /** Has the end of a process recorded with what it wrote; the listener hears everything as before. */
  watch(processId: string, listener: ProcessListener): ProcessListener {
    const startedAt = performance.now();
    let outputBytes = 0;
    let exit: number | null = null;
    return {
      output: (seq, stream, bytes) => {
        outputBytes += bytes.length;
        listener.output(seq, stream, bytes);
      },
      exited: (seq, exitCode, reason, denied) => {
        exit = exitCode;
        listener.exited(seq, exitCode, reason, denied);
      },
      closed: (seq, reason) => {
        const durationMs = Math.round(performance.now() - startedAt);
        this.#note({ event: 'exit', processId, exitCode: exit, reason, outputBytes, durationMs });
        listener.closed(seq, reason);
      },
    };
  }

  /** Resolves when a change of files that was made, or tried, is on record. */
  fileChange(change: FileChange): Promise<void> {
    return this.#record({ event: 'file', ...change });
  }

  /** A request to a web server that was answered, or was not: path and query may hold secrets and are left out. */
  httpRequest(request: { readonly method: string; readonly url: string }, outcome: HttpOutcome): void {
    this.#note({ event: 'http', method: request.method, host: hostOf(request.url), ...outcome });
  }

  /** Records without waiting: the log keeps it and says itself when it cannot write. */
  #note(record: AuditRecord): void {
    this.#record(record).catch(() => {});
  }

  #tell(record: AuditRecord): void {
    this.#record(record, 'low').catch(() => {});
  }

  #record(record: AuditRecord, priority: 'normal' | 'low' = 'normal'): Promise<void> {
    const { event, ...rest } = record;
    const common = { connection: this.#connection, session: this.#session, who: this.#who };
    return this.#log.append({ event, ...common, ...rest }, priority);
  }
}

/** What a program is kept to. */
export interface StartPolicy {
  readonly sandbox: SandboxType;
  readonly limits: Readonly<Record<string, number | null>>;
}

/** What was done to files by which method. */
export interface FileChange {
  readonly method: string;
  /** As the client wrote them. */
  readonly paths: readonly string[];
  /** What was written; null where nothing is. */
  readonly bytes: number | null;
  readonly outcome: 'done' | 'failed';
  readonly reason?: string;
}

/** What became of a request to a web server. Only refusals have a reason: what else goes wrong is told with the path. */
export type HttpOutcome =
  | { readonly outcome: 'answered'; readonly status: number }
  | { readonly outcome: 'refused'; readonly reason: string }
  | { readonly outcome: 'failed' };

function hostOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).host : null;
}

/** Values of variables are never recorded, only their names. */
function describeStart(spec: SpawnSpec) {
  const names = Object.keys(spec.env);
  return {
    program: spec.program,
    argv: bounded(redactArguments(spec.argv.slice(0, AUDIT_LIST_ENTRIES), AUDIT_TEXT_CHARS)),
    argvCount: spec.argv.length,
    cwd: spec.cwd,
    envNames: bounded(names.slice(0, AUDIT_LIST_ENTRIES)),
    envCount: names.length,
    tty: spec.io.kind === 'pty',
  };
}

function bounded(texts: readonly string[]): string[] {
  let room = AUDIT_LIST_CHARS;
  return texts.filter((text) => {
    room -= text.length;
    return room >= 0;
  });
}
