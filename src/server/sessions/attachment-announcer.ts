import { encodeNotification } from '../../protocol/envelope.ts';
import type { NotificationParamsOf } from '../../protocol/registry.ts';
import { ATTACHMENT_INTERVAL_MS } from '../limits.ts';
import type { Follower, Role } from './follower.ts';

type AttachmentParams = NotificationParamsOf<'process/attachment'>;

/** The process whose clients are announced. */
interface AnnouncedProcess {
  readonly attachedClients: AttachmentParams['attached'];
  readonly attachedCount: number;
  followers(): Iterable<Follower>;
  roleOf(follower: Follower): Role;
  /** Removes a follower after its last notification. */
  remove(follower: Follower): void;
}

/**
 * Sends `process/attachment`. A client gets its first notification, and those of changes of its own role, in the same turn of the event
 * loop. It gets the changes of other clients at most once per interval, so that clients that come and go cannot slow the driver. The
 * latest state always arrives.
 */
export class AttachmentAnnouncer {
  readonly #process: AnnouncedProcess;
  #isPending = false;
  #isResting = false;
  /** Whether followers wait for the end of the rest. */
  #isLate = false;

  constructor(process: AnnouncedProcess) {
    this.#process = process;
  }

  /** The clients or their roles have changed. All changes of a turn of the event loop are one notification. */
  changed(): void {
    if (this.#isPending) return;
    this.#isPending = true;
    setImmediate(() => {
      this.#isPending = false;
      this.#announceAll();
    });
  }

  /** The connection of a follower keeps up again. */
  flowed(follower: Follower): void {
    if (follower.announced === 'missed') this.#announce(follower, this.#process.attachedClients);
  }

  #announceAll(): void {
    const { attachedClients } = this.#process;
    const isResting = this.#isResting;
    for (const follower of this.#process.followers()) {
      if (isResting && follower.announced !== 'never' && follower.roleChange === null) this.#isLate = true;
      else this.#announce(follower, attachedClients);
    }
    if (!isResting) this.#rest();
  }

  #rest(): void {
    this.#isResting = true;
    this.#isLate = false;
    setTimeout(() => {
      this.#isResting = false;
      if (this.#isLate) this.#announceAll();
    }, ATTACHMENT_INTERVAL_MS).unref();
  }

  /** A client that does not keep up is notified later, so that changes cannot pile up for it. */
  #announce(follower: Follower, attached: AttachmentParams['attached']): void {
    const { sink, processId, roleChange, stream } = follower;
    if (!sink.attached || !sink.sharing) return;
    const isGone = roleChange === 'processGone';
    // The exit and the end come first, also for a connection that attached in this turn.
    if (isGone) stream.begin();
    follower.announced = sink.saturated ? 'missed' : 'latest';
    if (sink.saturated) return;
    const params: AttachmentParams = {
      processId,
      role: isGone ? 'none' : this.#process.roleOf(follower),
      ...(roleChange !== null && { reason: roleChange }),
      attached,
      attachedCount: this.#process.attachedCount,
    };
    follower.roleChange = null;
    if (isGone) this.#process.remove(follower);
    sink.sendBulk(Buffer.from(encodeNotification('process/attachment', params)));
  }
}
