import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import {
  type AgentTools,
  type ApprovalRequest,
  createAgentTools,
  type ToolResult,
} from '../../src/agent/toolset/index.ts';
import { ExecServerClient } from '../../src/client/client.ts';
import { LocalEnvironment } from '../../src/environment/index.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import { openToolBench, type ToolBench } from '../support/agent-tools.ts';

let bench: ToolBench;

beforeAll(async () => {
  bench = await openToolBench();
});

afterAll(() => bench?.close());

async function call(name: string, args: unknown, tools: AgentTools = bench.tools): Promise<ToolResult> {
  return tools.tool(name)!.call(args);
}

test('definitions are flat schemas without unions, and every required argument exists', () => {
  const { tools } = bench;
  expect(tools.tools.map(({ name }) => name)).toEqual([
    'exec_command',
    'write_stdin',
    'wait_process',
    'read_output',
    'list_processes',
    'kill_process',
    'read_file',
    'write_file',
    'edit_file',
    'list_directory',
    'search_files',
  ]);
  for (const { parameters, title, description } of tools.tools) {
    expect(Object.keys(parameters).sort()).toEqual([
      'additionalProperties',
      'properties',
      'required',
      'type',
    ]);
    expect(Object.keys(parameters.properties)).toEqual(expect.arrayContaining([...parameters.required]));
    expect(parameters.properties).not.toHaveProperty('environment');
    for (const property of Object.values(parameters.properties)) {
      expect(['string', 'integer', 'boolean']).toContain(property.type);
      expect(property.description).toMatch(/^[A-Z].*[.]$/s);
    }
    expect(title.length).toBeLessThan(40);
    expect(description.length).toBeLessThan(400);
  }
});

test.each<[string, unknown, RegExp]>([
  ['exec_command', {}, /^The argument "cmd" is missing\.$/],
  ['exec_command', [], /^The arguments must be an object, not an array\.$/],
  ['exec_command', '{"cmd":', /^The arguments are not JSON: /],
  ['exec_command', { cmd: 1 }, /^The argument "cmd" must be a string, not 1\.$/],
  ['exec_command', { cmd: 'true', yield_time_ms: -1 }, /must be at least 0, not -1/],
  ['exec_command', { cmd: 'true', tty: 'yes' }, /^The argument "tty" must be true or false, not "yes"\.$/],
  [
    'exec_command',
    { cmd: 'true', work_dir: '.' },
    /^There is no argument "work_dir"\. Did you mean 'workdir'\?$/,
  ],
  ['exec_command', { cmd: 'true', name: 'a b' }, /name/],
  [
    'wait_process',
    { process: 'none' },
    /^The environment "box" has no process "none"\..* list_processes shows/,
  ],
  ['exec_command', { cmd: ' ' }, /^"cmd" is empty\./],
  ['exec_command', { cmd: 'true', timeout: 1, timeout_ms: 1 }, /^Pass "timeout" in seconds or "timeout_ms"/],
  ['wait_process', { process: 'x', pattern: '[', regex: true }, /^The pattern is not a regular expression: /],
  [
    'read_output',
    { process: 'x', cursor: 'abc', tail_lines: 1 },
    /^Pass "cursor" or "tail_lines", not both\.$/,
  ],
  ['kill_process', { process: 'x', signal: '; rm' }, /is not a signal/],
  ['search_files', {}, /^Pass "pattern"/],
  ['search_files', { glob: '[' }, /^The glob is not valid: /],
  ['read_file', { path: 'a\0b' }, /NUL/],
  ['edit_file', { path: 'x', old_text: '', new_text: 'y' }, /^"old_text" is empty\. .*write_file/],
])('%s of %j is refused with a text for the model', async (name, args, text) => {
  const result = await call(name, args);
  expect(result).toMatchObject({ isError: true, resources: [] });
  expect(result.text).toMatch(text);
  expect(result.structured.error).toBe(result.text);
});

test('accepts JSON text, null for absent, and numbers and booleans as text', async () => {
  const args = '{"cmd": "echo $0", "login": "false", "yield_time_ms": "5000", "workdir": null}';
  expect((await call('exec_command', args)).structured).toMatchObject({ exit_code: 0 });
});

