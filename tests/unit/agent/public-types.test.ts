import { expectTypeOf, test } from 'vitest';
import {
  AgentExec,
  type AgentExecOptions,
  EXEC_COMMAND_TOOL,
  type ExecErrorKind,
  type ExecEvent,
  type ExecTarget,
  type ExecToolError,
  environmentTarget,
  type StdioProgram,
  type ToolDefinition,
  type ToolOutput,
} from '../../../src/agent/index.ts';
import type { Environment, ExecBackend } from '../../../src/environment/index.ts';

test('calls accept objects or JSON text and return a ToolOutput', () => {
  expectTypeOf<AgentExec['execCommand']>().toBeCallableWith({ cmd: 'x' }, { callId: '1' });
  expectTypeOf<AgentExec['execCommand']>().toBeCallableWith('{"cmd":"x"}', { callId: '1' });
  expectTypeOf<AgentExec['execCommand']>().returns.resolves.toEqualTypeOf<ToolOutput>();
  expectTypeOf<AgentExec['writeStdin']>().toBeCallableWith({ session_id: 1 });
  expectTypeOf<AgentExec['writeStdin']>().returns.resolves.toEqualTypeOf<ToolOutput>();
  // @ts-expect-error: a command is missing.
  const incomplete = (exec: AgentExec) => exec.execCommand({}, { callId: '1' });
  expectTypeOf(incomplete).toBeFunction();
});

test('a target has a backend, a shell and a folder', () => {
  expectTypeOf(environmentTarget).toBeCallableWith({} as Environment, { cwd: 'file:///' });
  expectTypeOf(environmentTarget).returns.resolves.toEqualTypeOf<ExecTarget>();
  expectTypeOf<ExecTarget['backend']>().toEqualTypeOf<ExecBackend>();
  expectTypeOf(AgentExec).toBeConstructibleWith({ targets: [] });
  expectTypeOf<NonNullable<AgentExecOptions['onEvent']>>().parameter(0).toEqualTypeOf<ExecEvent>();
});

test('events and errors are discriminated by name', () => {
  expectTypeOf<ExecEvent['type']>().toEqualTypeOf<
    'begin' | 'outputDelta' | 'terminalInteraction' | 'networkDecision' | 'end'
  >();
  expectTypeOf<ExecToolError['kind']>().toEqualTypeOf<ExecErrorKind>();
  expectTypeOf<ExecToolError['output']>().toEqualTypeOf<ToolOutput | null>();
});

test('tools are JSON Schema', () => {
  expectTypeOf(EXEC_COMMAND_TOOL).toEqualTypeOf<ToolDefinition>();
  expectTypeOf<ToolDefinition['parameters']['type']>().toEqualTypeOf<'object'>();
});

test('lines of a program are text', () => {
  expectTypeOf<StdioProgram['lines']>().returns.toExtend<AsyncIterable<string>>();
});
