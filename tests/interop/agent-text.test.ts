import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import { AgentExec, type ExecCommandArguments } from '../../src/agent/index.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { scenarios } from './scenarios.ts';

const COMMANDS: readonly ExecCommandArguments[] = [
  { cmd: 'echo hi; exit 3' },
  { cmd: 'true' },
  { cmd: 'seq 1 20000' },
  { cmd: 'seq 1 1000', max_output_tokens: 50 },
  { cmd: 'seq 1 1000', max_output_tokens: 0 },
  { cmd: 'printf "%s" "ééééééééé€€€€€€€€€€😀😀😀😀😀😀"', max_output_tokens: 9 },
  { cmd: 'printf "a\\377b\\n"' },
  { cmd: 'seq 1 400000' },
  { cmd: 'seq 1 400000', max_output_tokens: 50 },
  { cmd: 'echo "$TERM|$LANG|$LC_ALL|$LC_CTYPE|$NO_COLOR|$COLORTERM|$PAGER|$GIT_PAGER|$GH_PAGER|$CODEX_CI"' },
  { cmd: 'pwd', workdir: '/' },
  { cmd: 'test -t 1 && stty size', tty: true },
  { cmd: 'echo waiting; sleep 1000', yield_time_ms: 1_000 },
];

/** Replaces what differs from run to run. */
function steady(text: string): string {
  return text
    .replace(/^Chunk ID: [0-9a-f]{6}$/m, 'Chunk ID: x')
    .replace(/^Wall time: \d+\.\d{4} seconds$/m, 'Wall time: x')
    .replace(/session ID \d+$/m, 'session ID x');
}

scenarios('what a model reads', (scenario) => {
  scenario('is identical from codex and from this layer', async (world) => {
    const run = await world.codex();
    const client = await ExecServerClient.connect({ url: world.tap.url });
    const shell = { name: 'bash', path: '/bin/bash' };
    const cwd = pathToFileURL(run.workspace).href;
    const exec = new AgentExec({ targets: [{ id: 'remote', backend: client.backend, shell, cwd }] });
    try {
      for (const { cmd, ...args } of COMMANDS) {
        const theirs = await run.exec(cmd, args);
        const ours = await exec.execCommand({ cmd, ...args }, { callId: 'c' });
        expect(steady(ours.text), cmd).toBe(steady(theirs.text));
      }
    } finally {
      await exec.close();
      await client.close();
    }
    await run.finish();
  });
});