test('refuses a cursor that is not one, or that belongs to another process', async () => {
  const { structured } = await call('exec_command', { cmd: 'true', login: false });
  const process = structured.process as string;
  expect((await call('read_output', { process, cursor: 'abc' })).text).toContain('"abc" is not a cursor.');
  const other = await call('exec_command', { cmd: 'true', login: false });
  const cursor = other.structured.next_cursor as string;
  expect((await call('read_output', { process, cursor })).text).toContain('belongs to another process than');
  const late = cursor.replace(/^\w+-\d+/, `${process.slice(0, 4)}-9999`);
  expect((await call('read_output', { process, cursor: late })).text).toContain(
    'it belongs to another process',
  );
});

test('fifty concurrent calls all answer', async () => {
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, index) => call('exec_command', { cmd: `echo ${index}`, login: false })),
  );
  expect(results.map(({ structured }) => structured.output)).toEqual(
    Array.from({ length: 50 }, (_, index) => `${index}\n`),
  );
});

test('several environments add an argument, and an unknown one is refused', async () => {
  const other = await openToolBench();
  onTestFinished(() => other.close());
  const tools = createAgentTools({
    environments: [
      { name: 'one', environment: bench.client },
      { name: 'two', environment: other.client },
    ],
  });
  expect(tools.tool('read_file')!.parameters.properties.environment).toMatchObject({ enum: ['one', 'two'] });
  const started = await call('exec_command', { cmd: 'true', login: false, environment: 'two' }, tools);
  expect(started.structured).toMatchObject({ environment: 'two', exit_code: 0 });
  const { process } = started.structured;
  const listed = await call('list_processes', { environment: 'two' }, tools);
  expect(listed.text).toMatch(/^Next: .* Pass environment "two"\.$/m);
  expect(listed.structured.next).toMatch(/ Pass environment "two"\.$/);
  expect((await call('read_output', { process, environment: 'two' }, tools)).isError).toBe(false);
  expect((await call('read_output', { process }, tools)).text).toContain(
    'The environment "one" has no process',
  );
  const unknown = await call('exec_command', { cmd: 'true', environment: 'three' }, tools);
  expect(unknown.text).toBe('The argument "environment" must be one of "one", "two", not "three".');
});

test('each environment can have roots of its own', async () => {
  const environment = bench.client;
  const tools = createAgentTools({
    environments: [
      { name: 'one', environment },
      { name: 'two', environment, roots: ['/usr'] },
    ],
    roots: [bench.root],
  });
  const pwd = async (name: string) =>
    (await call('exec_command', { cmd: 'pwd', login: false, environment: name }, tools)).structured.output;
  expect([await pwd('one'), await pwd('two')]).toEqual([`${bench.root}\n`, '/usr\n']);
  tools.setRoots(['/'], 'one');
  expect([await pwd('one'), await pwd('two')]).toEqual(['/\n', '/usr\n']);
  tools.setRoots(['/tmp']);
  expect([await pwd('one'), await pwd('two')]).toEqual(['/tmp\n', '/tmp\n']);
  expect(() => tools.setRoots(['/'], 'three')).toThrow('There is no environment "three"');
});

test('read-only tools do not list the others', async () => {
  const tools = await bench.another({ readOnly: true });
  expect(tools.tools.every(({ annotations }) => annotations.readOnlyHint)).toBe(true);
  expect(tools.tools.map(({ name }) => name)).toEqual([
    'wait_process',
    'read_output',
    'list_processes',
    'read_file',
    'list_directory',
    'search_files',
  ]);
  expect(tools.tool('exec_command')).toBeUndefined();
  expect(await tools.call('exec_command', { cmd: 'true' })).toMatchObject({
    isError: true,
    text: expect.stringContaining('exec_command is not available here: only tools that read are.'),
  });
});

test('an approval decides about calls that change something, before they do', async () => {
  const requests: ApprovalRequest[] = [];
  const tools = await bench.another({
    approve: async (request) => {
      requests.push(request);
      if (request.tool === 'exec_command') throw new Error('the dialog broke');
      return { approved: false, reason: 'not on Fridays' };
    },
  });
  const declined = await call('write_file', { path: 'declined.txt', content: 'x' }, tools);
  expect(declined).toMatchObject({ isError: true, structured: { declined: true } });
  expect(declined.text).toContain('The user declined this call: not on Fridays.');
  expect((await call('exec_command', { cmd: 'touch declined.txt' }, tools)).text).toContain(
    'the dialog broke',
  );
  expect((await call('list_directory', {}, tools)).text).not.toContain('declined.txt');
  expect(requests.map(({ tool, summary, environment }) => [tool, summary, environment])).toEqual([
    ['write_file', 'write declined.txt', 'box'],
    ['exec_command', 'touch declined.txt', 'box'],
  ]);
});

