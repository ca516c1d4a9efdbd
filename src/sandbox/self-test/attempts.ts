import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Places } from './scene.ts';

/** Something that a sandboxed program must not be able to do, or must be. */
export interface Attempt {
  readonly name: string;
  /**
   * The body of an async function with `places`, `fs`, `run` (a command, which must succeed) and `connect` (to a socket). It throws when
   * it has not got what it wanted.
   */
  readonly code: string;
  /** Whether it had an effect on this machine; null where the program knows best. What it changed for itself alone does not count. */
  readonly effect: ((places: Places) => Promise<boolean>) | null;
}

/** What the sandbox is for: if this does not succeed, that the others fail shows nothing. */
export const PERMITTED: Attempt = {
  name: 'write in the workspace',
  code: "fs.writeFileSync(places.workspace + '/permitted', places.secret)",
  effect: ({ workspace, secret }) => holds(join(workspace, 'permitted'), secret),
};

/** Those that could end the program itself come last. */
export const FORBIDDEN: readonly Attempt[] = [
  {
    name: 'change a file outside the workspace',
    code: "fs.appendFileSync(places.outside + '/changed', 'x')",
    effect: ({ outside, secret }) => differs(join(outside, 'changed'), secret),
  },
  {
    name: 'make a file outside the workspace',
    code: "fs.writeFileSync(places.outside + '/made', 'x')",
    effect: ({ outside }) => exists(join(outside, 'made')),
  },
  {
    name: 'write through a symbolic link',
    code: "fs.appendFileSync(places.workspace + '/link', 'x')",
    effect: ({ outside, secret }) => differs(join(outside, 'linked'), secret),
  },
  {
    name: 'write through a hard link',
    code: `fs.linkSync(places.outside + '/hardlinked', places.workspace + '/hardlink');
      fs.appendFileSync(places.workspace + '/hardlink', 'x')`,
    effect: ({ outside, secret }) => differs(join(outside, 'hardlinked'), secret),
  },
  {
    name: 'change .git/config',
    code: "fs.appendFileSync(places.workspace + '/.git/config', 'x')",
    effect: ({ workspace, secret }) => differs(join(workspace, '.git/config'), secret),
  },
  {
    name: 'make .codex/config.toml',
    code: `fs.mkdirSync(places.workspace + '/.codex', { recursive: true });
      fs.writeFileSync(places.workspace + '/.codex/config.toml', 'x')`,
    effect: ({ workspace }) => exists(join(workspace, '.codex/config.toml')),
  },
  {
    name: 'read a denied directory',
    code: "fs.readFileSync(places.workspace + '/above/denied/file')",
    effect: null,
  },
  {
    name: 'read a file that a pattern denies',
    code: "if (!fs.readFileSync(places.workspace + '/key.pem', 'utf8').includes(places.secret)) throw new Error('it is empty')",
    effect: null,
  },
  {
    name: 'move .git out of the way',
    code: "fs.renameSync(places.workspace + '/.git', places.workspace + '/moved-git')",
    effect: ({ workspace }) => exists(join(workspace, 'moved-git')),
  },
  {
    name: 'move the directory above a denied one',
    code: "fs.renameSync(places.workspace + '/above', places.workspace + '/moved')",
    effect: ({ workspace }) => exists(join(workspace, 'moved')),
  },
  {
    name: 'change settings of the kernel',
    // bwrap itself closes the first two where they could be written.
    code: `let refusal = null;
      for (const name of ['sysrq-trigger', 'irq/default_smp_affinity', 'sys/vm/swappiness']) {
        try { return fs.closeSync(fs.openSync('/proc/' + name, fs.constants.O_WRONLY)) } catch (error) { refusal = error }
      }
      throw refusal`,
    effect: null,
  },
  {
    name: 'open a disk of the host',
    code: `const disk = fs.readdirSync('/dev', { withFileTypes: true }).find((entry) => entry.isBlockDevice());
      if (disk === undefined) throw new Error('there is none');
      fs.closeSync(fs.openSync('/dev/' + disk.name, 'r'))`,
    effect: null,
  },
  {
    name: 'have privileges',
    code: `const status = fs.readFileSync('/proc/self/status', 'utf8');
      if (/^NoNewPrivs:\\s*1$/m.test(status) && /^CapEff:\\s*0+$/m.test(status)) throw new Error('there are none')`,
    effect: null,
  },
  {
    name: 'mount something',
    code: `run('unshare', '--map-root-user', '--mount', '--propagation', 'unchanged',
      'mount', '-t', 'tmpfs', 'none', places.workspace + '/empty')`,
    effect: null,
  },
  {
    name: 'connect to a port of this machine',
    code: "await connect({ host: '127.0.0.1', port: places.port })",
    effect: null,
  },
  {
    name: 'connect to a unix socket',
    code: 'await connect({ path: places.socket })',
    effect: null,
  },
  {
    name: 'connect to an abstract socket',
    code: 'await connect({ path: places.abstractSocket })',
    effect: null,
  },
  {
    name: 'read the environment of another process',
    code: `const file = '/proc/' + places.bystander + '/environ';
      if (!fs.readFileSync(file, 'utf8').includes(places.secret)) throw new Error('it is that of a process of its own')`,
    effect: null,
  },
  {
    name: 'signal a process of the host',
    code: "process.kill(places.bystander, 'SIGKILL')",
    effect: async ({ bystander }) => !(await isRunning(bystander)),
  },
];

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function holds(path: string, text: string): Promise<boolean> {
  return (await readFile(path, 'utf8').catch(() => '')) === text;
}

async function differs(path: string, text: string): Promise<boolean> {
  return !(await holds(path, text));
}

async function isRunning(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '');
  return /^State:\s*[^ZX]/m.test(status);
}
