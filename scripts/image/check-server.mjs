// The server in a container: user, files, volumes, health, sandbox, logs, stop.
import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort, untilReady, withCommandLine } from './commands.mjs';

const TOKEN = '0123456789abcdef0123456789abcdef0123456789ab';
/** As strict as a container can be. */
const HARDENED = ['--read-only', '--cap-drop=all', '--security-opt', 'no-new-privileges'];
const UNMASKED = ['--security-opt', 'unmask=ALL'];

export async function checkServer(podman, image, report) {
  const tokenFile = secretFile(podman, 'token', TOKEN);
  const token = ['--volume', `${tokenFile}:/run/secrets/exec-server-token:ro`];
  const volumes = ['--volume', 'workspace:/workspace', '--volume', 'state:/var/lib/exec-server'];

  await report('server: does not start without a token', async () => {
    const { code, stderr } = await podman.once([], image, []);
    assert.notEqual(code, 0);
    assert.match(stderr, /exec-server-token/);
  });

  await inServer(podman, image, [...HARDENED, ...token, ...volumes], report, async (name, run) => {
    await report('server: runs programs as a user without privileges', async () => {
      const { code, stdout } = await run(
        '--',
        'sh',
        '-c',
        'id -u; pwd; grep CapEff /proc/self/status; exit 7',
      );
      assert.deepEqual([code, stdout], [7, '10001\n/workspace\nCapEff:\t0000000000000000\n']);
    });
    await report('server: has git, ripgrep and bubblewrap', async () => {
      const { code, stderr } = await run(
        '--',
        'sh',
        '-c',
        'git --version && rg --version && bwrap --version',
      );
      assert.equal(code, 0, stderr);
    });
    await report('server: writes to its volumes, and nowhere else', async () => {
      const script =
        'echo kept >/workspace/file && echo kept >~/file && touch /tmp/file && ! touch /opt/file';
      const { code, stderr } = await run('--', 'sh', '-c', script);
      assert.deepEqual([code, stderr], [0, "touch: cannot touch '/opt/file': Read-only file system\n"]);
    });
    await report('server: has no zombies of orphaned programs', async () => {
      await run('--', 'sh', '-c', '(setsid sleep 0.01 &)');
      const { stdout } = await run('--', 'sh', '-c', 'sleep 0.2; grep -lw "State:.Z" /proc/[0-9]*/status');
      assert.equal(stdout, '');
    });
    await report('server: its entry point works below another init', async () => {
      const { code, stderr } = await podman.try('exec', name, 'tini', '-s', '--', 'exec-server', 'version');
      assert.deepEqual([code, stderr], [0, '']);
    });
    await report('server: refuses a sandbox in a container with a masked /proc', async () => {
      const { code, stdout, stderr } = await run('--sandbox', 'read-only', '--', 'echo', 'not confined');
      assert.deepEqual([code, stdout], [125, '']);
      assert.match(stderr, /podman run --security-opt unmask=ALL/);
    });
    await report('server: doctor names the flag that the container needs', async () => {
      const { code, stdout } = await podman.try('exec', name, 'exec-server', 'doctor');
      assert.equal(code, 1);
      assert.match(stdout, /✗ processes .*mount proc[\s\S]*-> .*podman run --security-opt unmask=ALL/);
    });
    await report('server: health check', () => isHealthy(podman, name));
    await report('server: stops with grace', () => checkStop(podman, name, run));
  });

  await inServer(
    podman,
    image,
    ['--init', ...HARDENED, ...UNMASKED, ...token, ...volumes],
    report,
    async (name, run) => {
      await report('server: runs below the init of podman run --init', async () => {
        const { stdout } = await run('--', 'sh', '-c', "tr '\\0' ' ' </proc/1/cmdline");
        assert.match(stdout, /init -- \/usr\/bin\/tini -s -- exec-server serve /);
        const { stderr } = await podman.try('logs', name);
        assert.doesNotMatch(stderr, /tini/i);
      });
      await report('server: volumes keep files', async () => {
        const { stdout } = await run('--', 'sh', '-c', 'cat /workspace/file ~/file /workspace/ended');
        assert.equal(stdout, 'kept\nkept\nended by SIGTERM\n');
      });
      await report('server: confines programs in a container with an unmasked /proc', async () => {
        const { code, stderr } = await run('--sandbox', 'read-only', '--', 'touch', '/workspace/other');
        assert.equal(code, 1);
        assert.match(stderr, /Read-only file system/);
      });
      await report('server: doctor finds sandboxes reliable', async () => {
        const { code, stdout } = await podman.try('exec', name, 'exec-server', 'doctor');
        assert.equal(code, 0, stdout);
      });
      await report('server: is unhealthy while it drains', () => checkUnhealthy(podman, name, run));
      await report('server: stops below another init', async () => {
        await podman.do('stop', '--time', '20', name);
        assert.equal(await podman.do('inspect', name, '--format', '{{.State.ExitCode}}'), '0');
      });
    },
  );

  await report('server: doctor names the seccomp profile that forbids namespaces', async () => {
    const profile = join(podman.folder, 'seccomp.json');
    writeFileSync(profile, JSON.stringify(WITHOUT_NAMESPACES));
    const flags = [...UNMASKED, '--security-opt', `seccomp=${profile}`];
    const { code, stdout } = await podman.once(flags, image, ['doctor']);
    assert.equal(code, 1);
    assert.match(stdout, /✗ user namespaces[\s\S]*-> .*docker run --security-opt seccomp=unconfined/);
  });
}

