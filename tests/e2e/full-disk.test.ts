import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { CommandUser } from '../support/private-server.ts';
import { CLI } from '../unit/cli/run-cli.ts';

const user = new CommandUser();
afterAll(() => user.close());

const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

/** Runs a script in the folder of the user, where `disk` has 1 MiB. `x` is exec-server; it prints its exit code at the end. */
function onSmallDisk(script: string): string {
  const source = join(user.workspace.path, 'src');
  mkdirSync(join(source, 'sub'), { recursive: true });
  mkdirSync(join(user.workspace.path, 'disk'), { recursive: true });
  writeFileSync(join(source, 'big'), new Uint8Array(3_000_000));
  writeFileSync(join(source, 'sub', 'small'), 'small');
  const all = `
    x() { ${process.execPath} ${CLI} "$@" 2>&1; echo "exit $?"; }
    until_there() { until [ -e "$1" ]; do sleep 0.05; done; }
    mount -t tmpfs -o size=1m none disk
    disk=local:$PWD/disk
    src=local:$PWD/src
    ${script}
    kill $(sed 's/.*"pid":\\([0-9]*\\).*/\\1/' ${join(user.folder, 'server.json')})`;
  const { stdout } = spawnSync('unshare', ['-rm', '--propagation', 'private', 'sh', '-c', all], {
    encoding: 'utf8',
    cwd: user.workspace.path,
    env: { ...user.env, PATH: process.env.PATH, HOME: user.workspace.path },
    timeout: 60_000,
  });
  return stdout.replaceAll(user.workspace.path, 'DIR');
}

test.skipIf(!mayMount)('a full disk: one line says so, and nothing is half written', () => {
  const state = 'find disk -mindepth 1 | sort | tr "\\n" " "; echo';
  expect(
    onSmallDisk(`
      echo old > disk/big
      x cp src/big $disk/big; x cp $src/big disk; cat disk/big
      rm disk/big
      x sync src $disk/up; x sync $src disk/down
      ${state}
      cat /dev/zero > disk/fill 2>/dev/null
      x cp src/sub/small $disk/small; x cp $src/sub/small disk
      x sync src $disk/up2; ${state}`),
  ).toBe(`\
exec-server: cannot upload to DIR/disk/big: No space left on device; free some space there
exit 125
exec-server: cannot write DIR/disk/big of this machine: no space left on device; free some space
exit 125
old
exec-server sync: big: no space left on the disk of local:DIR/disk/up; free some space there
1 file copied (5 B), 1 directory created, 1 failed
exit 125
exec-server sync: big: no space left on the disk of disk/down; free some space there
1 file copied (5 B), 1 directory created, 1 failed
exit 125
disk/down disk/down/sub disk/down/sub/small disk/up disk/up/sub disk/up/sub/small 
exec-server: cannot upload to DIR/disk/small: No space left on device; free some space there
exit 125
exec-server: cannot write DIR/disk/small of this machine: no space left on device; free some space
exit 125
exec-server sync: big and 1 more: no space left on the disk of local:DIR/disk/up2; free some space there
0 files copied, 1 directory created, 2 failed
exit 125
disk/down disk/down/sub disk/down/sub/small disk/fill disk/up disk/up/sub disk/up/sub/small disk/up2 disk/up2/sub 
`);
});

test.skipIf(!mayMount)('export says that a recording does not fit, also where its end fits in part', () => {
  const output = onSmallDisk(`
    ${process.execPath} ${CLI} run --record --name job -- seq 1 400000 > numbers
    { ${process.execPath} ${CLI} export job > disk/out; } 2>&1; echo "exit $?"`);
  expect(output).toBe('exec-server: cannot write to stdout: no space left on device\nexit 125\n');
});

test.skipIf(!mayMount)('sync --watch tries again after the next change', () => {
  const output = onSmallDisk(`
    rm src/big
    cat /dev/zero > disk/fill 2>/dev/null
    ${process.execPath} ${CLI} sync --watch src $disk/up > log 2>&1 &
    until grep -q "1 failed" log; do sleep 0.05; done
    grep -o "sub/small: no space left" log
    rm disk/fill; echo next > src/next
    until_there disk/up/next; until_there disk/up/sub/small; cat disk/up/sub/small
    kill $!; wait $!; echo " exit $?"`);
  expect(output).toBe('sub/small: no space left\nsmall exit 0\n');
});

test.skipIf(!mayMount)('run says that its output does not fit, after as much of it as fits', () => {
  expect(
    onSmallDisk(`
      x run -- true
      { ${process.execPath} ${CLI} run -- head -c 3000000 /dev/zero > disk/out; } 2>&1; echo "exit $?"
      stat -c %s disk/out; rm disk/out`),
  ).toMatch(
    /^exit 0\nexec-server: cannot write to stdout: no space left on device; the program (is ended|has exited with 141)\nexit 125\n1048576\n$/,
  );
});

test.skipIf(!mayMount)('run -d names the program that it has started when the reference does not fit', () => {
  expect(
    onSmallDisk(`
      cat /dev/zero > disk/fill 2>/dev/null
      { ${process.execPath} ${CLI} run -d --name job -- cat > disk/out; } 2>&1; echo "exit $?"`),
  ).toBe(
    "exec-server: cannot write to stdout: no space left on device; the program runs: 'exec-server attach job' attaches to it\nexit 125\n",
  );
});
