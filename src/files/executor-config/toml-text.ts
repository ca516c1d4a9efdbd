import { isTable, type TomlTable } from './toml-files.ts';

/** Serializes a table as TOML: values first, then tables and arrays of tables, each with its heading. */
export function tomlText(table: TomlTable): string {
  const sections: string[] = [];
  addSections(sections, [], table, '');
  return sections.join('\n');
}

/** Omits the heading of a table that contains only tables. */
function addSections(sections: string[], path: readonly string[], table: TomlTable, heading: string): void {
  const entries = Object.entries(table);
  const values = entries.filter(([, value]) => !isSection(value));
  const below = entries.filter(([, value]) => isSection(value));
  const lines = values.map(([key, value]) => `${keyText(key)} = ${valueText(value)}\n`);
  const needed = lines.length > 0 || below.length === 0 || heading.startsWith('[[');
  if (path.length === 0) {
    if (lines.length > 0) sections.push(lines.join(''));
  } else if (needed) {
    sections.push(`${heading}\n${lines.join('')}`);
  }
  for (const [key, value] of below) {
    const inner = [...path, key];
    const name = inner.map(keyText).join('.');
    if (isTable(value)) addSections(sections, inner, value, `[${name}]`);
    else for (const item of value as TomlTable[]) addSections(sections, inner, item, `[[${name}]]`);
  }
}

function isSection(value: unknown): boolean {
  return isTable(value) || (Array.isArray(value) && value.length > 0 && value.every(isTable));
}

function keyText(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : stringText(key);
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return stringText(value);
  if (typeof value === 'number') return floatText(value);
  if (value instanceof Date) return value.toISOString().replace(/\.000(?=Z|[-+]|$)/, '');
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  if (isTable(value)) {
    const members = Object.entries(value).map(([key, member]) => `${keyText(key)} = ${valueText(member)}`);
    return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`;
  }
  return String(value);
}

function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  if (Object.is(value, -0)) return '-0.0';
  const text = String(value);
  return /[.e]/.test(text) ? text : `${text}.0`;
}

function stringText(text: string): string {
  const escaped = text.replace(/["\\\u0000-\u001f\u007f]/g, (character) => {
    return ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0').toUpperCase()}`;
  });
  return `"${escaped}"`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
};
