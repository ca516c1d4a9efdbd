import type { NetworkPolicyDecisionEvent } from '../../environment/index.ts';
import type { BeginEvent, EndEvent, ExecEvent } from '../events.ts';
import type { CommandRequest } from '../launch/policy.ts';
import { MAX_DELTAS } from '../limits.ts';
import { decode } from '../output/model-text.ts';
import { policyBytes, type TruncationPolicy, truncateMiddle } from '../output/truncate.ts';
import { InteractionLock } from './interaction-lock.ts';
import type { Stored } from './session-store.ts';
import type { WatchedProcess } from './watched-process.ts';

interface SessionParts {
  readonly id: number;
  readonly request: CommandRequest;
  readonly turnId: string | null;
  readonly process: WatchedProcess;
  readonly sandboxed: boolean;
  /** The start of the call, as monotonic and as wall-clock time. */
  readonly startedAt: number;
  readonly startedAtMs: number;
}

/** A program of a model: its process, its lock and its events. */
export class Session implements Stored {
  readonly id: number;
  readonly request: CommandRequest;
  readonly process: WatchedProcess;
  readonly sandboxed: boolean;
  readonly startedAt: number;
  readonly lock = new InteractionLock();
  readonly #parts: SessionParts;
  #deltas = 0;

  constructor(parts: SessionParts) {
    this.id = parts.id;
    this.request = parts.request;
    this.process = parts.process;
    this.sandboxed = parts.sandboxed;
    this.startedAt = parts.startedAt;
    this.#parts = parts;
  }

  get hasExited(): boolean {
    return this.process.state.hasExited;
  }

  get busy(): boolean {
    return this.lock.held;
  }

  begin(): BeginEvent {
    return { type: 'begin', ...this.#facts(), startedAtMs: this.#parts.startedAtMs };
  }

  /** Returns the event for a piece of output; null above the limit of events. */
  outputDelta(piece: Uint8Array): ExecEvent | null {
    if (this.#deltas === MAX_DELTAS) return null;
    this.#deltas++;
    const chunk = Buffer.from(piece.buffer, piece.byteOffset, piece.length).toString('base64');
    return { type: 'outputDelta', callId: this.request.callId, stream: 'stdout', chunk };
  }

  networkDecision(decided: NetworkPolicyDecisionEvent): ExecEvent {
    const { decision, protocol, host, port, reason } = decided;
    const { callId } = this.request;
    const processId = String(this.id);
    return { type: 'networkDecision', callId, processId, decision, protocol, host, port, reason };
  }

  terminalInteraction(stdin: string): ExecEvent {
    return {
      type: 'terminalInteraction',
      callId: this.request.callId,
      processId: String(this.id),
      stdin,
    };
  }

  end(now: number, epochMs: number, policy: TruncationPolicy): EndEvent {
    const { exitCode, failureMessage } = this.process.state;
    const stdout = decode(this.process.transcript.render());
    const aggregatedOutput = [stdout, failureMessage ?? ''].filter((text) => text !== '').join('\n');
    const code = failureMessage === null ? (exitCode ?? -1) : -1;
    return {
      type: 'end',
      ...this.#facts(),
      completedAtMs: epochMs,
      stdout,
      stderr: failureMessage ?? '',
      aggregatedOutput,
      exitCode: code,
      durationMs: now - this.startedAt,
      formattedOutput: truncateMiddle(aggregatedOutput, policyBytes(policy), policy.mode),
      status: code === 0 ? 'completed' : 'failed',
    };
  }

  #facts() {
    const { callId, cmd, command, cwd } = this.request;
    return {
      callId,
      processId: String(this.id),
      turnId: this.#parts.turnId,
      command,
      cwd,
      parsed: [{ type: 'unknown', cmd }],
      source: 'unified_exec_startup',
    } as const;
  }
}
