/** Headers that speak to the next hop only. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Headers as they were sent, in pairs, without those that are not for the next but one: whatever `Connection` lists included. */
export function endToEndHeaders(rawHeaders: readonly string[]): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    pairs.push([rawHeaders[index] ?? '', rawHeaders[index + 1] ?? '']);
  }
  const listed = new Set(
    pairs
      .filter(([name]) => name.toLowerCase() === 'connection')
      .flatMap(([, value]) => value.split(',').map((name) => name.trim().toLowerCase())),
  );
  // The length of the body stands whoever lists it: without it the body would end somewhere else.
  listed.delete('content-length');
  return pairs.filter(([name]) => {
    const lower = name.toLowerCase();
    return !HOP_BY_HOP.has(lower) && !listed.has(lower);
  });
}

/** Headers by their names in lower case, each with its name as written and its values. */
export type HeaderGroups = Map<string, [name: string, values: string[]]>;

/** The same headers by name, repeated ones as a list. */
export function groupedHeaders(pairs: readonly (readonly [string, string])[]): HeaderGroups {
  const groups: HeaderGroups = new Map();
  for (const [name, value] of pairs) {
    const group = groups.get(name.toLowerCase());
    if (group === undefined) groups.set(name.toLowerCase(), [name, [value]]);
    else group[1].push(value);
  }
  return groups;
}
