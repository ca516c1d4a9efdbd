import type { StartParams } from '../../environment/index.ts';
import type { SandboxPermissions } from '../arguments.ts';

/** A command that a model wants to run, resolved for its environment. */
export interface CommandRequest {
  readonly callId: string;
  readonly environmentId: string;
  /** As the model wrote it. */
  readonly cmd: string;
  /** The shell and its arguments. */
  readonly command: readonly string[];
  /** A `file:` URI of the executor. */
  readonly cwd: string;
  readonly tty: boolean;
  readonly sandboxPermissions: SandboxPermissions;
  readonly additionalPermissions: Readonly<Record<string, unknown>> | null;
  readonly justification: string | null;
  readonly prefixRule: readonly string[] | null;
}

export type Approval = { readonly approved: true } | { readonly approved: false; readonly reason: string };

/** The end of a program that its sandbox probably stopped. */
export interface Denial {
  readonly exitCode: number | null;
  readonly output: string;
}

/** The managed network of a program: it reaches other machines through its own proxy. */
export interface NetworkChoice {
  /** Settings of the proxy, as on the wire. Without any it allows no host. */
  readonly proxy?: Partial<NonNullable<StartParams['networkProxy']>['proxy']>;
  /**
   * Whether the program reaches nothing but its proxy. It then runs in a sandbox of the network, even without a sandbox of its files.
   * False trusts the program to use the proxy. Default: true.
   */
  readonly enforce?: boolean;
}

/** A program's request to reach a host that its proxy does not allow by itself. */
export interface HostRequest {
  /** The session id as text, as in the events. */
  readonly processId: string;
  readonly protocol: 'http' | 'https_connect' | 'socks5_tcp' | 'socks5_udp';
  readonly host: string;
  readonly port: number;
}

/**
 * Decisions of the agent's owner. Without a function commands are approved and not sandboxed. Time limits of all calls pause during a
 * decision, because the user may be reading a question. An exception rejects the call with that error.
 */
export interface ExecPolicy {
  approve?(request: CommandRequest, options: { readonly signal: AbortSignal }): Promise<Approval>;
  /** The sandbox as on the wire; null for none. */
  chooseSandbox?(request: CommandRequest): unknown;
  /** The managed network to ask for; null for none. */
  chooseNetwork?(request: CommandRequest): NetworkChoice | null;
  /**
   * Whether a program of a managed network may reach a host. An exception denies it, and so does the lack of a decision within five
   * minutes. Without this function such hosts are denied. The signal aborts when the decision is no longer needed.
   */
  approveHost?(
    request: CommandRequest,
    host: HostRequest,
    options: { readonly signal: AbortSignal },
  ): Promise<Approval>;
  /**
   * Whether to run a command again without a sandbox, once, after its sandbox stopped it immediately. A managed network stays
   * enforced.
   */
  onDenied?(
    request: CommandRequest,
    denial: Denial,
    options: { readonly signal: AbortSignal },
  ): Promise<boolean>;
}
