import { Listeners } from '../../base/listeners.ts';
import type { CallParamsOf } from '../../protocol/registry.ts';
import type { StartParams } from '../backend.ts';
import type { Attached } from '../connection/sharing-messages.ts';
import type { ProcessAttachment } from '../sharing.ts';
import { FlowControl } from './flow-control.ts';

/**
 * The role of this client for one process. All handles of a process on one client share it, because the server has one
 * role per connection.
 */
export class Attachment {
  /** Whether the process belongs to the session of this client, which needs no attachment for it. */
  readonly own: boolean;
  /** Whether the process outlives the session of this client. */
  shared: boolean;
  readonly flow: FlowControl;
  /** Whether the server holds the output of the process until this client reports it as used. */
  holdsOutput = false;
  /** Whether this client gets the time of output. */
  timed = false;
  readonly #listeners = new Listeners<[ProcessAttachment]>('process.onAttachmentChange');
  #ref: string | null = null;
  #name: string | null = null;
  #current: ProcessAttachment;

  private constructor(
    own: boolean,
    shared: boolean,
    role: ProcessAttachment['role'],
    windowBytes: number | null,
  ) {
    this.own = own;
    this.shared = shared;
    this.#current = { role, reason: null, attached: [], attachedCount: 0 };
    this.flow = new FlowControl(windowBytes);
  }

  /** The attachment of a process that this client starts. */
  static ofStart({
    name,
    lifetime,
    windowBytes = null,
    holdOutput,
  }: Pick<StartParams, 'name' | 'lifetime' | 'windowBytes' | 'holdOutput'>): Attachment {
    const attachment = new Attachment(true, lifetime?.type === 'detached', 'driver', windowBytes);
    attachment.#name = name ?? null;
    attachment.holdsOutput = holdOutput === true;
    return attachment;
  }

  /** The attachment of a process that this client has attached to. */
  static of(attached: Attached, windowBytes: number | null): Attachment {
    const attachment = new Attachment(false, true, attached.role, windowBytes);
    attachment.#ref = attached.ref;
    attachment.#name = attached.name;
    return attachment;
  }

  get ref(): string | null {
    return this.#ref;
  }

  get name(): string | null {
    return this.#name;
  }

  get current(): ProcessAttachment {
    return this.#current;
  }

  /** What has to be said again on each connection. */
  get connectionParams(): Pick<CallParamsOf<'process/attach'>, 'windowBytes' | 'withTimes'> {
    const { windowBytes } = this.flow;
    return { ...(windowBytes !== null && { windowBytes }), ...(this.timed && { withTimes: true }) };
  }

  onChange(listener: (attachment: ProcessAttachment) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The server has started the process. */
  started(ref: string | null): void {
    this.#ref = ref;
  }

  /** The server has answered an attach. `reason` is why the role may differ from the last one. */
  answered({ role }: Attached, reason: ProcessAttachment['reason'] = null): void {
    if (role !== this.#current.role) this.#set({ ...this.#current, role, reason });
  }

  /** The server has reported a change. It gives no reason for a change that happened while this client was away. */
  change(attachment: ProcessAttachment): void {
    const isDemoted = this.#current.role === 'driver' && attachment.role === 'viewer';
    this.#set({ ...attachment, reason: attachment.reason ?? (isDemoted ? 'takenOver' : null) });
  }

  #set(attachment: ProcessAttachment): void {
    this.#current = attachment;
    this.#listeners.emit(attachment);
  }
}
