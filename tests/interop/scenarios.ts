import { describe, test } from 'vitest';
import { ensureReference } from '../../scripts/reference.mjs';
import { type ServerKind, World } from './world.ts';

/** Declares a test with its own server. */
export type Scenario = (name: string, play: (world: World) => Promise<void>) => void;

/**
 * Declares scenarios in which the real codex uses a server. Each runs twice, with the reference as a control: a failure with both is
 * a fault of the scenario. Without a codex program they are skipped, with the reason in their title.
 */
export function scenarios(title: string, define: (scenario: Scenario, kind: ServerKind) => void): void {
  const why = binary instanceof Error ? ` (skipped: ${binary.message})` : '';
  for (const kind of ['exec-server', 'reference'] as const) {
    describe.skipIf(binary instanceof Error).concurrent(`${title}: codex with ${kind}${why}`, () => {
      define((name, play) => test(name, () => inWorld(kind, play)), kind);
    });
  }
}

async function inWorld(kind: ServerKind, play: (world: World) => Promise<void>): Promise<void> {
  const world = await World.open(kind, binary as string);
  try {
    await play(world);
  } finally {
    await world.close();
  }
}

const binary: string | Error = await findCodex();

async function findCodex(): Promise<string | Error> {
  if (process.platform !== 'linux') return new Error('these tests read /proc');
  try {
    return await ensureReference();
  } catch (error) {
    return error as Error;
  }
}
