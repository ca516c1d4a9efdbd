// npm run fuzz -- [--seconds N] [--seed S] [--attacks N]
import { parseArgs } from 'node:util';
import { ROUND, runFuzz } from './fuzz.mjs';

const { values } = parseArgs({
  options: { seconds: { type: 'string' }, seed: { type: 'string' }, attacks: { type: 'string' } },
});
const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
const attacks = Number(values.attacks ?? 1_000_000);
const endsAt = performance.now() + Number(values.seconds ?? 60) * 1000;
let done = 0;

process.stdout.write(`seed ${seed}\n`);
try {
  await runFuzz({
    seed,
    attacks,
    goOn: (count) => {
      done = count;
      return values.attacks !== undefined || performance.now() < endsAt;
    },
  });
  process.stdout.write(`${done} attacks, no failures\n`);
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.stderr.write(`repeat it with: npm run fuzz -- --seed ${seed} --attacks ${done + ROUND}\n`);
  process.exitCode = 1;
}
