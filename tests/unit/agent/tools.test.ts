import { describe, expect, test } from 'vitest';
import { parseExecCommand, parseWriteStdin } from '../../../src/agent/arguments.ts';
import {
  EXEC_COMMAND_TOOL,
  execCommandTool,
  WRITE_STDIN_TOOL,
  writeStdinTool,
} from '../../../src/agent/index.ts';

const SAMPLES = { string: 'x', integer: 1000, boolean: true, object: {}, array: ['x'] } as const;

describe('tools', () => {
  test('are plain JSON', () => {
    for (const tool of [EXEC_COMMAND_TOOL, WRITE_STDIN_TOOL]) {
      expect(JSON.parse(JSON.stringify(tool))).toEqual(tool);
    }
  });

  test('have the default arguments', () => {
    expect(EXEC_COMMAND_TOOL).toMatchObject({ name: 'exec_command', parameters: { required: ['cmd'] } });
    expect(Object.keys(EXEC_COMMAND_TOOL.parameters.properties)).toEqual([
      'cmd',
      'workdir',
      'tty',
      'yield_time_ms',
      'max_output_tokens',
      'shell',
      'login',
    ]);
    expect(WRITE_STDIN_TOOL).toMatchObject({ name: 'write_stdin', parameters: { required: ['session_id'] } });
    expect(Object.keys(WRITE_STDIN_TOOL.parameters.properties)).toEqual([
      'session_id',
      'chars',
      'yield_time_ms',
      'max_output_tokens',
    ]);
  });

  test('have the arguments of their options', () => {
    const { properties } = execCommandTool({
      environmentIds: ['local', 'remote'],
      allowLogin: false,
      permissions: true,
    }).parameters;
    expect(properties).not.toHaveProperty('login');
    expect(properties.environment_id).toMatchObject({ enum: ['local', 'remote'] });
    expect(properties).toHaveProperty('sandbox_permissions');
    expect(execCommandTool({ environmentIds: ['one'] }).parameters.properties).not.toHaveProperty(
      'environment_id',
    );
    const { yield_time_ms } = writeStdinTool({ maxPollMs: 7777 }).parameters.properties;
    expect(yield_time_ms?.description).toContain('7777');
  });

  test('have only arguments that the parser accepts', () => {
    const all = execCommandTool({ environmentIds: ['x', 'y'], permissions: true }).parameters.properties;
    for (const [name, { type, enum: values }] of Object.entries(all)) {
      const value = values?.[0] ?? SAMPLES[type];
      expect(parseExecCommand({ cmd: 'ls', [name]: value })).toMatchObject({ [name]: value });
    }
    for (const [name, { type }] of Object.entries(WRITE_STDIN_TOOL.parameters.properties)) {
      expect(parseWriteStdin({ session_id: 1, [name]: SAMPLES[type] })).toMatchObject({
        [name]: SAMPLES[type],
      });
    }
  });
});
