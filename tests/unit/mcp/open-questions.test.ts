import { expect, test } from 'vitest';
import { MAX_OPEN_QUESTIONS, QUESTION_EXPIRY_MS } from '../../../src/mcp/limits.ts';
import { OpenQuestions } from '../../../src/mcp/open-questions.ts';

const ARGS = { cmd: 'true' };
const accepted = (id: string) => ({ [id]: { action: 'accept' as const, content: {} } });

test('an answer counts once, for the same call', () => {
  const questions = new OpenQuestions();
  const id = questions.open('exec_command', ARGS);
  expect(questions.take('exec_command', ARGS, accepted(id))).toBe(true);
  expect(questions.take('exec_command', ARGS, accepted(id))).toBeNull();
  const other = questions.open('exec_command', ARGS);
  expect(other).not.toBe(id);
  expect(questions.take('exec_command', { cmd: 'false' }, accepted(other))).toBeNull();
  expect(questions.take('exec_command', ARGS, accepted(other))).toBeNull();
});

test('a question expires, and the oldest of too many is forgotten', () => {
  let now = 0;
  const questions = new OpenQuestions(() => now);
  const expired = questions.open('exec_command', ARGS);
  now = QUESTION_EXPIRY_MS;
  expect(questions.take('exec_command', ARGS, accepted(expired))).toBeNull();
  const ids = Array.from({ length: MAX_OPEN_QUESTIONS + 1 }, () => questions.open('exec_command', ARGS));
  expect(questions.take('exec_command', ARGS, accepted(ids[0]!))).toBeNull();
  expect(questions.take('exec_command', ARGS, accepted(ids.at(-1)!))).toBe(true);
});
