import { afterAll, expect, test } from 'vitest';
import { asIfHere, programEnvironment } from '../../../../src/cli/programs/program-environment.ts';
import { undecodableVariables } from '../../../../src/cli/programs/undecodable-variables.ts';
import { Workspace } from '../run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

const noNote = (text: string): void => expect(text).toBe('');

test('variables come from files and flags, and flags win', () => {
  const file = workspace.file('vars', '\uFEFF# comment\n\n  A=1\r\nB="two words"\nHERE\nC=x=y\n');
  expect(programEnvironment([file], ['A=3', 'MISSING', 'HERE', 'EMPTY='], { HERE: 'here' })).toEqual({
    A: '3',
    B: '"two words"',
    C: 'x=y',
    HERE: 'here',
    EMPTY: '',
  });
});

test('a bad line is named', () => {
  const file = workspace.file('bad', 'A=1\n=2\n');
  expect(() => programEnvironment([file], [], {})).toThrow(`${file}:2: '=2' is not NAME=VALUE or NAME`);
  expect(() => programEnvironment([], ['=x'], {})).toThrow("-e: '=x' is not NAME=VALUE or NAME");
  const exported = workspace.file('exported', 'export A=1\n');
  expect(() => programEnvironment([exported], [], {})).toThrow(`${exported}:1: 'export A' is not the name`);
  expect(() => programEnvironment(['/no/file'], [], {})).toThrow(
    'cannot read the file of --env-file /no/file: no such file or directory; check the path',
  );
});

test('a program that runs as if here has all variables but those of exec-server', () => {
  const own = {
    A: '1',
    'BASH_FUNC_f%%': '() { :; }',
    EXEC_SERVER_TOKEN: 'secret',
    EXEC_SERVER_URL: 'ws://x',
  };
  expect(asIfHere({ ...own, UNSET: undefined }, noNote)).toEqual({
    cwd: process.cwd(),
    env: { A: '1', 'BASH_FUNC_f%%': '() { :; }' },
    envPolicy: { inherit: 'none' },
  });
  expect(asIfHere({ PWD: '/here' }, noNote, '/usr')).toMatchObject({ cwd: '/usr', env: { PWD: '/usr' } });
  expect(asIfHere({}, noNote, '/usr').env).toEqual({});
});

test('variables whose bytes are not UTF-8 are found, and a replacement character that was given is not', () => {
  const environ = workspace.file('environ', Buffer.from('A=\xff\xfe\0B=b\0N\xff=1\0', 'latin1'));
  const own = { A: '\uFFFD\uFFFD', B: 'b', 'N\uFFFD': '1', GIVEN: '\uFFFD', UNSET: undefined };
  expect([...undecodableVariables(own, environ)]).toEqual(['A', 'N\uFFFD']);
  expect([...undecodableVariables({ A: '\uFFFD' }, '/no/environ')]).toEqual(['A']);
  expect(undecodableVariables({ B: 'b' }, '/no/environ').size).toBe(0);
});
