import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { MAX_PATH_KEYS } from './limits.ts';
import { list } from './list.ts';
import { doc, Name, Uri } from './scalars.ts';

const KeyPaths = once(() => list(list(Name(), MAX_PATH_KEYS)));

export const EnvironmentConfigReadParams = once(() =>
  z.object({
    cwd: doc(Uri(), 'The directory that the configuration applies to, a `file:` URI. It need not exist.'),
    configPaths: doc(
      KeyPaths(),
      'The parts of the configuration to return. Each path is a list of literal keys.',
    ),
    requirementsPaths: doc(KeyPaths(), 'The parts of the requirements to return, in the same form.'),
  }),
);

const Layers = once(() =>
  z.object({
    layers: doc(
      z.array(
        z.object({
          source: doc(z.string(), 'Where the layer comes from, for people.'),
          baseDir: doc(z.string(), 'Base directory of its relative paths, a `file:` URI.'),
          toml: doc(z.string(), 'The requested parts of the layer.'),
        }),
      ),
      'In order of increasing precedence. Layers without any requested part are left out.',
    ),
    cloudInsertionIndex: doc(z.number(), 'Index at which the client inserts its own layers.'),
  }),
);

export const EnvironmentConfigReadResult = once(() =>
  z.object({
    userHomeDir: doc(z.nullable(z.string()), 'A `file:` URI.'),
    codexHomeDir: doc(z.string(), "The directory of the user's configuration, a `file:` URI."),
    hostname: z.nullable(z.string()),
    config: Layers(),
    requirements: Layers(),
  }),
);