test('a server that is killed ends the calls with an answer', async () => {
  const server = await startServerProcess();
  onTestFinished(() => server.close());
  const client = await ExecServerClient.connect({ url: server.url, recoveryWindowMs: 0 });
  onTestFinished(() => client.close());
  const tools = createAgentTools({ environments: [{ name: 'gone', environment: client }] });
  const waiting = call('exec_command', { cmd: 'sleep 60', login: false }, tools);
  await expect.poll(async () => (await client.processes.list()).length).toBe(1);
  server.process.kill('SIGKILL');
  for (const result of [await waiting, await call('list_directory', {}, tools)]) {
    expect(result.isError).toBe(true);
    expect(result.text).toMatch(/"gone" cannot be reached: .* Try again/);
  }
});

test('a connection that is lost leaves the state of a program unknown', async () => {
  const server = await startServerProcess();
  onTestFinished(() => server.close());
  const client = await ExecServerClient.connect({ url: server.url });
  onTestFinished(() => client.close());
  const tools = createAgentTools({ environments: [{ name: 'gone', environment: client }] });
  const command = { cmd: 'echo begun; sleep 60', login: false, yield_time_ms: 250 };
  const { structured } = await call('exec_command', command, tools);
  const { process } = structured;
  const lost = await tools.call(
    'wait_process',
    { process, timeout_ms: 2_500 },
    { onProgress: () => server.process.kill('SIGKILL') },
  );
  expect(lost).toMatchObject({ isError: true, structured: { state: 'unknown', happened: 'disconnected' } });
  expect(lost.text).toMatch(/^The connection to the server of process \w+ is lost\. The state .* is unknown/);
  expect(lost.text).not.toMatch(/still runs|is running/);
  const later = await call('wait_process', { process, timeout_ms: 0 }, tools);
  expect(later.isError).toBe(true);
  // A call that does not wait gets 2 s in all, less what passed before this request.
  expect(later.text).toMatch(
    /"gone" cannot be reached: .* longer than (2000|1\d{3}) ms.*The state .* is unknown/s,
  );
});

test('closing ends calls that wait, and later calls are refused', async () => {
  const tools = await bench.another();
  const waiting = call('exec_command', { cmd: 'sleep 60', login: false, name: 'left-alone' }, tools);
  await expect.poll(async () => (await call('list_processes', {})).text).toContain('left-alone');
  await tools.close();
  expect((await waiting).text).toContain('The call was cancelled.');
  expect((await call('exec_command', { cmd: 'true' }, tools)).text).toContain('The tools are closed.');
  const { structured } = await call('kill_process', { process: 'left-alone' });
  expect(structured).toMatchObject({ ended: true });
});

test('a call that is cancelled before it begins is an answer', async () => {
  const signal = AbortSignal.abort();
  for (const [name, args] of [
    ['exec_command', { cmd: 'true' }],
    ['read_file', { path: 'x' }],
  ] as const) {
    const result = await bench.tools.call(name, args, { signal });
    expect(result).toMatchObject({ isError: true, structured: { cancelled: true } });
  }
});

test('work in an environment of this process', async () => {
  const environment = new LocalEnvironment();
  onTestFinished(() => environment.dispose());
  const tools = createAgentTools({ environments: [{ name: 'here', environment }], roots: [bench.root] });
  const { structured } = await call(
    'exec_command',
    { cmd: 'pwd; read x; echo "got $x"', tty: true, login: false, yield_time_ms: 250 },
    tools,
  );
  expect(structured).toMatchObject({ state: 'running', output: `${bench.root}\n` });
  const { process } = structured;
  const typed = await call('write_stdin', { process, chars: 'it\n', yield_time_ms: 5000 }, tools);
  expect(typed.structured).toMatchObject({ exit_code: 0, output: 'it\ngot it\n' });
});

test('a sandbox that the server cannot enforce refuses programs and file tools', async () => {
  vi.stubEnv('PATH', '/nonexistent');
  onTestFinished(() => void vi.unstubAllEnvs());
  const { tools, close } = await openToolBench({ sandbox: 'workspace-write' });
  onTestFinished(close);
  for (const [name, args] of [
    ['exec_command', { cmd: 'true', login: false }],
    ['read_file', { path: 'x' }],
  ] as const) {
    const { text, isError, structured } = await call(name, args, tools);
    expect(isError).toBe(true);
    expect(structured.kind).toBe('sandboxUnavailable');
    expect(text).toMatch(/cannot be sandboxed on this machine: .*exec-server doctor/s);
  }
});
