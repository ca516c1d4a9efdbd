import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Targets } from './fixture.ts';

/** An operation that a sandbox must forbid, or must permit. */
export interface Attempt {
  readonly name: string;
  /**
   * The body of an async function with `targets`, `fs`, `run` (runs a command and throws if it fails) and `connect` (to a socket). It
   * throws when the operation fails.
   */
  readonly code: string;
  /** Whether it changed this machine outside of the sandbox. Null when only the program knows whether it succeeded. */
  readonly effect: ((targets: Targets) => Promise<boolean>) | null;
}

/** If this fails, failures of the forbidden attempts prove nothing. */
export const PERMITTED: Attempt = {
  name: 'write in the workspace',
  code: "fs.writeFileSync(targets.workspace + '/permitted', targets.secret)",
  effect: ({ workspace, secret }) => holds(join(workspace, 'permitted'), secret),
};

/** Attempts that could kill the program itself come last. */
export const FORBIDDEN: readonly Attempt[] = [
  {
    name: 'change a file outside the workspace',
    code: "fs.appendFileSync(targets.outside + '/changed', 'x')",
    effect: ({ outside, secret }) => differs(join(outside, 'changed'), secret),
  },
  {
    name: 'make a file outside the workspace',
    code: "fs.writeFileSync(targets.outside + '/made', 'x')",
    effect: ({ outside }) => exists(join(outside, 'made')),
  },
  {
    name: 'write through a symbolic link',
    code: "fs.appendFileSync(targets.workspace + '/link', 'x')",
    effect: ({ outside, secret }) => differs(join(outside, 'linked'), secret),
  },
  {
    name: 'write through a hard link',
    code: `fs.linkSync(targets.outside + '/hardlinked', targets.workspace + '/hardlink');
      fs.appendFileSync(targets.workspace + '/hardlink', 'x')`,
    effect: ({ outside, secret }) => differs(join(outside, 'hardlinked'), secret),
  },
  {
    name: 'change .git/config',
    code: "fs.appendFileSync(targets.workspace + '/.git/config', 'x')",
    effect: ({ workspace, secret }) => differs(join(workspace, '.git/config'), secret),
  },
  {
    name: 'make .codex/config.toml',
    code: `fs.mkdirSync(targets.workspace + '/.codex', { recursive: true });
      fs.writeFileSync(targets.workspace + '/.codex/config.toml', 'x')`,
    effect: ({ workspace }) => exists(join(workspace, '.codex/config.toml')),
  },
  {
    name: 'read a denied directory',
    code: "fs.readFileSync(targets.workspace + '/above/denied/file')",
    effect: null,
  },
  {
    name: 'read a file that a pattern denies',
    code: "if (!fs.readFileSync(targets.workspace + '/key.pem', 'utf8').includes(targets.secret)) throw new Error('it is empty')",
    effect: null,
  },
  {
    name: 'move .git out of the way',
    code: "fs.renameSync(targets.workspace + '/.git', targets.workspace + '/moved-git')",
    effect: ({ workspace }) => exists(join(workspace, 'moved-git')),
  },
  {
    name: 'move the directory above a denied one',
    code: "fs.renameSync(targets.workspace + '/above', targets.workspace + '/moved')",
    effect: ({ workspace }) => exists(join(workspace, 'moved')),
  },
  {
    name: 'change settings of the kernel',
    // bwrap itself protects the first two where they are writable.
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
      if (disk === undefined) throw new Error('no block device found');
      fs.closeSync(fs.openSync('/dev/' + disk.name, 'r'))`,
    effect: null,
  },
  {
    name: 'change the mode of a device of the host',
    // It sets the mode that the device has.
    code: "fs.chmodSync('/dev/full', fs.statSync('/dev/full').mode & 0o7777)",
    effect: null,
  },
  {
    name: 'have privileges',
    code: `const status = fs.readFileSync('/proc/self/status', 'utf8');
      if (/^NoNewPrivs:\\s*1$/m.test(status) && /^CapEff:\\s*0+$/m.test(status)) throw new Error('it has none')`,
    effect: null,
  },
  {
    name: 'mount something',
    code: `run('unshare', '--map-root-user', '--mount', '--propagation', 'unchanged',
      'mount', '-t', 'tmpfs', 'none', targets.workspace + '/empty')`,
    effect: null,
  },
  {
    name: 'connect to a port of this machine',
    code: "await connect({ host: '127.0.0.1', port: targets.port })",
    effect: null,
  },
  {
    name: 'connect to a unix socket',
    code: 'await connect({ path: targets.socket })',
    effect: null,
  },
  {
    name: 'connect to an abstract socket',
    code: 'await connect({ path: targets.abstractSocket })',
    effect: null,
  },
  {
    name: 'read the environment of another process',
    code: `const file = '/proc/' + targets.bystander + '/environ';
      if (!fs.readFileSync(file, 'utf8').includes(targets.secret)) throw new Error('it belongs to a process of the sandbox')`,
    effect: null,
  },
  {
    name: 'signal a process of the host',
    // The signal takes effect a little later.
    code: `process.kill(targets.bystander, 'SIGKILL');
      const status = () => { try { return fs.readFileSync('/proc/' + targets.bystander + '/status', 'latin1') } catch { return '' } };
      for (let tries = 0; tries < 1000 && /^State:\\s*[^ZX]/m.test(status()); tries++) await new Promise((resolve) => setTimeout(resolve, 2))`,
    effect: async ({ bystander }) => !(await isRunning(bystander)),
  },
];

/** Attempts of a program that may write the whole disk except for some files. */
export const FORBIDDEN_ON_WRITABLE_DISK: readonly Attempt[] = [
  {
    name: 'change settings of the kernel in /sys',
    code: `let refusal = null;
      for (const name of ['mm/ksm/run', 'mm/transparent_hugepage/enabled']) {
        try { return fs.closeSync(fs.openSync('/sys/kernel/' + name, fs.constants.O_WRONLY)) } catch (error) { refusal = error }
      }
      throw refusal`,
    effect: null,
  },
  {
    name: 'manage control groups',
    code: `let refusal = new Error('no control groups found');
      const own = fs.readFileSync('/proc/self/cgroup', 'utf8').split('\\n').map((line) => line.split(':')[2] ?? '');
      const lines = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\\n');
      for (const line of lines.filter((line) => / - cgroup2? /.test(line))) {
        for (const group of ['', ...own]) {
          const file = line.split(' ')[4] + group + '/cgroup.procs';
          try { return fs.closeSync(fs.openSync(file, fs.constants.O_WRONLY)) } catch (error) { refusal = error }
        }
      }
      throw refusal`,
    effect: null,
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
