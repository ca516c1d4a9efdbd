import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { CodexRun } from './codex-client.ts';
import { scenarios } from './scenarios.ts';
import type { WireTap } from './wire-tap.ts';

scenarios('files', (scenario) => {
  scenario('codex reads instructions in the workspace', async (world) => {
    const { tap } = world;
    const run = await world.codex({ files: { 'AGENTS.md': 'Answer in rhymes.\n' } });
    expect(await run.conversation()).toContain('Answer in rhymes.');
    const read = tap.call('fs/readFile');
    expect(read.params.path).toBe(uri(run, 'AGENTS.md'));
    expect(tap.answerTo(read)?.result).toEqual({ dataBase64: base64('Answer in rhymes.\n') });
    await run.finish();
    expectNoSandbox(tap);
  });

  scenario('codex finds skills that appear in the workspace', async (world) => {
    const { tap } = world;
    const run = await world.codex();
    await run.conversation();
    const watch = await tap.waitFor(({ method }) => method === 'fs/watchMissing', 'fs/watchMissing');
    expect(watch.params.missing).toContain(uri(run, '.agents/skills'));
    const isAnswer = ({ from, id }: { from: string; id: unknown }) => from === 'server' && id === watch.id;
    expect(await tap.waitFor(isAnswer, 'the answer to it')).toMatchObject({ result: { watching: true } });
    mkdirSync(join(run.workspace, '.agents/skills'), { recursive: true });
    const changed = await tap.waitFor(({ method }) => method === 'fs/missingChanged', 'fs/missingChanged');
    expect(changed.params).toEqual({ watchId: watch.params.watchId });
    await run.finish();
  });

  scenario('a patch that adds, updates, deletes and moves', async (world) => {
    const { tap } = world;
    const run = await world.codex({
      files: { updated: 'one\ntwo\nthree\n', deleted: 'x\n', moved: 'a\nb\n' },
    });
    const added = await run.applyPatch('*** Add File: new/folder/added', '+hello', '+zoé');
    expect(added.output).toBe('Success. Updated the following files:\nA new/folder/added\n');
    const changed = await run.applyPatch(
      ...['*** Update File: updated', '@@', ' one', '-two', '+2', ' three'],
      '*** Delete File: deleted',
      ...['*** Update File: moved', '*** Move to: there/again', '@@', ' a', '-b', '+B'],
    );
    expect(changed.output).toBe(
      'Success. Updated the following files:\nM updated\nM there/again\nD deleted\n',
    );
    expect(content(run, 'new/folder/added')).toBe('hello\nzoé\n');
    expect(content(run, 'updated')).toBe('one\n2\nthree\n');
    expect(content(run, 'there/again')).toBe('a\nB\n');
    expect(['deleted', 'moved'].filter((name) => existsSync(join(run.workspace, name)))).toEqual([]);
    await run.finish();
    expect(tap.calls('fs/remove').map(({ params }) => params)).toMatchObject([
      { path: uri(run, 'deleted'), recursive: false, force: false },
      { path: uri(run, 'moved'), recursive: false, force: false },
    ]);
    expectNoSandbox(tap);
  });

  scenario('a patch that does not apply', async (world) => {
    const run = await world.codex({ files: { old: 'one\n' } });
    const missing = await run.applyPatch('*** Update File: none', '@@', '-x', '+y');
    expect(missing.text).toContain(`${join(run.workspace, 'none')}: No such file or directory (os error 2)`);
    mkdirSync(join(run.workspace, 'folder'));
    const folder = await run.applyPatch('*** Delete File: folder');
    expect(folder.text).toContain(`path \`${join(run.workspace, 'folder')}\` is not a file`);
    const other = await run.applyPatch('*** Update File: old', '@@', '-two', '+2');
    expect(other.text).toContain('Failed to find expected lines');
    expect(content(run, 'old')).toBe('one\n');
    await run.finish();
  });

  scenario('an image', async (world) => {
    const { tap } = world;
    const run = await world.codex({ files: { 'dot.png': Buffer.from(PNG, 'base64') } });
    const shown = await run.viewImage('dot.png');
    expect(shown.text).toContain(`data:image/png;base64,${PNG}`);
    const missing = await run.viewImage('none.png');
    expect(missing.text).toContain(
      `${join(run.workspace, 'none.png')}\`: No such file or directory (os error 2)`,
    );
    await run.finish();
    expect(tap.call('fs/readFile').params.path).toBe(uri(run, 'dot.png'));
    expectNoSandbox(tap);
  });
});

/** One pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** With full access codex requests no sandbox: it sends null, or a disabled sandbox. */
function expectNoSandbox(tap: WireTap): void {
  const calls = tap.messages.filter(({ from, method }) => from === 'client' && method?.startsWith('fs/'));
  const kinds = calls.map(({ params }) => {
    const sandbox = params.sandbox as { permissions: { type: string } } | null | undefined;
    return sandbox?.permissions.type ?? 'none';
  });
  expect(kinds.filter((kind) => !['none', 'disabled'].includes(kind))).toEqual([]);
  expect(kinds.length).toBeGreaterThan(0);
}

function uri(run: CodexRun, name: string): string {
  return `file://${run.workspace}/${name}`;
}

function content(run: CodexRun, name: string): string {
  return readFileSync(join(run.workspace, name), 'utf8');
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
