import type { ProcessManager } from '../../process/process-manager.ts';
import type { SessionLimits } from '../../process/resources/resource-limits.ts';
import type { FollowerSink } from './follower.ts';
import type { Dialect } from './process-events.ts';
import type { SharedProcess } from './shared-process.ts';

/** The session that started a process, and the id that its client chose. */
export interface HomeSession extends FollowerSink {
  /** The processes that the session knows by an id of its own. */
  readonly shared: Map<string, SharedProcess>;
  /** Processes that are gone, by their former ids, whose end the client does not have yet because its connection does not keep up. */
  readonly ending: Map<string, SharedProcess>;
}

/** What identifies a process on the server. */
export interface SharedProcessIdentity {
  readonly ref: string;
  /** Its position in listings: a number that increases with every start. */
  readonly position: number;
  readonly owner: string;
  readonly name: string | null;
  readonly lifetime: 'session' | 'detached';
  readonly processId: string;
  /** The flow-control window of the session; null is none. */
  readonly windowBytes: number | null;
  /** How much output is held for the session while it is not used; null when nothing is held. */
  readonly heldBytes: number | null;
  readonly dialect: Dialect;
  readonly session: HomeSession;
  /** Where it runs, and its id there. */
  readonly manager: ProcessManager;
  readonly key: string;
  /** What it may use together with other processes; null is no limit. */
  readonly limits: SessionLimits | null;
}

/** The directory that a process is listed in. */
export interface Directory {
  entered(process: SharedProcess): void;
  left(process: SharedProcess): void;
}
