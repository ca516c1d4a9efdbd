// Checks the walks of ARCHITECTURE.md: every listed file exists, and the number in a heading is the number of files below it.
//
//   ### Start a process (3 files)
//   1. `src/transport/websocket.ts`: receives the frame.
//   Also run: `src/base/once.ts`, `src/base/uptime.ts`.
//
// Prints each problem as `ARCHITECTURE.md:line: reason` and exits 1 if there is one.
//
//   node scripts/check-walks.mjs [ROOT]     ROOT holds ARCHITECTURE.md; the project itself by default
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = resolve(process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..'));
const WALKS = 6;

const lines = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8').split('\n');
const problems = [];
const walks = [];
for (const [index, line] of lines.entries()) {
  const heading = /^### (.+) \((\d+) files\)$/.exec(line);
  if (heading !== null)
    walks.push({ title: heading[1], count: Number(heading[2]), line: index + 1, files: [] });
  else if (line.startsWith('#')) walks.push(null);
  const walk = walks.at(-1);
  if (walk && line.startsWith('Also run: ')) {
    for (const [, file] of line.matchAll(/`([^`]+)`/g)) checkFile(walk, file, index + 1);
  }
  const item = /^(\d+)\. `([^`]+)`: \S/.exec(line);
  if (walk && item !== null) check(walk, Number(item[1]), item[2], index + 1);
  else if (walk && /^\d+\./.test(line))
    report(index + 1, 'a step begins with a number and a file: 1. `src/x.ts`: what it does');
}
const found = walks.filter((walk) => walk !== null);
for (const { title, count, line, files } of found) {
  if (files.length !== count) report(line, `"${title}" says ${count} files and lists ${files.length}`);
}
if (found.length !== WALKS) report(1, `there are ${found.length} walks instead of ${WALKS}`);
for (const problem of problems) process.stdout.write(`${problem}\n`);
process.exitCode = problems.length > 0 ? 1 : 0;

function check(walk, number, file, line) {
  if (number !== walk.files.length + 1)
    report(line, `step ${walk.files.length + 1} of "${walk.title}" has the number ${number}`);
  checkFile(walk, file, line);
}

function checkFile(walk, file, line) {
  if (!existsSync(join(ROOT, file))) report(line, `"${walk.title}" names ${file}, which does not exist`);
  if (walk.files.includes(file)) report(line, `"${walk.title}" names ${file} twice`);
  walk.files.push(file);
}

function report(line, reason) {
  problems.push(`ARCHITECTURE.md:${line}: ${reason}`);
}
