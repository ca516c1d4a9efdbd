/** One sample line. */
export interface ParsedSample {
  readonly labels: Record<string, string>;
  readonly value: number;
}

/** Parses the Prometheus exposition format 0.0.4 strictly: throws on the first invalid line. */
export function parseExposition(text: string): Map<string, ParsedSample[]> {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const types = new Map<string, string>();
  const samples = new Map<string, ParsedSample[]>();
  for (const line of text.split('\n').slice(0, -1)) {
    const comment = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line);
    if (comment !== null) {
      if (comment[1] === 'TYPE') types.set(comment[2]!, comment[3]!);
      continue;
    }
    const sample = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (sample === null) throw new Error(`not a sample: ${line}`);
    const [, name = '', labels = '', value = ''] = sample;
    const family = types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '');
    if (!types.has(family)) throw new Error(`no type for ${name}`);
    samples.set(name, [
      ...(samples.get(name) ?? []),
      { labels: parseLabels(labels), value: parseNumber(value) },
    ]);
  }
  return samples;
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  let rest = text;
  while (rest !== '') {
    const match = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/.exec(rest);
    if (match === null) throw new Error(`not labels: ${text}`);
    labels[match[1]!] = match[2]!.replace(/\\(["\\n])/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
    rest = rest.slice(match[0].length);
  }
  return labels;
}

function parseNumber(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY;
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`not a number: ${text}`);
  return value;
}
