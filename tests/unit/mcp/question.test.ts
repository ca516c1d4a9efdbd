import { expect, test } from 'vitest';
import type { AgentToolName } from '../../../src/agent/toolset/index.ts';
import { questionText } from '../../../src/mcp/question.ts';

function question(
  tool: AgentToolName,
  args: Readonly<Record<string, unknown>>,
  directory: string | null = '/work dir',
  summary = '',
): string {
  const { signal } = new AbortController();
  const request = { tool, title: 'T', callId: 'c', environment: 'local', summary, arguments: args, signal };
  return questionText(request, directory);
}

test.each<[Readonly<Record<string, string>>, string | null, string]>([
  [{ cmd: 'rm -rf *', workdir: '/x' }, '/w', 'T (local) in /x: rm -rf *'],
  [{ cmd: 'make' }, '/w', 'T (local) in /w: make'],
  [{ cmd: 'make', workdir: '../b' }, '/w/a', 'T (local) in /w/b: make'],
  [{ cmd: 'make' }, null, 'T (local) in the default directory: make'],
  [{ cmd: 'make', workdir: 'a' }, null, 'T (local) in a in the default directory: make'],
  [{ cmd: 'make', workdir: '/x: true #' }, '/w', 'T (local) in "/x: true #": make'],
  [{ cmd: 'ls\nrm -rf ~' }, '/w', 'T (local) in /w: "ls\\nrm -rf ~"'],
  [{ cmd: 'rm x\r\u001b[2Kls' }, '/w', 'T (local) in /w: "rm x\\r\\u001b[2Kls"'],
  [{ cmd: 'ls \u202exr\u202c' }, '/w', 'T (local) in /w: "ls \\u202exr\\u202c"'],
])('a command %j is asked about with its directory', (args, directory, expected) => {
  expect(question('exec_command', args, directory)).toBe(expected);
});

test('a long command is shown with its end', () => {
  const text = question('exec_command', { cmd: `: ${'x'.repeat(100_000)}; rm -rf ~` });
  expect(text).toMatch(/xxx … \[98012 characters are not shown\] … xxx.*; rm -rf ~$/);
  expect(text.length).toBeLessThan(2_200);
});

test('a file that is written is shown with its size, its beginning and its end', () => {
  const content = `#!/bin/sh\n${'é'.repeat(1_000)}\nend`;
  expect(question('write_file', { path: 'a.sh', content })).toMatch(
    /^T \(local\): write "\/work dir\/a\.sh"\nwith 2014 bytes: "#!\/bin\/sh\\né+" … \[514 characters are not shown\] … "é+\\nend"$/,
  );
});

test('an edit is shown with both texts', () => {
  expect(question('edit_file', { path: '/a', old_text: 'x', new_text: 'y\n', replace_all: true })).toBe(
    'T (local): edit /a\nreplace each occurrence of 1 byte: "x"\nby 2 bytes: "y\\n"',
  );
});

test('what is typed, and summaries of other tools, have no characters that cannot be seen', () => {
  expect(question('write_stdin', { process: 'p', chars: 'y\n\u202e' })).toBe(
    'T (local): type "y\\n\\u202e" into p',
  );
  expect(question('kill_process', {}, null, 'end a\nb')).toBe('T (local): "end a\\nb"');
});