/** Starts a server in a container, and passes its name and `exec-server run` for it. */
async function inServer(podman, image, flags, report, use) {
  const port = await freePort();
  const name = `server-${port}`;
  const url = `ws://127.0.0.1:${port}`;
  const health = `http://127.0.0.1:${port}/readyz`;
  const auth = ['--ws-auth', 'capability-token', '--ws-token-file', '/run/secrets/exec-server-token'];
  await report('server: starts', async () => {
    const command = ['serve', '--listen', url, ...auth, '--log-level', 'info'];
    await podman.start(name, ['--env', `HEALTH_URL=${health}`, ...flags], image, command);
    await untilReady(health, podman, name);
  });
  await withCommandLine({ EXEC_SERVER_URL: url, EXEC_SERVER_TOKEN: TOKEN }, (command) =>
    use(name, (...args) => command('run', ...args)),
  );
  await podman.do('rm', '--force', '--time', '5', name);
}

async function checkStop(podman, name, run) {
  const script =
    'trap "echo ended by SIGTERM >/workspace/ended; exit" TERM; echo >ready; while :; do sleep 0.01; done';
  await run('--detach', '--', 'sh', '-c', script);
  await run('--', 'sh', '-c', 'until [ -e ready ]; do sleep 0.01; done');
  const startedAt = performance.now();
  await podman.do('stop', '--time', '20', name);
  const seconds = (performance.now() - startedAt) / 1000;
  assert.equal(await podman.do('inspect', name, '--format', '{{.State.ExitCode}}'), '0');
  const { stdout, stderr } = await podman.try('logs', name);
  assert.match(stdout, /^ws:\/\/127\.0\.0\.1:\d+\n$/);
  const lines = stderr.trim().split('\n');
  assert(lines.length > 0 && lines.every((line) => typeof JSON.parse(line).level === 'string'));
  return `exit code 0 after ${seconds.toFixed(1)} s`;
}

/** The health check of a container succeeds. */
export async function isHealthy(podman, name) {
  await podman.do('healthcheck', 'run', name);
  assert.equal(await healthOf(podman, name), 'healthy');
}

/** Nothing but podman asks for the health here: without systemd it has no timers. */
async function checkUnhealthy(podman, name, run) {
  await isHealthy(podman, name);
  await run('--detach', '--', 'sleep', '1000');
  await podman.do('kill', '--signal', 'USR2', name);
  // The image has three tries. Failures of the first seconds do not count.
  for (const deadline = Date.now() + 60_000; (await healthOf(podman, name)) !== 'unhealthy'; ) {
    assert(Date.now() < deadline, 'the container is healthy while the server drains');
    await podman.try('healthcheck', 'run', name);
  }
  const { code } = await podman.try('healthcheck', 'run', name);
  assert.equal(code, 1);
}

function healthOf(podman, name) {
  return podman.do('inspect', name, '--format', '{{.State.Health.Status}}');
}

/** A file that the user of the image can read. */
export function secretFile(podman, name, content) {
  const file = join(podman.folder, name);
  writeFileSync(file, content);
  chmodSync(file, 0o444);
  return file;
}

const EPERM = 1;
const ENOSYS = 38;
const CLONE_NEWUSER = 0x10000000;
/** Forbids what Docker's default profile forbids of what bubblewrap needs. */
const WITHOUT_NAMESPACES = {
  defaultAction: 'SCMP_ACT_ALLOW',
  syscalls: [
    {
      names: ['unshare', 'mount', 'umount2', 'pivot_root', 'setns'],
      action: 'SCMP_ACT_ERRNO',
      errnoRet: EPERM,
    },
    { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: ENOSYS },
    {
      names: ['clone'],
      action: 'SCMP_ACT_ERRNO',
      errnoRet: EPERM,
      args: [{ index: 0, value: CLONE_NEWUSER, valueTwo: CLONE_NEWUSER, op: 'SCMP_CMP_MASKED_EQ' }],
    },
  ],
};
