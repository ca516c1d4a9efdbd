import { suggestionFor } from '../../base/suggestion.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { ClientError, messageWithoutHint } from '../../client/errors.ts';
import type { ProcessInfo } from '../../client/sharing.ts';
import { RpcErrorCode } from '../../protocol/errors.ts';
import { quoteValue } from '../../server/config/values.ts';
import { RunError, UsageError } from '../failures.ts';
import { commandFor, type Place } from './endings.ts';

/** A process of the list, with its reference. */
export type FoundProcess = ProcessInfo & { readonly ref: string };

/** How a command uses the processes that it finds. */
interface FindOptions {
  /** Whether it only reads them: then a token that may observe others finds them by reference too. */
  readonly reads: boolean;
  /** Where it looks for them, for the commands that its errors name. */
  readonly place: Place;
}

/** Throws UsageError unless a process is named. */
export function requireOperands(operands: readonly string[], command: string): void {
  if (operands.length === 0) {
    throw new UsageError("name a process by its reference or name; 'exec-server ps' lists them", command);
  }
}

/**
 * Finds processes by reference, else by name: of several with one name the one that runs, else the latest. Rejects with RunError when
 * one is missing, so that a command with a wrong operand changes nothing. The message says when a process that is gone has ended.
 */
export async function findProcesses(
  client: ExecServerClient,
  operands: readonly string[],
  { reads, place }: FindOptions,
): Promise<readonly FoundProcess[]> {
  const own = await listed(client, 'owner');
  const found = operands.map((operand) => match(own, operand));
  const others = found.includes(undefined) ? await observed(client) : [];
  const all: FoundProcess[] = [];
  for (const [index, operand] of operands.entries()) {
    const process = found[index] ?? others.find(({ ref }) => ref === operand);
    if (process === undefined) throw await missing(client, operand, own, place);
    if (found[index] === undefined && !reads) throw notOwned(process);
    if (!all.some(({ ref }) => ref === process.ref)) all.push(process);
  }
  return all;
}

/** The processes of a scope. A server that cannot share processes is an error that says so. */
export async function listed(
  client: ExecServerClient,
  scope: 'owner' | 'server',
  ports = false,
): Promise<readonly FoundProcess[]> {
  const processes = await client.processes.list({ scope, ports });
  return processes.map((process) => ({ ...process, ref: process.ref ?? process.processId }));
}

/** What to call a process in messages. */
export function nameOf({ name, ref }: Pick<FoundProcess, 'name' | 'ref'>): string {
  return name ?? ref;
}

/** Whether the program has exited. */
export function hasExited({ state }: Pick<ProcessInfo, 'state'>): boolean {
  return state === 'exited' || state === 'closed';
}

function match(processes: readonly FoundProcess[], operand: string): FoundProcess | undefined {
  const named = processes.filter(({ name }) => name === operand);
  return (
    processes.find(({ ref }) => ref === operand) ??
    named.find((process) => !hasExited(process)) ??
    named.toSorted((one, other) => other.startedAt.getTime() - one.startedAt.getTime())[0]
  );
}

/** The processes of all owners; none when the token does not allow to observe them. */
async function observed(client: ExecServerClient): Promise<readonly FoundProcess[]> {
  try {
    return await listed(client, 'server');
  } catch (error) {
    if (error instanceof ClientError && error.code === RpcErrorCode.forbidden) return [];
    throw error;
  }
}

function notOwned({ ref, owner }: FoundProcess): RunError {
  const whose = owner === null ? 'another owner' : `the owner ${quoteValue(owner)}`;
  return new RunError(
    `the process ${quoteValue(ref)} belongs to ${whose}, and this token may only read it; use a token of that owner with the scope exec`,
    { kind: 'permissionDenied' },
  );
}

async function missing(
  client: ExecServerClient,
  operand: string,
  own: readonly FoundProcess[],
  place: Place,
): Promise<RunError> {
  const list = `'${commandFor('ps -a', place)}' lists`;
  const ended = await endOf(client, operand);
  // It has been there, so the name is right.
  if (ended !== null) {
    return new RunError(`${ended}; ${list} those that are left`, { kind: 'notFound' });
  }
  const known = own.flatMap(({ ref, name }) => (name === null ? [ref] : [ref, name]));
  const suggestion = suggestionFor(operand, known);
  const advice = `${suggestion === null ? '' : `${suggestion} `}${list} them`;
  return new RunError(`no process has the reference or name ${quoteValue(operand)}; ${advice}`, {
    kind: 'notFound',
  });
}

/** What the server remembers of a process that is gone. */
async function endOf(client: ExecServerClient, operand: string): Promise<string | null> {
  try {
    const process = await client.attach(operand);
    await process.detach();
    return null;
  } catch (error) {
    const isEnd = error instanceof ClientError && / exited with code \d+ and closed at /.test(error.message);
    return isEnd ? messageWithoutHint(error) : null;
  }
}
