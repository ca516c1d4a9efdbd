// Builds requests from the protocol's schemas. The server may run as root, so requests name only what belongs to the fuzzer: paths are
// in the attack's folder, and programs come from a list.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const { methods } = JSON.parse(readFileSync(new URL('../../schema/methods.json', import.meta.url), 'utf8'));

export const METHOD_NAMES = methods.map(({ name }) => name);
const PARAMS = new Map(methods.map(({ name, params }) => [name, params]));

/** Members that hold one or more paths. */
const PATHS = new Set(['path', 'cwd', 'sourcePath', 'destinationPath', 'missing', 'present']);

const PROGRAMS = [
  ['/bin/true'],
  ['/bin/echo', 'text'],
  ['/bin/cat'],
  ['/bin/sleep', '30'],
  ['/bin/sh', '-c', 'kill -9 $$'],
  ['/bin/sh', '-c', 'head -c 300000 /dev/zero'],
  ['/bin/sh', '-c', 'sleep 30 & exec cat'],
  ['/bin/sh', '-c', 'setsid sleep 30 & echo started'],
  ['/bin/sh', '-c', 'trap "" TERM HUP INT; sleep 30'],
  ['/nonexistent'],
  [''],
  [],
];

/** Few ids, so that requests refer to the same objects. */
const IDS = ['a', 'b', 'c', '', 'X\0', 'x'.repeat(40)];
const ID_MEMBERS = new Set(['processId', 'handleId', 'watchId', 'writeId', 'id']);
const NUMBERS = [0, 1, 2, 7, 50, 1000, 65536, 1048577, 2 ** 31, 2 ** 32, 2 ** 53 - 1, -1, 0.5, 1e300];

/**
 * The parameters of a method: mostly valid by its schema, sometimes with a random value somewhere.
 * @param {import('./random.mjs').Random} random @param {string} method @param {string} folder
 */
export function randomParams(random, method, folder) {
  const params = valueFor(random, PARAMS.get(method), { name: '', folder });
  return random.chance(0.2) ? damaged(random, params) : params;
}

/** Any JSON value. */
export function randomJson(random, depth = 0) {
  const kind = random.int(0, depth > 3 ? 4 : 6);
  if (kind === 0) return null;
  if (kind === 1) return random.chance(0.5);
  if (kind === 2) return random.pick(NUMBERS);
  if (kind <= 4) return random.text();
  const length = random.int(0, 4);
  if (kind === 5) return Array.from({ length }, () => randomJson(random, depth + 1));
  const names = ['__proto__', 'constructor', 'toString', 'length', random.text()];
  return Object.fromEntries(
    Array.from({ length }, () => [random.pick(names), randomJson(random, depth + 1)]),
  );
}

function valueFor(random, schema, context) {
  const { name, folder } = context;
  if (name === 'argv') return random.pick(PROGRAMS);
  if (PATHS.has(name) && schema.type !== 'array' && schema.anyOf === undefined)
    return randomPath(random, folder);
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return random.pick(schema.enum);
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return valueFor(random, random.pick(choices), context);
  switch (Array.isArray(schema.type) ? random.pick(schema.type) : schema.type) {
    case 'null':
      return null;
    case 'boolean':
      return random.chance(0.5);
    case 'number':
    case 'integer':
      return random.pick(random.chance(0.7) ? NUMBERS.slice(0, 6) : NUMBERS);
    case 'string':
      return textFor(random, name);
    case 'array':
      return Array.from({ length: random.int(0, 4) }, () => valueFor(random, schema.items, context));
    case 'object':
      return objectFor(random, schema, context);
    default:
      return random.chance(0.5) ? null : randomJson(random);
  }
}

function objectFor(random, { properties, required = [], additionalProperties }, { name, folder }) {
  if (properties === undefined) {
    const entry = () => [
      random.text(),
      valueFor(random, additionalProperties ?? {}, { name: `${name}{}`, folder }),
    ];
    return Object.fromEntries(Array.from({ length: random.int(0, 3) }, entry));
  }
  const present = Object.entries(properties).filter(([key]) => required.includes(key) || random.chance(0.4));
  return Object.fromEntries(
    present.map(([key, schema]) => [key, valueFor(random, schema, { name: key, folder })]),
  );
}

function textFor(random, name) {
  if (ID_MEMBERS.has(name)) return random.pick(random.chance(0.9) ? IDS.slice(0, 3) : IDS);
  if (name === 'chunk' || name === 'dataBase64')
    return random.chance(0.9) ? random.bytes(random.int(0, 3000)).toString('base64') : random.text();
  if (name === 'signal')
    return random.pick(['interrupt', 'SIGTERM', 'KILL', 'SIGSTOP', 'SIGCONT', random.text()]);
  return random.text();
}

function randomPath(random, folder) {
  const names = [
    'file',
    'folder',
    'folder/inner',
    'folder/deep/er',
    'link',
    'loop',
    'missing',
    'missing/below',
    'é%',
  ];
  const path = random.chance(0.1) ? folder : `${folder}/${random.pick(names)}`;
  if (random.chance(0.9)) return pathToFileURL(path).href;
  return random.pick([`${folder}/file`, 'http://127.0.0.1/', 'file://host/file', 'file', '']);
}

/** The same value with one member replaced by a random value; argv is not changed. */
function damaged(random, value) {
  if (value === null || typeof value !== 'object' || random.chance(0.2)) return randomJson(random);
  const keys = Object.keys(value).filter((key) => key !== 'argv');
  if (keys.length === 0) return value;
  const key = random.pick(keys);
  const changed = damaged(random, value[key]);
  return Array.isArray(value) ? value.with(Number(key), changed) : { ...value, [key]: changed };
}
