import { toNativePath } from '../../../client/paths.ts';
import type { ProcessInfo } from '../../../environment/index.ts';
import { isSandboxDenial } from '../../launch/sandbox-denial.ts';
import { decode } from '../../output/model-text.ts';
import type { Call } from '../call.ts';
import type { Collected } from './collect.ts';

/** A program whose sandbox is known. */
export interface SandboxedProgram {
  readonly command: string;
  /** `own`: that of these tools. Null: none, or not reported. */
  readonly sandbox: 'own' | ProcessInfo['sandbox'];
}

/** The program of a process that was looked up. */
export function programOf({ argv, sandbox }: Pick<ProcessInfo, 'argv' | 'sandbox'>): SandboxedProgram {
  return { command: argv.join(' '), sandbox };
}

/** What a model must know when a program probably failed because of its sandbox. Null for any other program. */
export async function sandboxHint(
  call: Call,
  { command, sandbox }: SandboxedProgram,
  { exitCode, sandboxDenied, output: { head, tail } }: Collected,
): Promise<string | null> {
  if (sandbox === null || exitCode === null) return null;
  const allows = sandbox === 'own' ? await ownSandbox(call) : allowedBy(sandbox);
  if (allows === null) return sandboxDenied ? `The sandbox of the program stopped it. ${ADVICE}` : null;
  const output = `${decode(head)}${decode(tail)}`;
  const isDenied =
    isSandboxDenial({ sandboxed: true, exitCode, reported: sandboxDenied, output }) ||
    (!allows.network && exitCode !== 0 && isOffline(command, exitCode, output));
  if (!isDenied) return null;
  const network = allows.network
    ? ''
    : ' and has no network, also no ports and no other programs on 127.0.0.1';
  return `The sandbox probably stopped the program: it may ${allows.writing}${network}. ${ADVICE}`;
}

const ADVICE = 'Choose another way, or ask the user.';

/** What a sandbox allows, in words. */
interface Allowed {
  readonly writing: string;
  readonly network: boolean;
}

async function ownSandbox({ workspace, target, signal }: Call): Promise<Allowed> {
  if (workspace.sandbox !== 'workspace-write') return { writing: NO_WRITING, network: false };
  return { writing: writingTo([...(await workspace.roots(target, signal)), SLASH_TMP]), network: false };
}

/** Null for a sandbox whose rules are not reported. */
function allowedBy({ type, writableRoots, networkAccess }: NonNullable<ProcessInfo['sandbox']>) {
  if (type === 'other') return null;
  const writing = type === 'readOnly' ? NO_WRITING : writingTo(writableRoots);
  return { writing, network: networkAccess };
}

const NO_WRITING = 'not write any file';
const SLASH_TMP = 'file:///tmp';

function writingTo(uris: readonly string[]): string {
  if (uris.length === 0) return NO_WRITING;
  return `write only to ${uris.map(toNativePath).join(', ')}, not to .git and similar directories,`;
}

/** Whether a program failed as one does that has no network. */
function isOffline(command: string, exitCode: number, output: string): boolean {
  return NETWORK_SIGNS.test(output) || (CURL_FAILURES.has(exitCode) && /\bcurl\b/.test(command));
}

/** What programs say that cannot use the network. */
const NETWORK_SIGNS =
  /could not resolve host|temporary failure in name resolution|name or service not known|EAI_AGAIN|network is unreachable|getaddrinfo|connection refused|ECONNREFUSED|(?:could not|couldn't|failed to|unable to) connect/i;

/** The exit codes of curl, which may be silent, for a host that it cannot resolve or connect to. */
const CURL_FAILURES: ReadonlySet<number> = new Set([6, 7]);
