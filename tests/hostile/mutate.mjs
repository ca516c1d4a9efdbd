import { hostileUnits } from './texts.mjs';

/** Members that hold paths. The server may run as root, so a change must not make them name another place. */
const PATHS = new Set([
  'path',
  'cwd',
  'sourcePath',
  'destinationPath',
  'missing',
  'present',
  'workspaceRoots',
  'writableRoots',
]);
/** Members that decide which program runs. */
const PROGRAMS = new Set(['argv', 'arg0', 'shell']);
const NUMBERS = [0, 1, -1, 0.5, 64, 65_536, 2 ** 31, 2 ** 53, 1e300];

/**
 * A row with a random change in each of its messages.
 * @param {import('../fuzz/random.mjs').Random} random
 * @param {import('./requests.mjs').Row} row
 * @returns {import('./requests.mjs').Row}
 */
export function mutatedRow(random, row) {
  if (row.message !== undefined) return { ...row, message: () => damagedText(random, row.message()) };
  const { answer: _, ...entry } = row.entry;
  const requests = (fixture) => entry.requests(fixture).map((params) => mutated(random, params));
  return { ...row, entry: { ...entry, requests } };
}

/** Cuts, repeats or overwrites a part of a text that calls no method that changes anything. */
function damagedText(random, text) {
  const bytes = Buffer.from(text);
  const at = random.int(0, bytes.length);
  const end = Math.min(bytes.length, at + random.int(1, 64 * 1024));
  const part = bytes.subarray(at, end);
  return random.pick([
    () => bytes.subarray(0, at),
    () => Buffer.concat([bytes.subarray(0, at), bytes.subarray(end)]),
    () => Buffer.concat([bytes.subarray(0, end), part, bytes.subarray(end)]),
    () => Buffer.concat([bytes.subarray(0, at), random.bytes(random.int(1, 8)), bytes.subarray(at)]),
  ])();
}

/** The value with one member, at any depth, replaced by a longer, shorter or different one. */
function mutated(random, value, name = '') {
  if (PROGRAMS.has(name)) return value;
  if (typeof value === 'string')
    return PATHS.has(name) ? longerPath(random, value) : changedText(random, value);
  if (typeof value === 'number') return random.pick(NUMBERS);
  if (typeof value !== 'object' || value === null) return random.pick([value, null, true, '', []]);
  if (Array.isArray(value)) return changedList(random, value, name);
  const keys = Object.keys(value);
  if (keys.length === 0) return value;
  const key = random.pick(keys);
  return { ...value, [key]: mutated(random, value[key], key) };
}

function changedList(random, list, name) {
  if (list.length === 0) return list;
  const at = random.int(0, list.length - 1);
  return random.pick([
    () => list.slice(0, at),
    () => [...list, ...list].slice(0, 4_096),
    () => list.with(at, mutated(random, list[at], name)),
  ])();
}

function changedText(random, text) {
  const unit = random.pick(hostileUnits);
  const at = random.int(0, text.length);
  return random.pick([
    () => text.slice(0, at),
    () => text.slice(0, at) + unit.repeat(random.int(1, 4_000)) + text.slice(at),
    () => text + text,
  ])();
}

/** Only appends, and nothing that leads up. */
function longerPath(random, path) {
  return `${path}/${random.pick(hostileUnits.filter((unit) => !unit.includes('..'))).repeat(random.int(1, 4_000))}`;
}
