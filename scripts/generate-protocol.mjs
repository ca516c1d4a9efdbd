// Writes schema/*.json and docs/protocol.md from the method registry. With --check it writes nothing and fails on any difference.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as z from 'zod/mini';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { METHODS, CLIENT_METHODS, NOTIFICATIONS, BYTES_MEMBERS, CAPABILITIES, RpcErrorCode } = await import(
  '../dist/protocol/index.js'
);

const jsonSchema = (schema, io) =>
  z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => delete jsonSchema.$schema,
  });

const methods = Object.entries(METHODS).map(([name, definition]) => ({
  name,
  origin: definition.origin,
  lane: definition.lane,
  capability: definition.capability ?? null,
  summary: definition.summary,
  bytes: {
    params: BYTES_MEMBERS.requests[name] ?? null,
    result: BYTES_MEMBERS.results[name] ?? null,
  },
  params: jsonSchema(definition.params, 'input'),
  result: jsonSchema(definition.result, 'output'),
}));

// Here the server is the one who writes params and reads results.
const clientMethods = Object.entries(CLIENT_METHODS).map(([name, definition]) => ({
  name,
  origin: definition.origin,
  capability: definition.capability ?? null,
  summary: definition.summary,
  params: jsonSchema(definition.params, 'output'),
  result: jsonSchema(definition.result, 'input'),
}));

const notifications = Object.entries(NOTIFICATIONS).map(([name, definition]) => ({
  name,
  origin: definition.origin,
  from: definition.from,
  summary: definition.summary,
  bytes: { params: BYTES_MEMBERS.notifications[name] ?? null },
  params: jsonSchema(definition.params, 'input'),
}));

const typeText = (schema) => {
  if (schema === undefined) return 'any';
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' \\| ');
  const branches = schema.anyOf ?? schema.oneOf;
  if (branches !== undefined) return branches.map(typeText).join(' \\| ');
  if (schema.type === 'array') return `${typeText(schema.items)}[]`;
  if (schema.type === 'object' && schema.properties !== undefined) {
    const fields = Object.entries(schema.properties).map(([key, value]) => `${key}: ${typeText(value)}`);
    return fields.length > 6 ? 'object' : `{ ${fields.join(', ')} }`;
  }
  if (schema.type === 'object') return `map of ${typeText(schema.additionalProperties)}`;
  return [schema.type ?? 'any'].flat().join(' \\| ');
};

const description = (schema) =>
  [
    schema.description,
    schema.default === undefined ? null : `Default: \`${JSON.stringify(schema.default)}\`.`,
  ]
    .filter(Boolean)
    .join(' ');

const fieldRows = ({ properties, required = [], prefix = '' }) =>
  Object.entries(properties).map(
    ([key, value]) =>
      `| \`${prefix}${key}\` | ${typeText(value)} | ${required.includes(key) ? 'yes' : 'no'} | ${description(value)} |`,
  );

/** The members of a field that are too large to be shown in its type. They get rows of their own. */
const largeMembers = (field, schema) => {
  const objects = (schema.anyOf ?? [schema]).filter(({ type }) => type !== 'null');
  if (objects.length !== 1 || typeText(objects[0]) === 'object') return [];
  return Object.entries(objects[0].properties ?? {})
    .filter(([, member]) => typeText(member) === 'object')
    .map(([name, member]) => ({ ...member, prefix: `${field}.${name}.` }));
};

const fieldTable = (schema) => {
  const properties = Object.entries(schema.properties ?? {});
  if (properties.length === 0) return 'None.\n';
  const rows = [schema, ...properties.flatMap(([key, value]) => largeMembers(key, value))].flatMap(fieldRows);
  return `| field | type | required | meaning |\n|---|---|---|---|\n${rows.join('\n')}\n`;
};

const fields = (schema) => {
  const forms = schema.anyOf;
  if (forms === undefined) return fieldTable(schema);
  return forms.map((form, index) => `Form ${index + 1}:\n\n${fieldTable(form)}`).join('\n');
};

const methodSection = (method) => `### \`${method.name}\`

${method.summary}${method.capability === null ? '' : ` Capability: \`${method.capability}\`.`}

Params:

${fields(method.params)}
Result:

${fields(method.result)}`;

const notificationSection = (notification) => `### \`${notification.name}\`

