import { ClientError } from '../../../client/errors.ts';
import { parentUri } from '../../../client/files/files.ts';
import { toNativePath } from '../../../client/paths.ts';
import { type Answer, type Call, defineTool } from '../call.ts';
import { ToolFailure } from '../failure.ts';
import { MAX_WRITTEN_BYTES } from '../limits.ts';
import { type ArgumentsOf, flag, text } from '../parameters.ts';
import { shownName } from '../text/visible.ts';
import {
  brokenLink,
  changing,
  factsOf,
  filesOf,
  type OpenPath,
  openPath,
  pathFailure,
  requireWritable,
} from './open-file.ts';

const PARAMETERS = {
  path: text('The file, absolute or relative to the working directory.'),
  content: text('The whole new content.'),
  create_parents: flag('Create missing parent directories. Default false.'),
} as const;

type Arguments = ArgumentsOf<typeof PARAMETERS, 'path' | 'content'>;

export const WRITE_FILE = defineTool({
  name: 'write_file',
  title: 'Write a file',
  description:
    'Creates a file, or replaces its whole content in one step. Says which of them happened. To change a part of a file, use edit_file.',
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  parameters: PARAMETERS,
  required: ['path', 'content'],
  summary: ({ path }) => `write ${path}`,
  run: writeFile,
});

async function writeFile(args: Arguments, call: Call): Promise<Answer> {
  requireWritable(call, args.path);
  const bytes = Buffer.from(args.content);
  if (bytes.length > MAX_WRITTEN_BYTES) {
    throw new ToolFailure(
      `The content has ${bytes.length} bytes, and ${MAX_WRITTEN_BYTES} are possible. Write it in parts with exec_command.`,
    );
  }
  const path = await openPath(call, args.path);
  return changing(call, path, async () => {
    const facts = await factsOf(call, path);
    if (facts?.isDirectory) throw new ToolFailure(`${path.shown} is a directory. Choose another name.`);
    if (facts !== null && !facts.isFile)
      throw new ToolFailure(`${path.shown} is a device, pipe or socket. Use exec_command to write to it.`);
    if (facts === null && args.create_parents) await createParents(call, path);
    await replace(call, path, bytes, facts !== null);
    const action = facts === null ? 'created' : 'replaced';
    const next = 'Next: nothing; the file is written.';
    return {
      text: `${path.shown} was ${action}: ${bytes.length} bytes.\n${next}`,
      structured: { environment: call.target.name, path: path.native, action, size: bytes.length, next },
    };
  });
}

/** Replaces the content of a file in one step. A link stays: its target is replaced. */
export async function replace(call: Call, path: OpenPath, bytes: Uint8Array, exists: boolean): Promise<void> {
  const files = filesOf(call);
  try {
    const uri = exists ? await files.canonicalize(path.uri, path.options) : path.uri;
    await files.replaceFile(uri, [bytes], path.options).catch(async (error: unknown) => {
      if (!(error instanceof ClientError) || error.kind !== 'unsupported') throw error;
      await files.writeFile(uri, bytes, path.options);
    });
  } catch (error) {
    const isMissing = error instanceof ClientError && ['notFound', 'notDirectory'].includes(error.kind);
    if (!isMissing || exists) throw pathFailure(call, path, error);
    const link = (await brokenLink(call, path)) ?? (await brokenLink(call, parentOf(path)));
    if (link !== null) throw link;
    const parent = shownName(toNativePath(parentUri(path.uri)));
    throw new ToolFailure(
      error.kind === 'notDirectory'
        ? `A part of the path ${parent} is not a directory. Choose another path.`
        : `The directory ${parent} does not exist. Pass create_parents true to create it.`,
      { kind: error.kind },
      error,
    );
  }
}

async function createParents(call: Call, path: OpenPath): Promise<void> {
  try {
    await filesOf(call).createDirectory(parentUri(path.uri), { ...path.options, recursive: true });
  } catch (error) {
    throw (await brokenLink(call, parentOf(path))) ?? pathFailure(call, path, error);
  }
}

function parentOf(path: OpenPath): OpenPath {
  const uri = parentUri(path.uri);
  return { ...path, uri, shown: toNativePath(uri) };
}
