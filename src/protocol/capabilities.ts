import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { Sandbox } from './sandbox.ts';
import { doc, optional } from './scalars.ts';

const DiscoveredFile = once(() =>
  z.object({ path: doc(z.string(), 'A `file:` URI.'), contents: doc(z.string(), 'The whole file.') }),
);

export const CapabilityRootsDiscoverParams = once(() =>
  z.object({
    roots: doc(
      z.array(
        z.object({
          id: doc(z.string(), 'Comes back in the answer; need not be unique.'),
          path: doc(z.string(), 'A `file:` URI of a directory.'),
          sandbox: doc(optional(Sandbox()), 'What looking through it is confined to.'),
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
    manifest: doc(
      DiscoveredFile(),
      'The first of the three manifests that can be read. It need not be valid.',
    ),
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
    path: doc(z.string(), 'The path of the request as a parser of URIs spells it.'),
    plugin: doc(z.nullable(DiscoveredPlugin()), 'Null when the root itself has no manifest.'),
    skills: doc(z.array(DiscoveredSkill()), 'Sorted by path.'),
    namespaceManifests: doc(
      z.array(DiscoveredFile()),
      'What names the plugins: the manifest of the root or of the nearest directory above it, then those below.',
    ),
    warnings: doc(z.array(z.string()), 'What was left out and why, for people.'),
    error: doc(
      z.nullable(z.string()),
      'Why nothing could be found at all; then the other members are empty.',
    ),
  }),
);

export const CapabilityRootsDiscoverResult = once(() =>
  z.object({ roots: doc(z.array(DiscoveredRoot()), 'In the order of the request.') }),
);

export const CapabilitiesDiscoverParams = once(() =>
  z.object({
    cwd: doc(z.string(), 'A `file:` URI. What is installed is the same everywhere.'),
    sandbox: doc(optional(Sandbox()), 'What looking it up is confined to.'),
  }),
);

const Text = once(() => z.nullable(z.string()));

const InstalledSkill = once(() =>
  z.object({
    name: doc(z.string(), 'Preceded by the name of its plugin and a colon, if it is part of one.'),
    description: z.string(),
    shortDescription: Text(),
    path: doc(z.string(), 'Of its `SKILL.md`, a `file:` URI.'),
    discoveryRoot: doc(
      z.optional(z.object({ id: z.string(), path: z.string() })),
      'Where it was found; absent in plugins.',
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
      'What it needs to be there.',
    ),
    policy: doc(
      z.nullable(
        z.object({ allowImplicitInvocation: z.nullable(z.boolean()), products: z.array(z.string()) }),
      ),
      'When it may be used.',
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
      'Sorted by id; one version of each.',
    ),
    skills: doc(z.array(InstalledSkill()), 'Those that are part of no plugin.'),
    warnings: doc(z.array(z.string()), 'What was left out and why, for people.'),
  }),
);
