import type { AgentTool } from '../agent/toolset/index.ts';
import type { McpOptions } from './options.ts';

type Choices = Pick<McpOptions, 'environments' | 'readOnly' | 'sandbox' | 'directory' | 'confineRoots'>;

/** The workspaces that are in force, by the name of the environment. */
export type Workspaces = ReadonlyMap<string, readonly string[]>;

/** What a model must know of the server: how programs go on, and what it may change. */
export function instructionsFor(choices: Choices, workspaces: Workspaces): string {
  const tools = choices.readOnly ? READING : RUNNING;
  return `${tools} ${RETENTION} ${sandboxText(choices)} ${workspaceText(choices, workspaces)}`;
}

/** The description of a tool, with what the sandbox means for it. */
export function descriptionFor(
  { name, description }: Pick<AgentTool, 'name' | 'description'>,
  choices: Choices,
  workspaces: Workspaces,
): string {
  const workspace = workspaceText(choices, workspaces);
  if (name === 'exec_command') return `${description} ${PROGRAMS[choices.sandbox]} ${workspace}`;
  if (name !== 'write_file' && name !== 'edit_file') return description;
  return `${description} ${FILES[choices.sandbox]} ${workspace}`;
}

const RUNNING = `\
Runs programs and works with files. Programs keep running when a call ends, is cancelled or the client disconnects: exec_command returns \
a process reference, and wait_process, read_output, write_stdin and kill_process continue with it, also in a later session \
(list_processes finds it). Output stays readable after the exit; read_output continues at a cursor. Use wait_process instead of \
repeated calls of read_output.`;

const READING = `\
Reads files and the output of programs. No tool starts a program or changes anything: the user has chosen --read-only. list_processes \
finds programs that run or have ended, wait_process waits for one, and read_output continues at a cursor, also after the exit.`;

const RETENTION = `\
By default the last 1 MiB of each output stream of a program is retained; a program that prints more should write to a file.`;

const PROGRAMS = {
  'workspace-write': `\
Sandbox workspace-write: programs read everything, and write only to the workspace and to /tmp and $TMPDIR, which are those of the \
machine. .git, .agents, .codex and .aws in the workspace are read-only, so git cannot commit. There is no network: programs can neither \
connect nor listen.`,
  'read-only': `\
Sandbox read-only: programs read everything and change nothing, /tmp included. There is no network: programs can neither connect nor \
listen.`,
  off: 'There is no sandbox.',
} as const;

const FILES = {
  'workspace-write': 'It works only in the workspace.',
  'read-only': 'It is refused here: the sandbox is read-only.',
  off: 'There is no sandbox.',
} as const;

function sandboxText({ sandbox, readOnly }: Choices): string {
  const files = 'File tools work only in the workspace, also where programs may write elsewhere.';
  if (sandbox === 'off') return PROGRAMS.off;
  return readOnly
    ? 'File tools work only in the workspace.'
    : `${PROGRAMS[sandbox]} ${files} If the sandbox stops you, ask the user.`;
}

function workspaceText(choices: Choices, workspaces: Workspaces): string {
  const { environments } = choices;
  const texts = environments.map(({ name, isLocal }) => {
    const roots = workspaces.get(name)?.join(', ') ?? (isLocal ? unasked(choices) : 'its default directory');
    return environments.length === 1 ? roots : `${roots} in the environment "${name}"`;
  });
  return `The workspace is ${texts.join('; ')}.`;
}

/** The workspace on this machine before the client has named its roots. */
function unasked({ directory, confineRoots }: Choices): string {
  return confineRoots
    ? `${directory}, or the roots that the client names within it`
    : `what the client names as its roots, or ${directory} if it names none`;
}
