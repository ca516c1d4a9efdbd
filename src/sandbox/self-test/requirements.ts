import type { Spawner } from '../../process/spawn/spawner.ts';
import { BwrapUnavailable, findBwrap, fixFor } from '../linux/bwrap.ts';
import { bwrapSpec, FEATURE_ARGUMENTS } from '../linux/bwrap-arguments.ts';
import { descriptorPath } from '../linux/descriptors.ts';
import { idleImage } from '../linux/launcher.ts';
import { seccompFilter } from '../linux/seccomp.ts';
import type { Architecture } from '../linux/syscalls.ts';
import { type Check, failed, ok, untested } from './check.ts';
import { runProgram } from './run-program.ts';

/** Checks the kernel features that sandboxes need, one after the other, to find the first that is missing. Looks for bwrap as a server does. */
export async function checkRequirements(
  spawner: Spawner,
  architecture: Architecture,
  searchPath: string,
  bwrapPath = '',
): Promise<Check[]> {
  const found = await findBwrap(searchPath, bwrapPath).catch((error: unknown) => error);
  if (found instanceof BwrapUnavailable) {
    return [
      failed('bwrap', found.reason, found.fix),
      ...FEATURES.map(({ name }) => untested(name, 'needs bwrap')),
    ];
  }
  if (typeof found !== 'string') throw found;
  const run = (args: readonly string[]) =>
    runBwrap(spawner, found, args, [idleImage(architecture), seccompFilter('restricted', architecture)]);
  const { output } = await run(['--version']);
  const checks = [ok('bwrap', `${found} (${output || 'unknown version'})`)];
  const args: string[] = [];
  for (const feature of FEATURES) {
    if (checks.some(({ state }) => state === 'failed')) {
      checks.push(untested(feature.name, 'needs the features before it'));
      continue;
    }
    args.push(...feature.args);
    const { code, stderr } = await run([...args, '--', descriptorPath(IMAGE_FD)]);
    const reason = stderr || `bwrap exited with ${code}`;
    checks.push(code === 0 ? ok(feature.name, feature.gives) : failed(feature.name, reason, fixFor(reason)));
  }
  return checks;
}

const IMAGE_FD = 3;
const FILTER_FD = 4;

/** Each is tested together with those before it. */
const FEATURES: readonly {
  readonly name: string;
  readonly args: readonly string[];
  readonly gives: string;
}[] = [
  {
    name: 'user namespaces',
    args: FEATURE_ARGUMENTS.userNamespaces,
    gives: 'sandboxes get a file tree of their own',
  },
  {
    name: 'processes',
    args: FEATURE_ARGUMENTS.processes,
    gives: 'sandboxes get processes and a /proc of their own',
  },
  {
    name: 'network isolation',
    args: FEATURE_ARGUMENTS.network,
    gives: 'sandboxes get a network of their own, with nothing in it',
  },
  {
    name: 'system call filter',
    args: FEATURE_ARGUMENTS.filter(FILTER_FD),
    gives: 'the kernel takes filters (seccomp)',
  },
];

function runBwrap(
  spawner: Spawner,
  program: string,
  args: readonly string[],
  inherited: readonly Uint8Array[],
): ReturnType<typeof runProgram> {
  const spec = { ...bwrapSpec(program, args, inherited), io: { kind: 'pipe', stdin: 'closed' } } as const;
  return runProgram(spawner, { spec, denialDetector: null, release: null });
}
