import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { list } from './list.ts';
import { Sandbox } from './sandbox.ts';
import { doc, Identifier, optional, Uri } from './scalars.ts';

const DiscoveredFile = once(() =>
  z.object({ path: doc(z.string(), 'A `file:` URI.'), contents: doc(z.string(), 'The whole file.') }),
);

export const CapabilityRootsDiscoverParams = once(() =>
  z.object({
    roots: doc(
      list(
        z.object({
          id: doc(Identifier(), 'Returned in the result. Need not be unique.'),
          path: doc(Uri(), 'A `file:` URI of a directory.'),
          sandbox: doc(optional(Sandbox()), 'The sandbox for reading the directory.'),
        }),
      ),
      'At most 128.',
    ),
  }),
);

const DiscoveredSkill = once(() =>
  z.object({
    instructions: doc(DiscoveredFile(), 'A `SKILL.md`.'),
    metadata: doc(z.nullable(DiscoveredFile()), 'The `agents/openai.yaml` beside it.'),
  }),
);

const DiscoveredPlugin = once(() =>
  z.object({
    manifest: doc(DiscoveredFile(), 'The first readable one of the three manifests. It may be invalid.'),
    mcpConfig: doc(
      z.nullable(DiscoveredFile()),
      'The declared file, or `.mcp.json`; null when it is inline.',
    ),
    appsConfig: doc(z.nullable(DiscoveredFile()), 'The declared file, or `.app.json`.'),
  }),
);

const DiscoveredRoot = once(() =>
  z.object({
    id: z.string(),
    path: doc(z.string(), 'The requested path, normalized as a URI.'),
    plugin: doc(z.nullable(DiscoveredPlugin()), 'Null when the root itself has no manifest.'),
    skills: doc(z.array(DiscoveredSkill()), 'Sorted by path.'),
    namespaceManifests: doc(
      z.array(DiscoveredFile()),
      'The manifests that name the plugins: that of the root or of its nearest ancestor, then those below.',
    ),
    warnings: doc(z.array(z.string()), 'What was skipped and why, for people.'),
    error: doc(z.nullable(z.string()), 'Why the discovery failed. The other members are then empty.'),
  }),
);

export const CapabilityRootsDiscoverResult = once(() =>
  z.object({ roots: doc(z.array(DiscoveredRoot()), 'In the order of the request.') }),
);

export const CapabilitiesDiscoverParams = once(() =>
  z.object({
    cwd: doc(Uri(), 'A `file:` URI. It does not affect the result.'),
    sandbox: doc(optional(Sandbox()), 'The sandbox for reading the files.'),
  }),
);

const Text = once(() => z.nullable(z.string()));

const InstalledSkill = once(() =>
  z.object({
    name: doc(z.string(), 'Prefixed with the name of its plugin and a colon, if it belongs to one.'),
    description: z.string(),
    shortDescription: Text(),
    path: doc(z.string(), 'Path of its `SKILL.md`, a `file:` URI.'),
    discoveryRoot: doc(
      z.optional(z.object({ id: z.string(), path: z.string() })),
      'Where the skill was found. Absent for skills of plugins.',
    ),
    dependencies: doc(
      z.nullable(
        z.object({
          tools: z.array(
            z.object({
              type: z.string(),
              value: z.string(),
              description: Text(),
              transport: Text(),
              command: Text(),
              url: Text(),
              oauthCallbackPort: z.nullable(z.number()),
            }),
          ),
        }),
      ),
      'What the skill depends on.',
    ),
    policy: doc(
      z.nullable(
        z.object({ allowImplicitInvocation: z.nullable(z.boolean()), products: z.array(z.string()) }),
      ),
      'When the skill may be used.',
    ),
  }),
);

export const CapabilitiesDiscoverResult = once(() =>
  z.object({
    plugins: doc(
      z.array(
        z.object({
          id: doc(z.string(), 'PLUGIN@MARKETPLACE.'),
          displayName: z.string(),
          remotePluginId: Text(),
          version: z.string(),
          root: doc(z.string(), 'A `file:` URI.'),
          files: DiscoveredPlugin(),
          skills: z.array(InstalledSkill()),
        }),
      ),
      'Sorted by id. One version of each.',
    ),
    skills: doc(z.array(InstalledSkill()), 'Skills that belong to no plugin.'),
    warnings: doc(z.array(z.string()), 'What was skipped and why, for people.'),
  }),
);
