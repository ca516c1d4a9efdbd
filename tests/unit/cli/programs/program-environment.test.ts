import { afterAll, expect, test } from 'vitest';
import { programEnvironment } from '../../../../src/cli/programs/program-environment.ts';
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
  expect(() => programEnvironment(['/no/file'], [], {})).toThrow(
    /cannot read the file of --env-file .*ENOENT/,
  );
});
