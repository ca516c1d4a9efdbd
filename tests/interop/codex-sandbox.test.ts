import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'vitest';
import { scenarios } from './scenarios.ts';

scenarios('sandbox', (scenario) => {
  scenario('a writable workspace', async (world) => {
    const run = await world.codex({ sandbox: 'workspace-write' });
    const inside = await run.exec('echo inside > made && cat made');
    expect(inside).toMatchObject({ exitCode: 0, output: 'inside\n' });
    const outside = await run.exec(`echo outside > ${join(dirname(run.workspace), 'made')}`);
    expect(outside.exitCode).not.toBe(0);
    const patch = await run.applyPatch('*** Add File: patched', '+text');
    expect(patch.output).toContain('A patched');
    await run.finish();
    expect(readFileSync(join(run.workspace, 'made'), 'utf8')).toBe('inside\n');
    expect(readFileSync(join(run.workspace, 'patched'), 'utf8')).toBe('text\n');
    expect(existsSync(join(dirname(run.workspace), 'made'))).toBe(false);
    expect(readdirSync(run.workspace).sort()).toEqual(['made', 'patched']);
    for (const start of world.tap.calls('process/start')) {
      expect(start.params.sandbox).toMatchObject({ permissions: { type: 'managed' } });
      expect(world.tap.answerTo(start)?.result).toMatchObject({ sandboxType: 'linuxSeccomp' });
    }
  });

  scenario('a read-only sandbox', async (world) => {
    const run = await world.codex({ sandbox: 'read-only', files: { given: 'given\n' } });
    expect(await run.exec('cat given')).toMatchObject({ exitCode: 0, output: 'given\n' });
    expect((await run.exec('echo new > given')).exitCode).not.toBe(0);
    expect((await run.exec('python3 -c "import socket; socket.socket()"')).exitCode).not.toBe(0);
    await run.finish();
    expect(readFileSync(join(run.workspace, 'given'), 'utf8')).toBe('given\n');
    expect(readdirSync(run.workspace)).toEqual(['given']);
  });

  scenario('a terminal in a sandbox', async (world) => {
    const run = await world.codex({ sandbox: 'workspace-write' });
    const shell = await run.exec('read line; echo "got $line"', { tty: true, yield_time_ms: 250 });
    expect(shell.sessionId).not.toBeNull();
    const done = await run.writeStdin(shell.sessionId, 'hello\n', 2_000);
    expect(done.output).toContain('got hello');
    await run.finish();
  });
});
