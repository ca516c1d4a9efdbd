import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { doc } from './scalars.ts';

const KeyPaths = once(() => z.array(z.array(z.string())));

export const EnvironmentConfigReadParams = once(() =>
  z.object({
    cwd: doc(z.string(), 'The directory it is to hold for, a `file:` URI. It need not exist.'),
    configPaths: doc(KeyPaths(), 'What is wanted of the configuration; each path is a list of literal keys.'),
    requirementsPaths: doc(KeyPaths(), 'What is wanted of the requirements, likewise.'),
  }),
);

const Layers = once(() =>
  z.object({
    layers: doc(
      z.array(
        z.object({
          source: doc(z.string(), 'Where it comes from, for people.'),
          baseDir: doc(z.string(), 'What relative paths in it are relative to, a `file:` URI.'),
          toml: doc(z.string(), 'What was asked for of it.'),
        }),
      ),
      'The weightiest last. Layers that hold nothing of what was asked for are left out.',
    ),
    cloudInsertionIndex: doc(z.number(), 'Where layers belong that only the client knows of.'),
  }),
);

export const EnvironmentConfigReadResult = once(() =>
  z.object({
    userHomeDir: doc(z.nullable(z.string()), 'A `file:` URI.'),
    codexHomeDir: doc(z.string(), "Where the user's own configuration is, a `file:` URI."),
    hostname: z.nullable(z.string()),
    config: Layers(),
    requirements: Layers(),
  }),
);