From the ${notification.from}. ${notification.summary}

${fields(notification.params)}`;

/** The members that binary messages carry as bytes. */
const bytesRows = [
  ...methods.map(({ name, bytes }) => [`\`${name}\``, '`params`', bytes.params]),
  ...methods.map(({ name, bytes }) => [`result of \`${name}\``, '`result`', bytes.result]),
  ...notifications.map(({ name, bytes }) => [`notification \`${name}\``, '`params`', bytes.params]),
]
  .filter(([, , member]) => member !== null)
  .map(([message, holder, member]) => `| ${message} | \`${member}\` of ${holder} |`);

const ORIGINS = {
  reference: 'Methods shared with `codex exec-server`',
  extension: 'Methods of exec-server',
  legacy: 'The legacy dialect',
};

const protocolPage = `<!-- Generated by scripts/generate-protocol.mjs from src/protocol. Do not edit. -->
# Protocol

One JSON object per websocket frame, or per line on stdio; [binary messages](#binary-messages) are the exception. Requests have \`id\` (a string or a 64-bit integer, echoed exactly),
\`method\` and \`params\`; responses have \`id\` and \`result\` or \`error\`; notifications have no \`id\`. A \`jsonrpc\` member is
ignored and never sent. Integers must be written as integers: \`1.0\` is refused.

A connection starts with \`initialize\`. After its result the client sends the notification \`initialized\`. Every other method works
from then on.

## Errors

| code | meaning |
|---|---|
${Object.entries(RpcErrorCode)
  .map(([name, code]) => `| ${code} | ${name} |`)
  .join('\n')}

The server answers a message that it cannot decode with id -1 and code -32600, and keeps the connection open. After 1,024 such
messages in a row, without a valid one between them, it closes the connection with code 1002. It answers a
notification other than \`initialized\`, or a response without a request, in the same way and then closes the connection.

## Binary messages

A message with a large base64 member can be sent as bytes instead, in one binary websocket frame or in fragments of one. This saves base64 and most of
the JSON. Both sides must agree: the client sends \`capabilities: { binaryMessages: true }\` in \`initialize\`, and the server answers
\`binaryMessages: true\`, where the transport has binary frames. On other transports, such as stdio and a relay, the member is absent. From then on
either side may send any message of the table in this form, and must accept both forms. Without the agreement nothing changes: the server sends text
frames only.

| bytes of the frame | content |
|---|---|
| 4 | the length of the JSON, an unsigned integer, most significant byte first; at most 4 MiB |
| that many | the JSON-RPC message in UTF-8. The member that the table names is an empty string |
| the rest | the bytes of the member |

The first byte is zero, which no JSON begins with: a binary frame with any other first byte is text. The limits of messages hold for the whole frame, those
of JSON for the JSON. An invalid binary message is answered like any other message that cannot be decoded, with the id of the request if it can be read.

| message | bytes |
|---|---|
${bytesRows.join('\n')}

## Capabilities

\`environment/info\` and \`initialize\` announce the capabilities of a server. A missing flag means false.

| flag | meaning |
|---|---|
${Object.entries(CAPABILITIES)
  .map(([name, text]) => `| \`${name}\` | ${text} |`)
  .join('\n')}

${Object.entries(ORIGINS)
  .map(([origin, title]) => {
    const sections = methods.filter((method) => method.origin === origin).map(methodSection);
    return `## ${title}\n\n${sections.join('\n')}`;
  })
  .join('\n')}
## Requests of the server

Their ids are integers that start at 1 on each connection, independent of the client's ids. A client answers an unknown request with
an error.

${clientMethods.map(methodSection).join('\n')}
## Notifications

${notifications.map(notificationSection).join('\n')}`;

const outputs = {
  'schema/methods.json': `${JSON.stringify({ methods, clientMethods, notifications }, null, 2)}\n`,
  'docs/protocol.md': protocolPage,
};

const check = process.argv.includes('--check');
for (const [path, text] of Object.entries(outputs)) {
  const file = join(root, path);
  if (!check) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  } else if (readOrEmpty(file) !== text) {
    process.stderr.write(`${path} does not match src/protocol: run npm run generate\n`);
    process.exitCode = 1;
  }
}

function readOrEmpty(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
