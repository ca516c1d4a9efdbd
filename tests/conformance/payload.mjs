// What a case sends: variables, generated strings and raw bytes, so that the files stay small.

/**
 * Replaces `{{name}}` in every string (a string that is nothing else takes the type of the variable) and builds generated
 * values: `{"$encode": payload}` is base64, `{"$repeat": text, "times": n}` a long string, `{"$sandbox": policy}` a sandbox
 * (see `toSandbox`).
 */
export function expand(value, variables) {
  if (typeof value === 'string') return substitute(value, variables);
  if (Array.isArray(value)) return value.map((item) => expand(item, variables));
  if (typeof value !== 'object' || value === null) return value;
  if ('$encode' in value) return toBytes(expand(value.$encode, variables)).toString('base64');
  if ('$repeat' in value) return value.$repeat.repeat(value.times);
  if ('$sandbox' in value) return toSandbox(expand(value.$sandbox, variables));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [substituteText(key, variables), expand(item, variables)]),
  );
}

/**
 * Bytes of a payload: text, `{hex}`, `{repeat, times}`, `{concat: [payload…]}`, `{json, bytes}` = a binary message,
 * or `{before, fill, after, size}` = exactly `size` bytes, filled up in the middle.
 */
export function toBytes(payload) {
  if (typeof payload === 'string') return Buffer.from(payload, 'utf8');
  if (Buffer.isBuffer(payload)) return payload;
  if ('hex' in payload) return Buffer.from(payload.hex, 'hex');
  if ('concat' in payload) return Buffer.concat(payload.concat.map(toBytes));
  if ('json' in payload) return binaryMessage(JSON.stringify(payload.json), toBytes(payload.bytes));
  if ('repeat' in payload) return Buffer.from(payload.repeat.repeat(payload.times), 'utf8');
  if ('size' in payload) {
    const { before, fill, after, size } = payload;
    return Buffer.concat([
      toBytes(before),
      Buffer.alloc(size - before.length - after.length, fill),
      toBytes(after),
    ]);
  }
  throw new Error(`not a payload: ${JSON.stringify(payload)}`);
}

function binaryMessage(text, bytes) {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text), bytes]);
}

/**
 * The member `sandbox` of a request. `read`, `write` and `deny` list paths: `/a` is an absolute path, `:root` a special one,
 * `:project_roots/a` one with a subpath, `glob:/a/*` a pattern. `roots` are the workspace roots, `cwd` is the first of them unless
 * given (null = absent). `permissions` replaces the managed profile; `with` holds other members.
 */
function toSandbox({
  read = [],
  write = [],
  deny = [],
  network,
  depth,
  permissions,
  roots = [],
  cwd,
  with: others,
}) {
  const entries = Object.entries({ read, write, deny }).flatMap(([access, paths]) =>
    paths.map((path) => ({ path: toEntryPath(path), access })),
  );
  const scan = depth === undefined ? {} : { glob_scan_max_depth: depth };
  const managed = {
    type: 'managed',
    file_system: { type: 'restricted', entries, ...scan },
    network: network ?? 'restricted',
  };
  const base = cwd === undefined ? roots[0] : cwd;
  return {
    permissions: permissions ?? managed,
    ...(base ? { cwd: toUri(base) } : {}),
    workspaceRoots: roots.map(toUri),
    windowsSandboxLevel: 'disabled',
    ...others,
  };
}

function toEntryPath(path) {
  if (path.startsWith('/')) return { type: 'path', path: toUri(path) };
  if (path.startsWith('glob:')) return { type: 'glob_pattern', pattern: path.slice('glob:'.length) };
  const [, kind, subpath] = /^:(\w+)(?:\/(.+))?$/.exec(path);
  return { type: 'special', value: { kind, ...(subpath === undefined ? {} : { subpath }) } };
}

function toUri(path) {
  return `file://${path}`;
}

/** The value at a dotted path such as `result.sessionId`. */
export function valueAt(value, path) {
  return path.split('.').reduce((part, key) => part?.[key], value);
}

function substitute(text, variables) {
  const whole = /^\{\{([\w.-]+)\}\}$/.exec(text);
  return whole ? lookup(whole[1], variables) : substituteText(text, variables);
}

function substituteText(text, variables) {
  return text.replace(/\{\{([\w.-]+)\}\}/g, (_, name) => String(lookup(name, variables)));
}

function lookup(name, variables) {
  if (!Object.hasOwn(variables, name)) throw new Error(`unknown variable {{${name}}}`);
  return variables[name];
}
