import { describe, expect, test } from 'vitest';
import { parseExecCommand, parseWriteStdin } from '../../../src/agent/arguments.ts';

describe('exec_command', () => {
  test('accepts an object or its JSON text', () => {
    const args = { cmd: 'ls', tty: true, yield_time_ms: 0, prefix_rule: ['git', 'pull'] };
    expect(parseExecCommand(args)).toEqual(args);
    expect(parseExecCommand(JSON.stringify(args))).toEqual(args);
  });

  test('treats null as absent', () => {
    expect(parseExecCommand({ cmd: 'ls', workdir: null })).toEqual({ cmd: 'ls' });
  });

  test.each([
    [undefined, 'the arguments must be an object'],
    [[], 'the arguments must be an object'],
    ['{', /^the arguments are not JSON: /],
    ['"ls"', 'the arguments must be an object'],
    [{}, "'cmd' is missing"],
    [{ cmd: null }, "'cmd' is missing"],
    [{ cmd: 7 }, "'cmd' must be a string, not 7"],
    [{ cmd: ['ls'] }, "'cmd' must be a string, not an array"],
    [{ cmd: 'ls', tty: 'yes' }, "'tty' must be true or false, not a string"],
    [{ cmd: 'ls', yield_time_ms: -1 }, "'yield_time_ms' must be a whole number that is not negative, not -1"],
    [
      { cmd: 'ls', max_output_tokens: 1.5 },
      "'max_output_tokens' must be a whole number that is not negative, not 1.5",
    ],
    [
      { cmd: 'ls', sandbox_permissions: 'all' },
      "'sandbox_permissions' must be use_default, with_additional_permissions or require_escalated, not a string",
    ],
    [{ cmd: 'ls', prefix_rule: [1] }, "'prefix_rule' must be an array of strings, not an array"],
    [{ cmd: 'ls', timeout: 5 }, /^unknown argument 'timeout'; the arguments are cmd, workdir, /],
    [JSON.parse('{"cmd":"ls","__proto__":{}}'), /^unknown argument '__proto__'/],
  ])('rejects %j', (args, message) => {
    expect(() => parseExecCommand(args)).toThrow(
      expect.objectContaining({
        kind: 'invalidArguments',
        tool: 'exec_command',
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      }),
    );
  });
});

describe('write_stdin', () => {
  test('accepts an object or its JSON text', () => {
    expect(parseWriteStdin('{"session_id":1000,"chars":"y\\n"}')).toEqual({ session_id: 1000, chars: 'y\n' });
  });

  test.each([
    [{ chars: 'x' }, "'session_id' is missing"],
    [{ session_id: '1000' }, /^'session_id' must be a whole number/],
    [
      { session_id: 1000, cmd: 'ls' },
      "unknown argument 'cmd'; the arguments are session_id, chars, yield_time_ms, max_output_tokens",
    ],
  ])('rejects %j', (args, message) => {
    expect(() => parseWriteStdin(args)).toThrow(
      expect.objectContaining({
        kind: 'invalidArguments',
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      }),
    );
  });
});
