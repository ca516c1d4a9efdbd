import { afterAll, expect, test } from 'vitest';
import { asIfHere, programEnvironment } from '../../../../src/cli/programs/program-environment.ts';
import { Workspace } from '../run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

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
  expect(asIfHere({ ...own, UNSET: undefined })).toEqual({
    cwd: process.cwd(),
    env: { A: '1', 'BASH_FUNC_f%%': '() { :; }' },
    envPolicy: { inherit: 'none' },
  });
  expect(asIfHere({ PWD: '/here' }, '/usr')).toMatchObject({ cwd: '/usr', env: { PWD: '/usr' } });
  expect(asIfHere({}, '/usr').env).toEqual({});
});
