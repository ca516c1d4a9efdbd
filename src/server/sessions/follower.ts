import { printable } from '../../protocol/errors.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import { SHOWN_CLIENT_NAME_CHARS } from '../limits.ts';
import type { EventStream } from './event-stream.ts';
import type { EventSink } from './process-events.ts';

/** A connection that receives the events of processes, or the session that it belongs to. */
export interface FollowerSink extends EventSink {
  readonly saturated: boolean;
  /** The `clientName` of its `initialize`. */
  readonly clientName: string;
  /** Whether the client understands `process/attachment` and `process/skipped`. */
  readonly sharing: boolean;
}

export type Role = 'viewer' | 'driver';
type RoleChange = NonNullable<NotificationParamsOf<'process/attachment'>['reason']>;

/** One that follows the events of a process. */
export interface Follower {
  readonly processId: string;
  readonly sink: FollowerSink;
  readonly stream: EventStream;
  /** How much output its client accepts before it reports it as used; null is no limit. */
  windowBytes: number | null;
  /** Why its role changed since the last notification. */
  roleChange: RoleChange | null;
  /** Which `process/attachment` it got: none yet, the latest, or an older one because its connection did not keep up. */
  announced: 'never' | 'latest' | 'missed';
  /** Called when the process is gone and the client has been notified. */
  readonly ended: () => void;
}

/** The name of its client, for people. */
export function shownName({ sink }: Follower): string {
  return printable(sink.clientName, SHOWN_CLIENT_NAME_CHARS);
}
