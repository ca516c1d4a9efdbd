import { createHash, randomUUID } from 'node:crypto';
import { inputResponse } from '@modelcontextprotocol/server';
import { MAX_OPEN_QUESTIONS, QUESTION_EXPIRY_MS } from './limits.ts';

/** The questions to the user that have no answer yet. Each takes one answer, for the same tool with the same arguments. */
export class OpenQuestions {
  readonly #now: () => number;
  /** By id, the oldest first. */
  readonly #open = new Map<string, { readonly call: string; readonly expiresAt: number }>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Opens a question and returns its id. */
  open(tool: string, args: unknown): string {
    const id = `approve-${randomUUID()}`;
    this.#open.set(id, { call: hashOf(tool, args), expiresAt: this.#now() + QUESTION_EXPIRY_MS });
    if (this.#open.size > MAX_OPEN_QUESTIONS) this.#open.delete(this.#open.keys().next().value!);
    return id;
  }

  /** Whether the user has accepted the call; null without an answer to an open question about it. The question is then closed. */
  take(tool: string, args: unknown, responses: Parameters<typeof inputResponse>[0]): boolean | null {
    for (const id of Object.keys(responses ?? {})) {
      const question = this.#open.get(id);
      const answer = inputResponse(responses, id);
      if (question === undefined || answer.kind !== 'elicit') continue;
      this.#open.delete(id);
      if (question.expiresAt <= this.#now() || question.call !== hashOf(tool, args)) continue;
      return answer.action === 'accept';
    }
    return null;
  }
}

function hashOf(tool: string, args: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([tool, args ?? {}]))
    .digest('hex');
}
