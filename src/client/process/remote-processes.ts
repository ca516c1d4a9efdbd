import type { CallOptions, ExecProcess, TerminateMode } from '../backend.ts';
import { CallLimit, Deadline } from '../connection/call-limit.ts';
import { checkSeq } from '../connection/option-checks.ts';
import type { Attached } from '../connection/sharing-messages.ts';
import { ClientError } from '../errors.ts';
import { LIST_MAX_PAGES } from '../limits.ts';
import type { AttachOptions, ListOptions, ProcessInfo, SharedProcesses } from '../sharing.ts';
import { requestAttach } from './attach-requests.ts';
import { Attachment } from './attachment.ts';
import { type ClientHost, type ProcessHost, processHost } from './process-host.ts';
import { RemoteProcess } from './remote-process.ts';

/** The processes of a server, whichever client started them. */
export class RemoteProcesses implements SharedProcesses {
  readonly #host: ClientHost;
  readonly #processHost: ProcessHost;

  constructor(host: ClientHost) {
    this.#host = host;
    this.#processHost = processHost(host);
  }

  async list({ scope, ports, ...options }: ListOptions = {}): Promise<readonly ProcessInfo[]> {
    if (scope !== undefined && scope !== 'session') this.#requireSharing();
    // A server without sharing has only the processes of the session.
    const shared = this.#host.capabilities.processSharing ? { scope: scope ?? 'owner' } : {};
    const params = { ...shared, ...(ports && { ports }) };
    const deadline = new Deadline(options);
    const found: ProcessInfo[] = [];
    let after: number | undefined;
    for (let pages = 0; pages < LIST_MAX_PAGES; pages++) {
      const page = await this.#host.call(
        'process/list',
        { ...params, ...(after !== undefined && { after }) },
        deadline.remaining,
      );
      found.push(...page.processes);
      if (page.next === undefined) return found;
      after = page.next;
    }
    throw new ClientError('protocol', `the list of processes did not end after ${LIST_MAX_PAGES} pages`);
  }

  async get(refOrName: string, options: CallOptions = {}): Promise<ProcessInfo> {
    const processes = await this.list(options);
    const named = processes.filter(({ name }) => name === refOrName);
    const found =
      processes.find(({ ref }) => ref === refOrName) ??
      named.find(({ state }) => state !== 'closed') ??
      named.toSorted((one, other) => other.startedAtMs - one.startedAtMs)[0];
    if (found !== undefined) return found;
    throw new ClientError('notFound', `no process has the reference or name ${JSON.stringify(refOrName)}`, {
      hint: 'list the processes with `client.processes.list()`',
    });
  }

  async attach(refOrName: string, options: AttachOptions = {}): Promise<ExecProcess> {
    this.#requireSharing();
    checkSeq('afterSeq', options.afterSeq);
    if (options.screen && options.afterSeq !== undefined)
      throw new ClientError('invalidInput', '`screen` and `afterSeq` exclude each other', {
        hint: 'with `screen` the output after the screen follows',
      });
    const limit = new CallLimit('`process/attach`', options);
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
    const deadline = new Deadline(options);
    const { processId } = await this.get(refOrName, deadline.remaining);
    await this.#host.call('process/signal', { processId, signal }, deadline.remaining);
  }

  async terminate(refOrName: string, mode?: TerminateMode, options: CallOptions = {}): Promise<boolean> {
    const deadline = new Deadline(options);
    const { processId } = await this.get(refOrName, deadline.remaining);
    const params = { processId, ...(mode && { mode }) };
    return (await this.#host.call('process/terminate', params, deadline.remaining)).running;
  }

  async #attach(
    refOrName: string,
    options: AttachOptions,
    signal: AbortSignal | undefined,
  ): Promise<RemoteProcess> {
    const { takeOver = false, role = takeOver ? 'driver' : 'viewer', screen = false, afterSeq = 0 } = options;
    const name = PROCESS_NAME.test(refOrName) && { name: refOrName };
    const params = { ref: refOrName, ...name, role, takeOver, screen };
    let process: RemoteProcess | null = null;
    let lastSeq = 0;
    await requestAttach(
      () => this.#host.usableLink(signal),
      params,
      (attached) => {
        lastSeq = attached.nextSeq - 1;
        process = this.#follow(attached, afterSeq);
      },
    );
    // `requestAttach` calls back before it resolves.
    const followed = process as unknown as RemoteProcess;
    if (afterSeq <= lastSeq) return followed;
    await followed.detach();
    throw new ClientError('invalidInput', `\`afterSeq\` is ${afterSeq}, but the last event is ${lastSeq}`, {
      hint: 'a name may belong to another process by now; attach by reference',
    });
  }

  /** Follows a process from the answer to its attach on. */
  #follow(attached: Attached, afterSeq: number): RemoteProcess {
    const { processId, exitCode, screen } = attached;
    const { routes } = this.#host;
    const attachment = routes.attachmentOf(processId) ?? Attachment.of(attached);
    attachment.answered(attached);
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
      hint: 'use a server with the capability processSharing',
    });
  }
}

/** What can be a name. The server rejects anything else as one. */
const PROCESS_NAME = /^[A-Za-z0-9._-]{1,64}$/;
