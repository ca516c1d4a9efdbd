import type { CallOptions, ExecProcess, TerminateMode } from '../backend.ts';
import { CallLimit, Deadline } from '../connection/call-limit.ts';
import {
  CALL_OPTIONS,
  checkBoolean,
  checkBytes,
  checkOneOf,
  checkSeq,
  expectOptions,
  expectText,
  type OptionNames,
} from '../connection/option-checks.ts';
import { type Attached, readProcessPage } from '../connection/sharing-messages.ts';
import { ClientError } from '../errors.ts';
import { listPages } from '../list-pages.ts';
import type { AttachOptions, ListOptions, ProcessInfo, SharedProcesses } from '../sharing.ts';
import { requestAttach, windowOf } from './attach-requests.ts';
import { Attachment } from './attachment.ts';
import { unsupported } from './process-errors.ts';
import { type ClientHost, type ProcessHost, processHost } from './process-host.ts';
import { RemoteProcess } from './remote-process.ts';
import { expectTerminateMode } from './terminate.ts';

/** The processes of a server, whichever client started them. */
export class RemoteProcesses implements SharedProcesses {
  readonly #host: ClientHost;
  readonly #processHost: ProcessHost;

  constructor(host: ClientHost) {
    this.#host = host;
    this.#processHost = processHost(host);
  }

  async list(options: ListOptions = {}): Promise<readonly ProcessInfo[]> {
    expectOptions('processes.list', options, LIST_OPTIONS);
    checkOneOf('scope', options.scope, ['session', 'owner', 'server']);
    checkBoolean('ports', options.ports);
    return this.#list(options, new Deadline(options));
  }

  async get(refOrName: string, options: CallOptions = {}): Promise<ProcessInfo> {
    expectRefOrName(refOrName);
    expectOptions('processes.get', options, CALL_OPTIONS);
    return this.#get(refOrName, new Deadline(options));
  }

