import { ProcessError } from '../errors.ts';
import type { SessionGroup } from './control-group.ts';
import type { ResourceLimits } from './resource-limits.ts';

/** What the system lets all programs of one session use together. Only a control group can keep it, made with the first of them. */
export class SessionLimits {
  readonly limits: ResourceLimits;
  #group: SessionGroup | null = null;
  #closed = false;

  constructor(limits: ResourceLimits) {
    this.limits = limits;
  }

  /** The group of the session, which `make` makes for its first program. */
  group(make: (limits: ResourceLimits) => SessionGroup): SessionGroup {
    if (this.#closed) throw new ProcessError('shuttingDown', 'the session has ended');
    this.#group ??= make(this.limits);
    return this.#group;
  }

  /** Gives the group back; to be called when the session has ended. What a program has left running keeps it, and its limits. */
  close(): void {
    this.#closed = true;
    this.#group?.remove();
  }
}
