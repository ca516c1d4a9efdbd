import type { AuditLog, AuditRecord } from '../../audit/audit-log.ts';
import { AUDIT_LIST_CHARS, AUDIT_LIST_ENTRIES, AUDIT_TEXT_CHARS } from '../../audit/limits.ts';
import { parseUrl } from '../../base/parse-url.ts';
import { textOfNativePath } from '../../files/native-path.ts';
import { redactArguments } from '../../observability/redact.ts';
import type { ProcessListener } from '../../process/managed-process.ts';
import type { SpawnSpec } from '../../process/spawn/spawner.ts';
import type { RpcError } from '../../protocol/errors.ts';
import type { FinishedRecording } from '../../recording/recording.ts';
import type { SandboxType } from '../../sandbox/sandbox-enforcer.ts';
import type { CloseReason } from '../../transport/transport.ts';
import type { Principal } from '../auth/principal.ts';

/** Writes the audit records of one connection. Each contains the client's identity, connection and session. */
export class ConnectionAuditTrail {
  readonly #log: AuditLog;
  readonly #who: AuditRecord['who'];
  readonly #connection: string;
  #session: string | null = null;

  /** Records the connection. `id` is unique among the connections of this server. */
  constructor(log: AuditLog, id: number, principal: Principal) {
    const { kind, tokenId, address, access } = principal;
    this.#log = log;
    this.#who = { kind, tokenId, address };
    this.#connection = `${process.pid}.${id}`;
    const { exec, observe, files, net, metrics, below } = access;
    const directory = below === null ? null : textOfNativePath(below);
    this.#recordLowPriority({
      event: 'connected',
      access: { exec, observe, files, net, metrics, below: directory },
    });
  }

  /** Throws RpcError while new work must not start. */
  requireWritable(): void {
    this.#log.requireWritable();
  }

  attached(sessionId: string, clientName: string, resumed: boolean): void {
    // The complete id would allow to resume the session.
    this.#session = sessionId.slice(0, 8);
    this.#recordLowPriority({ event: 'session', clientName, resumed });
  }

  disconnected({ code, reason }: CloseReason): void {
    this.#recordLowPriority({ event: 'disconnected', code, reason });
  }

  /** A request that was refused because of the client's rights or a limit. */
  refused(method: string, error: RpcError): void {
    this.#recordLowPriority({ event: 'refused', method, code: error.code, reason: error.message });
  }

  /** Resolves when the start is recorded, which must precede the start itself. Rejects with RpcError when it cannot be recorded. */
  starting({ processId, ref }: ProcessIds, spec: SpawnSpec, policy: StartPolicy): Promise<void> {
    return this.#record({ event: 'start', processId, ref, ...describeStart(spec), policy });
  }

  startFailed(processId: string, error: Error): void {
    this.#recordLater({ event: 'startFailed', processId, reason: error.message });
  }

  /** Records the digest of a recording that has ended. */
  recordingEnded({ processId, ref }: ProcessIds, { path, bytes, sha256, complete }: FinishedRecording): void {
    this.#recordLater({ event: 'recording', processId, ref, path, bytes, sha256, complete });
  }

  /** Records that this connection attached to a process, or detached from it. */
  attachment(
    event: 'attach' | 'detach',
    ref: string,
    details: Readonly<Record<string, string | null>>,
  ): void {
    this.#recordLater({ event, ref, ...details });
  }

  /** Records that a process outlives its session from now on. */
  lifetime(ref: string, details: { readonly lifetime: 'detached'; readonly retainMs: number }): void {
    this.#recordLater({ event: 'lifetime', ref, ...details });
  }

  /** Returns a listener that records the end of a process and forwards all events. */
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
        this.#recordLater({ event: 'exit', processId, exitCode: exit, reason, outputBytes, durationMs });
        listener.closed(seq, reason);
      },
    };
  }

  /** Resolves when a file change, or a failed attempt, is recorded. */
  fileChange(change: FileChange): Promise<void> {
    return this.#record({ event: 'file', ...change });
  }

  /** Records an HTTP request. Path and query are omitted, because they may contain secrets. */
  httpRequest(request: { readonly method: string; readonly url: string }, outcome: HttpOutcome): void {
    this.#recordLater({ event: 'http', method: request.method, host: hostOf(request.url), ...outcome });
  }

  /** Records an attempt to open a TCP stream. */
  tcpConnect(target: { readonly host: string; readonly port: number }, outcome: TcpOutcome): void {
    this.#recordLater({ event: 'tcp', host: target.host, port: target.port, ...outcome });
  }

  /** Records without waiting. The audit log keeps the record and logs write errors itself. */
  #recordLater(record: AuditRecord): void {
    this.#record(record).catch(() => {});
  }

  #recordLowPriority(record: AuditRecord): void {
    this.#record(record, 'low').catch(() => {});
  }

  #record(record: AuditRecord, priority: 'normal' | 'low' = 'normal'): Promise<void> {
    const { event, ...rest } = record;
    const common = { connection: this.#connection, session: this.#session, who: this.#who };
    return this.#log.append({ event, ...common, ...rest }, priority);
  }
}

/** The ids of a process: the one that its client chose, and the server-wide reference. */
export interface ProcessIds {
  readonly processId: string;
  readonly ref: string;
}

/** The sandbox and limits of a program. */
export interface StartPolicy {
  readonly sandbox: SandboxType;
  readonly limits: Readonly<Record<string, number | null>>;
}

/** A file change by a method. */
export interface FileChange {
  readonly method: string;
  /** As the client wrote them. */
  readonly paths: readonly string[];
  /** Number of bytes written; null for a method that writes none. */
  readonly bytes: number | null;
  readonly outcome: 'done' | 'failed';
  readonly reason?: string;
}

/** The outcome of an HTTP request. Only refusals have a reason: other error texts contain the path. */
type HttpOutcome = { readonly outcome: 'answered'; readonly status: number } | NetworkFailure;

/** The outcome of opening a TCP stream. */
type TcpOutcome = { readonly outcome: 'connected' } | NetworkFailure;

export type NetworkFailure =
  | { readonly outcome: 'refused'; readonly reason: string }
  | { readonly outcome: 'failed' };

function hostOf(url: string): string | null {
  return parseUrl(url)?.host ?? null;
}

/** Records the names of environment variables, never their values. */
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
  let charsLeft = AUDIT_LIST_CHARS;
  return texts.filter((text) => {
    charsLeft -= text.length;
    return charsLeft >= 0;
  });
}