  async attach(refOrName: string, options: AttachOptions = {}): Promise<ExecProcess> {
    expectRefOrName(refOrName);
    expectOptions('attach', options, ATTACH_OPTIONS);
    checkOneOf('role', options.role, ['viewer', 'driver']);
    checkBoolean('takeOver', options.takeOver);
    checkBoolean('screen', options.screen);
    checkBoolean('withTimes', options.withTimes);
    this.#requireSharing();
    if (options.withTimes && !this.#host.capabilities.processOutputTimes)
      throw unsupported('report the time of output', 'attach without `withTimes`, or use a newer server');
    checkSeq('afterSeq', options.afterSeq);
    checkBytes('windowBytes', options.windowBytes, { min: 1 });
    if (options.screen && options.afterSeq !== undefined)
      throw new ClientError('invalidInput', '`screen` and `afterSeq` exclude each other', {
        hint: 'with `screen` the output after the screen follows',
      });
    const limit = new CallLimit(`attaching to ${refOrName}`, options);
    let wanted = true;
    const attaching = this.#attach(refOrName, options, limit.signal);
    attaching.then(
      (process) => {
        if (!wanted) process.detach().catch(() => {});
      },
      () => {},
    );
    try {
      return await limit.race(attaching);
    } catch (error) {
      wanted = false;
      throw error;
    } finally {
      limit.end();
    }
  }

  async signal(refOrName: string, signal: string, options: CallOptions = {}): Promise<void> {
    expectText('signal', signal, 'pass its name, such as SIGTERM');
    expectRefOrName(refOrName);
    expectOptions('processes.signal', options, CALL_OPTIONS);
    const deadline = new Deadline(options);
    const { processId } = await this.#get(refOrName, deadline);
    await this.#host.call('process/signal', { processId, signal }, deadline.remaining);
  }

  async terminate(refOrName: string, mode?: TerminateMode, options: CallOptions = {}): Promise<boolean> {
    expectRefOrName(refOrName);
    expectTerminateMode(mode);
    expectOptions('processes.terminate', options, CALL_OPTIONS);
    const deadline = new Deadline(options);
    const { processId } = await this.#get(refOrName, deadline);
    const params = { processId, ...(mode && { mode }) };
    return (await this.#host.call('process/terminate', params, deadline.remaining)).running;
  }

  async forget(refOrName: string, options: CallOptions = {}): Promise<void> {
    if (!this.#host.capabilities.processForget) {
      throw unsupported('remove a process that has ended', 'it removes the output itself after some time');
    }
    expectRefOrName(refOrName);
    expectOptions('processes.forget', options, CALL_OPTIONS);
    const deadline = new Deadline(options);
    const { processId } = await this.#get(refOrName, deadline);
    await this.#host.call('process/forget', { processId }, deadline.remaining);
  }

  async #list(
    { scope, ports }: Pick<ListOptions, 'scope' | 'ports'>,
    deadline: Deadline,
  ): Promise<readonly ProcessInfo[]> {
    if (scope !== undefined && scope !== 'session') this.#requireSharing();
    // A server without sharing has only the processes of the session.
    const shared = this.#host.capabilities.processSharing ? { scope: scope ?? 'owner' } : {};
    const params = { ...shared, ...(ports && { ports }) };
    return listPages<ProcessInfo, number>('processes', async (after) => {
      const result = await this.#host.call('process/list', { ...params, ...after }, deadline.remaining);
      const { processes, next } = readProcessPage(result);
      return { items: processes, next };
    });
  }

  async #get(refOrName: string, deadline: Deadline): Promise<ProcessInfo> {
    const own = await this.#list({}, deadline);
    const named = own.filter(({ name }) => name === refOrName);
    const found =
      own.find(({ ref }) => ref === refOrName) ??
      named.find(({ state }) => state !== 'closed') ??
      named.toSorted((one, other) => other.startedAt.getTime() - one.startedAt.getTime())[0] ??
      (await this.#ofOthers(refOrName, deadline));
    if (found !== undefined) return found;
    throw new ClientError('notFound', `no process has the reference or name ${JSON.stringify(refOrName)}`, {
      hint: 'list the processes with `client.processes.list()`',
    });
  }

  /** The process of another owner. Undefined when there is none, and when this client may not observe other owners. */
  async #ofOthers(wanted: string, deadline: Deadline): Promise<ProcessInfo | undefined> {
    if (!this.#host.capabilities.processSharing) return undefined;
    try {
      return (await this.#list({ scope: 'server' }, deadline)).find(({ ref }) => ref === wanted);
    } catch (error) {
      if (error instanceof ClientError && error.kind === 'permissionDenied') return undefined;
      throw error;
    }
  }

  async #attach(
    refOrName: string,
    options: AttachOptions,
    signal: AbortSignal | undefined,
  ): Promise<RemoteProcess> {
    const { takeOver = false, role = takeOver ? 'driver' : 'viewer', screen = false, afterSeq = 0 } = options;
    const { withTimes = false } = options;
    const name = PROCESS_NAME.test(refOrName) && { name: refOrName };
    let process: RemoteProcess | null = null;
    let lastSeq = 0;
    const request = () => {
      const windowBytes = this.#windowFor(refOrName, options);
      const params = {
        ref: refOrName,
        ...name,
        role,
        takeOver,
        screen,
        ...(windowBytes !== null && { windowBytes }),
        ...(withTimes && { withTimes }),
      };
      const received = (attached: Attached) => {
        lastSeq = attached.nextSeq - 1;
        process = this.#follow(attached, afterSeq, windowBytes, withTimes);
      };
      return requestAttach(() => this.#host.usableLink(signal), params, received);
    };
    await this.#host.routes.attachOrder.run('attach', [refOrName], request, signal);
    // `requestAttach` calls back before it resolves.
    const followed = process as unknown as RemoteProcess;
    if (afterSeq <= lastSeq) return followed;
    await followed.detach();
    throw new ClientError('invalidInput', `\`afterSeq\` is ${afterSeq}, but the last event is ${lastSeq}`, {
      hint: 'a name may belong to another process by now; attach by reference',
    });
  }

  /** All handles of a process share one window. */
  #windowFor(refOrName: string, options: AttachOptions): number | null {
    const known = this.#host.routes.find(refOrName);
    return known === undefined ? windowOf(this.#host.capabilities, options) : known.flow.windowBytes;
  }

  /** Follows a process from the answer to its attach on. */
  #follow(
    attached: Attached,
    afterSeq: number,
    windowBytes: number | null,
    withTimes: boolean,
  ): RemoteProcess {
    const { processId, exitCode, screen } = attached;
    const { routes } = this.#host;
    const attachment = routes.attachmentOf(processId) ?? Attachment.of(attached, windowBytes);
    attachment.answered(attached);
    attachment.timed ||= withTimes;
    const process = new RemoteProcess(this.#processHost, processId, attachment, {
      afterSeq: screen?.seq ?? afterSeq,
      screen: screen && { type: 'screen', seq: screen.seq, screen },
      exitCode,
      startedHere: false,
    });
    routes.join(process, attachment);
    process.attached();
    return process;
  }

  #requireSharing(): void {
    if (this.#host.capabilities.processSharing) return;
    throw new ClientError('unsupported', 'the server cannot share processes', {
      hint: 'update the server: it lacks the capability processSharing',
    });
  }
}

/** What can be a name. The server rejects anything else as one. */
const PROCESS_NAME = /^[A-Za-z0-9._-]{1,64}$/;

const LIST_OPTIONS: OptionNames<ListOptions> = { ...CALL_OPTIONS, scope: true, ports: true };
const ATTACH_OPTIONS: OptionNames<AttachOptions> = {
  ...CALL_OPTIONS,
  role: true,
  takeOver: true,
  afterSeq: true,
  screen: true,
  windowBytes: true,
  withTimes: true,
};

function expectRefOrName(refOrName: unknown): void {
  expectText('refOrName', refOrName, 'pass the `ref` or the name of a process');
}
