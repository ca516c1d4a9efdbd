import { deepJson } from './fixture.mjs';
import { MAX_DEPTH, MAX_VALUES } from './texts.mjs';

const MIB = 1024 * 1024;
/** What a message may have, without its envelope. */
const LARGEST = 64 * MIB - 1024;

/** A request of the id 1 whose params are this JSON. */
function request(params, method = 'environment/status') {
  return `{"id":1,"method":"${method}","params":${params}}`;
}

/** The members `"k0":0,"k1":0,…` of an object. */
function members(count, key = (index) => `k${index}`) {
  return Array.from({ length: count }, (_, index) => `"${key(index)}":0`).join(',');
}

/** Whole messages that attack the decoder, whatever their method is. */
export const JSON_MESSAGES = {
  'the deepest value': () => request(`${'{"a":'.repeat(MAX_DEPTH)}1${'}'.repeat(MAX_DEPTH)}`),
  'a value that is far too deep': () => request(deepJson(5 * MIB)),
  'an array with the most values': () => request(`[${'0,'.repeat(MAX_VALUES - 1)}0]`),
  'objects with the most values': () => request(`[${'{"a":0},'.repeat(MAX_VALUES / 2 - 1)}0]`),
  'objects of different shapes': () =>
    request(`[${Array.from({ length: MAX_VALUES / 2 - 1 }, (_, index) => `{"k${index}":0}`).join(',')}]`),
  'an object with the most members': () => request(`{${members(MAX_VALUES)}}`),
  'an object with numbers as keys': () => request(`{${members(MAX_VALUES, (index) => index * 16_383)}}`),
  'an object with long keys': () =>
    request(`{${members(3_900, (index) => `${'k'.repeat(16_000)}${index}`)}}`),
  'an object with escaped keys': () =>
    request(`{${members(200_000, (index) => `\\u006b\\u006b\\u006b\\u006b${index}`)}}`),
  'a duplicate key at the end': () => request(`{${members(MAX_VALUES - 1)},"k0":0}`),
  'far too many values': () => request(`[${'0,'.repeat(20 * MIB)}0]`),
  'long numbers': () => request(`[${`${'9'.repeat(240)},`.repeat(200_000)}0]`),
  'one very long number': () => request('9'.repeat(LARGEST)),
  fractions: () => request(`[${'1.5e3,'.repeat(MAX_VALUES - 1)}0]`),
  'a long text': () => request(`"${'x'.repeat(LARGEST)}"`),
  'a long text that is not ASCII': () => request(`"${'\u00e9'.repeat(LARGEST / 2)}"`),
  'a long text of wide characters': () => request(`"${'\u4e2d'.repeat(LARGEST / 3)}"`),
  'a long text of escapes': () => request(`"${'\\u0041'.repeat(LARGEST / 6)}"`),
  'a long text of backslashes': () => request(`"${'\\\\'.repeat(LARGEST / 2)}"`),
  'a long text without an end': () => request(`"${'x'.repeat(LARGEST)}`),
  'white space': () => request(`${' '.repeat(LARGEST)}{}`),
  'text that is not JSON': () => '}'.repeat(LARGEST),
  'quotes that are not JSON': () => '"",'.repeat(LARGEST / 3),
  'invalid UTF-8 at the end': () => Buffer.concat([Buffer.alloc(LARGEST, 'x'), Buffer.from([0xff])]),
  'a long id': () => `{"id":"${'i'.repeat(16 * MIB)}","method":"environment/status","params":{}}`,
  'a long method': () => `{"id":1,"method":"${'m'.repeat(16 * MIB)}","params":{}}`,
  'a long unknown member': () => `{"id":1,"method":"environment/status","x":"${'m'.repeat(16 * MIB)}"}`,
  'a long trace': () =>
    `{"id":1,"method":"environment/status","trace":{"traceparent":"${'t'.repeat(8 * MIB)}","tracestate":"${'a=b,'.repeat(2 * MIB)}"}}`,
  'a long answer without a request': () => `{"id":1,"result":[${'0,'.repeat(MAX_VALUES - 1)}0]}`,
  'a long error without a request': () => `{"id":1,"error":{"code":1,"message":"${'m'.repeat(16 * MIB)}"}}`,
  'a large notification': () => `{"method":"initialized","params":[${'0,'.repeat(MAX_VALUES - 1)}0]}`,
  'an unknown notification': () => `{"method":"${'n'.repeat(16 * MIB)}","params":{}}`,
  'base64 that belongs to no method': () => request(`{"dataBase64":"${'QUJD'.repeat(LARGEST / 4 - 20)}"}`),
  'base64 that comes late': () =>
    request(
      `{"path":"file:///x","a":"${'x'.repeat(64 * 1024)}","dataBase64":"${'QUJD'.repeat(15 * MIB)}"}`,
      'fs/writeFile',
    ),
  'base64 with spaces before it': () =>
    request(`{"path":"file:///nowhere/x", "dataBase64" : "${'QUJD'.repeat(15 * MIB)}"}`, 'fs/writeFile'),
};
