import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { list } from './list.ts';
import { doc, optional, Pattern, Uri } from './scalars.ts';

const SpecialPath = once(() =>
  z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('root') }),
    z.object({ kind: z.literal('minimal') }),
    z.object({ kind: z.literal('project_roots'), subpath: optional(Uri()) }),
    z.object({ kind: z.literal('current_working_directory'), subpath: optional(Uri()) }),
    z.object({ kind: z.literal('tmpdir') }),
    z.object({ kind: z.literal('slash_tmp') }),
    z.object({ kind: z.literal('unknown'), path: Uri(), subpath: optional(Uri()) }),
  ]),
);

const EntryPath = once(() =>
  z.discriminatedUnion('type', [
    z.object({ type: z.literal('path'), path: doc(Uri(), 'A `file:` URI.') }),
    z.object({
      type: z.literal('glob_pattern'),
      pattern: doc(Pattern(), 'Absolute, relative to `cwd`, or below each workspace root.'),
    }),
    z.object({ type: z.literal('special'), value: SpecialPath() }),
  ]),
);

const Entry = once(() =>
  z.object({
    path: EntryPath(),
    access: doc(z.enum(['read', 'write', 'deny', 'none']), '`none` is a synonym of `deny`.'),
    missing_path_behavior: optional(z.literal('skip')),
  }),
);

const FileSystemPolicy = once(() =>
  z.discriminatedUnion('type', [
    z.object({
      type: z.literal('restricted'),
      entries: doc(
        list(Entry()),
        'The most specific entry that covers a path applies. Without one there is no access.',
      ),
      glob_scan_max_depth: doc(
        optional(z.int().check(z.positive())),
        'Depth in directories to which patterns are searched.',
      ),
    }),
    z.object({ type: z.literal('unrestricted') }),
  ]),
);

const NetworkPolicy = once(() => z.enum(['restricted', 'enabled']));

const Permissions = once(() =>
  z.discriminatedUnion('type', [
    z.object({ type: z.literal('managed'), file_system: FileSystemPolicy(), network: NetworkPolicy() }),
    z.object({ type: z.literal('disabled') }),
    z.object({ type: z.literal('external'), network: NetworkPolicy() }),
  ]),
);

/** A sandbox as a permission profile. Outer keys are camel case, keys of `permissions` are snake case. */
const ProfileForm = once(() =>
  z.object({
    permissions: Permissions(),
    cwd: doc(optional(Uri()), 'Base directory of relative patterns.'),
    workspaceRoots: doc(z._default(list(Uri()), []), 'The directories that `project_roots` stands for.'),
    policyContext: doc(
      optional(z.object({ cwd: optional(Uri()), workspaceRoots: z._default(list(Uri()), []) })),
      'Replaces `cwd` and `workspaceRoots`.',
    ),
    windowsSandboxLevel: doc(
      z.enum(['disabled', 'restricted-token', 'elevated', 'mxc']),
      'Required. No effect outside Windows.',
    ),
    windowsSandboxProxySettingsMode: optional(z.enum(['reconcile', 'preserve'])),
    useLegacyLandlock: doc(
      z._default(z.boolean(), false),
      'Refused together with a restricted file system, which it cannot enforce.',
    ),
    sandboxOverride: doc(
      z.optional(z.enum(['noOverride', 'escalatedSandboxWithRestrictions', 'bypassSandboxFirstAttempt'])),
      'No effect: the requested sandbox is enforced.',
    ),
    userHomeDir: optional(Uri()),
    temporaryDirectories: optional(list(Uri())),
  }),
);

/** The two classic sandboxes, by name. */
const NamedForm = once(() =>
  z.discriminatedUnion('type', [
    z.object({ type: z.literal('readOnly'), networkAccess: z._default(z.boolean(), false) }),
    z.object({
      type: z.literal('workspaceWrite'),
      writableRoots: doc(z._default(list(Uri()), []), 'Writable directories besides the working directory.'),
      networkAccess: z._default(z.boolean(), false),
      excludeTmpdirEnvVar: z._default(z.boolean(), false),
      excludeSlashTmp: z._default(z.boolean(), false),
      cwd: doc(optional(Uri()), 'The workspace. Defaults to the `cwd` of the program.'),
    }),
  ]),
);

/** The sandbox of a program or a file operation. */
export const Sandbox = once(() => z.union([ProfileForm(), NamedForm()]));

/** A sandbox as a client writes it. */
export type SandboxRequest = z.input<ReturnType<typeof Sandbox>>;
/** A sandbox as a server reads it. */
export type SandboxContext = z.output<ReturnType<typeof Sandbox>>;
export type SandboxProfile = z.output<ReturnType<typeof ProfileForm>>;
