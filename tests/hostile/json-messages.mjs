import { MAX_REQUEST_KEYS } from '../../dist/protocol/limits.js';
import { MAX_REQUEST_TEXT_BYTES } from '../../dist/rpc/limits.js';
import { deepJson } from './fixture.mjs';
import { MAX_DEPTH, MAX_VALUES } from './texts.mjs';

const MIB = 1024 * 1024;
/** What a message may have besides base64, and in all, without its envelope. */
const LARGEST = MAX_REQUEST_TEXT_BYTES - 1024;
const LARGEST_MESSAGE = 64 * MIB - 1024;
const MAX_MEMBERS = MAX_REQUEST_KEYS - 16;

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
  'objects with the most keys': () => request(`[${'{"a":0},'.repeat(MAX_MEMBERS)}0]`),
  'objects of different shapes': () =>
    request(`[${Array.from({ length: MAX_MEMBERS }, (_, index) => `{"k${index}":0}`).join(',')}]`),
  'an object with the most members': () => request(`{${members(MAX_MEMBERS)}}`),
  'an object with numbers as keys': () => request(`{${members(MAX_MEMBERS, (index) => index * 16_383)}}`),
  'an object with long keys': () => request(`{${members(250, (index) => `${'k'.repeat(16_000)}${index}`)}}`),
  'an object with escaped keys': () =>
    request(`{${members(MAX_MEMBERS, (index) => `\\u006b\\u006b\\u006b\\u006b${index}`)}}`),
  'a duplicate key at the end': () => request(`{${members(MAX_MEMBERS - 1)},"k0":0}`),
  'far too many keys': () => request(`{${members(200_000)}}`),
  'far too many values': () => request(`[${'0,'.repeat(MIB)}0]`),
  'long numbers': () => request(`[${`${'9'.repeat(19)},`.repeat(200_000)}0]`),
  'one very long number': () => request('9'.repeat(LARGEST)),
  fractions: () => request(`[${'1.5e3,'.repeat(1_000)}0]`),
  'too many fractions': () => request(`[${'1.5e3,'.repeat(MAX_VALUES - 1)}0]`),
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
  'a text that is far too long': () => request(`"${'\\u0041'.repeat(LARGEST_MESSAGE / 6)}"`),
  'a long id': () => `{"id":"${'i'.repeat(LARGEST)}","method":"environment/status","params":{}}`,
  'a long method': () => `{"id":1,"method":"${'m'.repeat(LARGEST)}","params":{}}`,
  'a long unknown member': () => `{"id":1,"method":"environment/status","x":"${'m'.repeat(LARGEST)}"}`,
  'a long trace': () =>
    `{"id":1,"method":"environment/status","trace":{"traceparent":"${'t'.repeat(MIB)}","tracestate":"${'a=b,'.repeat(MIB / 2)}"}}`,
  'a long answer without a request': () => `{"id":1,"result":[${'0,'.repeat(MAX_VALUES - 1)}0]}`,
  'a long error without a request': () => `{"id":1,"error":{"code":1,"message":"${'m'.repeat(LARGEST)}"}}`,
  'a large notification': () => `{"method":"initialized","params":[${'0,'.repeat(MAX_VALUES - 1)}0]}`,
  'an unknown notification': () => `{"method":"${'n'.repeat(LARGEST)}","params":{}}`,
  'base64 that belongs to no method': () =>
    request(`{"dataBase64":"${'QUJD'.repeat(LARGEST_MESSAGE / 4 - 20)}"}`),
  'base64 that is no parameter': () =>
    request(`[{"dataBase64":"${'QUJD'.repeat(LARGEST_MESSAGE / 4 - 20)}"}]`),
  'base64 that comes late': () =>
    request(
      `{"path":"file:///nowhere/x","a":"${'x'.repeat(LARGEST - 100)}","dataBase64": "${'QUJD'.repeat(14 * MIB)}"}`,
      'fs/writeFile',
    ),
};
