// Runs podman on a machine without systemd, overlay file systems and bridges: with runc, copied layers and the network of the host. Images
// and containers are kept in a folder of their own.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder } from '../package-cache.mjs';

const run = promisify(execFile);
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const NETWORK = ['--network=host'];
/** One layer, because vfs copies everything for each layer. */
const BUILD_FLAGS = ['--layers=false', '--isolation', 'chroot', '--network', 'host'];
/** A container with more is refused where the limits of the machine are lower. */
const LIMITS = ['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024'];

export class Podman {
  #folder = newFolder();
  #flags = [
    ...['--root', join(this.#folder, 'storage'), '--runroot', join(this.#folder, 'run')],
    ...[
      '--storage-driver',
      'vfs',
      '--runtime',
      'runc',
      '--cgroup-manager',
      'cgroupfs',
      '--log-level',
      'fatal',
    ],
  ];

  /** A folder for files that belong to the images and containers. */
  get folder() {
    return this.#folder;
  }

  /** Output and exit code of a podman command. */
  async try(...args) {
    try {
      return { code: 0, ...(await this.#exec(args)) };
    } catch (error) {
      if (typeof error.code !== 'number') throw error;
      return { code: error.code, stdout: error.stdout, stderr: error.stderr };
    }
  }

  /** stdout of a podman command that must succeed. */
  async do(...args) {
    const { code, stdout, stderr } = await this.try(...args);
    if (code !== 0) throw new Error(`podman ${args.join(' ')} exited with ${code}: ${stderr.trim()}`);
    return stdout.trim();
  }

  /** Makes an image from the file system in a folder. */
  async importFolder(folder, tag) {
    const file = join(this.#folder, 'import.tar');
    await run('tar', ['-C', folder, '-cf', file, '.']);
    await this.do('import', file, tag);
    rmSync(file);
  }

  /** Builds an image. */
  build(tag, context, containerfile, buildArguments = {}) {
    const flags = [...BUILD_FLAGS, '--format', 'docker', ...argumentFlags(buildArguments)];
    return this.do('build', ...flags, '--tag', tag, '--file', containerfile, context);
  }

  /** Starts a container in the background. */
  start(name, flags, image, command) {
    return this.do('run', '--detach', '--name', name, ...NETWORK, ...LIMITS, ...flags, image, ...command);
  }

  /** Runs a container to its end, and returns its output and exit code. */
  once(flags, image, command, network = NETWORK) {
    return this.try('run', '--rm', ...network, ...LIMITS, ...flags, image, ...command);
  }

  /** Writes a program `podman` that adds the flags of this class, for commands of the documentation. */
  writeProgram(path, buildArguments) {
    const build = ['build', ...BUILD_FLAGS, ...argumentFlags(buildArguments)].join(' ');
    const run = ['run', ...NETWORK, ...LIMITS].join(' ');
    const script = `\
#!/bin/sh
verb=$1
shift
case $verb in
  build) exec /usr/bin/podman ${this.#flags.join(' ')} ${build} "$@" ;;
  run) exec /usr/bin/podman ${this.#flags.join(' ')} ${run} "$@" ;;
  *) exec /usr/bin/podman ${this.#flags.join(' ')} "$verb" "$@" ;;
esac
`;
    writeFileSync(path, script, { mode: 0o755 });
  }

  /** Removes all containers, volumes and images. */
  async close() {
    await this.try('rm', '--all', '--force', '--time', '0');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #exec(args) {
    return run('podman', [...this.#flags, ...args], { maxBuffer: MAX_OUTPUT_BYTES });
  }
}

function argumentFlags(buildArguments) {
  return Object.entries(buildArguments).flatMap(([name, value]) => ['--build-arg', `${name}=${value}`]);
}

/** Not in /tmp, which may be in memory, and where systemd removes old files, such as those of npm packages. */
function newFolder() {
  mkdirSync(cacheFolder(), { recursive: true });
  return mkdtempSync(join(cacheFolder(), 'image-'));
}
