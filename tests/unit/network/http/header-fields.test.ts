import { describe, expect, test } from 'vitest';
import {
  headerVariables,
  requestFields,
  responseFields,
  valuesOf,
  withField,
} from '../../../../src/network/http/header-fields.ts';

const ENV = { TOKEN: 'secret', EMPTY: '', OPENAI_API_KEY: 'own', EXEC_SERVER_WS_TOKEN_FILE: '/own' };

describe('requestFields', () => {
  test('groups names at the position of the first, in lower case', () => {
    const headers = [
      { name: 'X-A', value: '1' },
      { name: 'X-B', value: 'b' },
      { name: 'x-a', value: '2' },
    ];
    expect(requestFields(headers, ENV, 'any')).toEqual([
      { name: 'x-a', value: '1' },
      { name: 'x-a', value: '2' },
      { name: 'x-b', value: 'b' },
    ]);
  });

  test('appends the value of a variable', () => {
    const fields = requestFields([{ name: 'X-T', value: 'Bearer ', valueEnvVar: 'TOKEN' }], ENV, 'any');
    expect(fields).toEqual([{ name: 'x-t', value: 'Bearer secret' }]);
    expect(requestFields([{ name: 'X-T', value: 'v', valueEnvVar: null }], ENV, 'any')[0]?.value).toBe('v');
  });

  test.each([
    ['NOT_THERE', 'requires executor environment variable NOT_THERE'],
    ['EMPTY', 'requires a non-empty executor environment variable EMPTY'],
    ['OPENAI_API_KEY', 'cannot use executor environment variable OPENAI_API_KEY'],
    ['openai_api_key', 'cannot use executor environment variable openai_api_key'],
    ['EXEC_SERVER_WS_TOKEN_FILE', 'cannot use executor environment variable EXEC_SERVER_WS_TOKEN_FILE'],
    ['__proto__', 'requires executor environment variable __proto__'],
    ['toString', 'requires executor environment variable toString'],
  ])('rejects the variable %s', (valueEnvVar, problem) => {
    const headers = [{ name: 'X-T', value: 'v', valueEnvVar }];
    expect(() => requestFields(headers, ENV, 'any')).toThrow(`http/request header X-T ${problem}`);
  });

  test('uses only the variables of a list, and does not tell whether others exist', () => {
    const value = (valueEnvVar: string) =>
      requestFields([{ name: 'X-T', value: '', valueEnvVar }], ENV, headerVariables('A, EMPTY , TOKEN'));
    expect(value('TOKEN')).toEqual([{ name: 'x-t', value: 'secret' }]);
    expect(() => value('EMPTY')).toThrow('requires a non-empty executor environment variable EMPTY');
    for (const other of ['OTHER', 'NOT_THERE', 'token', '']) {
      expect(() => value(other)).toThrow(
        expect.objectContaining({
          kind: 'refused',
          message: `http/request header X-T cannot use executor environment variable ${other}: the token has limits, and httpHeaderVariables does not list the variable`,
        }),
      );
    }
    for (const name of ['A=1', 'A B', 'A\0']) {
      expect(() => headerVariables(`OTHER,${name}`)).toThrow(
        `${JSON.stringify(name)} is not the name of an environment variable; separate names with commas`,
      );
    }
    expect(() => headerVariables('A,openai_api_key')).toThrow('openai_api_key is never sent in a header');
  });

  test('rejects control characters, including those of a variable', () => {
    const problem = 'http/request header value is invalid for X-A: failed to parse header value';
    expect(() => requestFields([{ name: 'X-A', value: 'a\r\nb: c' }], ENV, 'any')).toThrow(problem);
    const headers = [{ name: 'X-A', value: '', valueEnvVar: 'LINES' }];
    expect(() => requestFields(headers, { LINES: 'a\nb' }, 'any')).toThrow(problem);
    expect(() => requestFields([{ name: 'a b', value: '' }], ENV, 'any')).toThrow('name is invalid');
  });
});

test('omits response headers whose value is not ASCII', () => {
  const raw = ['X-B', '1', 'X-A', '\u00e9', 'x-b', '2', 'Empty', ''];
  expect(responseFields(raw)).toEqual([
    { name: 'x-b', value: '1' },
    { name: 'x-b', value: '2' },
    { name: 'empty', value: '' },
  ]);
  expect(valuesOf(responseFields(raw), 'x-b')).toEqual(['1', '2']);
});

test('replaces existing headers with the same name', () => {
  const fields = ['a', 'b', 'c', 'b'].map((name) => ({ name, value: name }));
  const set = withField(fields, { name: 'b', value: 'new' });
  expect(set.map(({ value }) => value)).toEqual(['a', 'new', 'c']);
  expect(withField(fields, { name: 'd', value: 'new' }).at(-1)).toEqual({ name: 'd', value: 'new' });
});
