import { randomUUID } from 'node:crypto';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import type { ExecBackend, StartParams } from '../../src/client/backend.ts';
import { controlTests } from './process-suite-control.ts';
import { eventTests } from './process-suite-events.ts';
import { plain } from './programs.ts';

export interface BackendUnderTest {
  readonly backend: ExecBackend;
  close(): Promise<void>;
}

export interface SuiteOptions {
  /** False for a server without extensions. */
  readonly extensions?: boolean;
  /** Why the suite is skipped. */
  readonly skipped?: string | null;
}

/** What the tests of a backend use. */
export interface ProcessFixture {
  /** Whether the server has extensions. */
  readonly extensions: boolean;
  /** The working directory of the programs. */
  readonly folder: string;
  /** Starts a shell script. */
  readonly start: (
    script: string,
    params?: Partial<StartParams>,
    options?: Parameters<ExecBackend['start']>[1],
  ) => ReturnType<ExecBackend['start']>;
}

/** The behavior that every backend shares. Each test uses its own processes in one backend. */
export function processSuite(
  name: string,
  open: () => Promise<BackendUnderTest>,
  { extensions = true, skipped = null }: SuiteOptions = {},
): void {
  const title = skipped === null ? name : `${name} (skipped: ${skipped})`;
  describe.skipIf(skipped !== null)(title, () => {
    let underTest: BackendUnderTest;
    let folder: string;

    beforeAll(async () => {
      folder = realpathSync(mkdtempSync(join(tmpdir(), 'processes-')));
      underTest = await open();
    });

    afterAll(async () => {
      await underTest?.close();
      rmSync(folder, { recursive: true });
    });

    const fixture: ProcessFixture = {
      extensions,
      get folder() {
        return folder;
      },
      start: (script, params = {}, options) =>
        underTest.backend.start({ ...program(script), cwd: `file://${folder}`, ...params }, options),
    };
    eventTests(fixture);
    controlTests(fixture);
  });
}

/** Start params of a shell script with a unique id. */
function program(script: string): StartParams {
  return { processId: randomUUID(), argv: ['/bin/sh', '-c', script], ...plain };
}
