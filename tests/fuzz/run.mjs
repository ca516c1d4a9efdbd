// npm run fuzz -- [--seconds N] [--seed S] [--attacks N]
import { parseArgs } from 'node:util';
import { ROUND, runFuzz } from './fuzz.mjs';
import { runHostile } from './hostile.mjs';

const { values } = parseArgs({
  options: { seconds: { type: 'string' }, seed: { type: 'string' }, attacks: { type: 'string' } },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const attacks = Number(values.attacks ?? 1_000_000);
const startedAt = performance.now();
const seconds = Number(values.seconds ?? 60);
let done = 0;

/** Each of the two kinds gets half of the time. */
function hasTime(share) {
  return performance.now() - startedAt < seconds * 1000 * share;
}

process.stdout.write(`seed ${seed}\n`);
try {
  await runFuzz({
    seed,
    attacks,
    goOn: (count) => {
      done = count;
      return values.attacks !== undefined || hasTime(0.5);
    },
  });
  process.stdout.write(`${done} attacks, no failures\n`);
  const measured = await runHostile({ seed, goOn: () => hasTime(1) });
  process.stdout.write(`${measured} variants of hostile requests, none blocked the event loop\n`);
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.stderr.write(`repeat it with: npm run fuzz -- --seed ${seed} --attacks ${done + ROUND}\n`);
  process.exitCode = 1;
}
