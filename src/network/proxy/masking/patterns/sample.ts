import { randomInt } from 'node:crypto';
import { MASK_REPETITIONS, MAX_MASK_LENGTH, MIN_MASK_BITS } from '../limits.ts';
import { type MatchBudget, spend } from './automaton.ts';
import { type CharRange, common, type PatternNode, range } from './syntax.ts';

/**
 * A random text of the pattern's shape, as far as that can be told from its parts; null when it would be too long, or
 * the pattern leaves too little to chance. Throws NetworkError when the budget is used up.
 */
export function sampleOf(pattern: PatternNode, budget: MatchBudget): string | null {
  const text = new Sample(budget);
  text.add(pattern);
  return text.text;
}

class Sample {
  readonly #budget: MatchBudget;
  #text: string | null = '';
  /** Of what was drawn. Choices do not count: their options may be the same. */
  #bits = 0;

  constructor(budget: MatchBudget) {
    this.#budget = budget;
  }

  get text(): string | null {
    return this.#bits < MIN_MASK_BITS ? null : this.#text;
  }

  add(node: PatternNode): void {
    if (this.#text === null) return;
    spend(this.#budget, node.kind === 'set' ? node.ranges.length : 1);
    switch (node.kind) {
      case 'set':
        this.#append(node.ranges);
        break;
      case 'sequence':
        for (const part of node.parts) this.add(part);
        break;
      case 'choice':
        this.add(node.options[randomInt(node.options.length)]!);
        break;
      case 'repeat': {
        const count = Math.min(Math.max(MASK_REPETITIONS, node.min), node.max);
        for (let index = 0; index < count && this.#text !== null; index++) this.add(node.part);
        break;
      }
      case 'place':
        break;
    }
  }

  #append(ranges: readonly CharRange[]): void {
    const choice = PREFERRED.map((wanted) => common(ranges, wanted)).find((found) => found.length > 0);
    // What nobody can type stands in no header either.
    if (choice === undefined || this.#text === null || this.#text.length >= MAX_MASK_LENGTH) {
      this.#text = null;
      return;
    }
    const [from, to] = choice[randomInt(choice.length)]!;
    this.#bits += Math.log2(choice.length * (to - from + 1));
    this.#text += String.fromCharCode(randomInt(from, to + 1));
  }
}

/** Letters and digits where they will do: other characters may mean something where a credential is used. */
const PREFERRED: readonly (readonly CharRange[])[] = [
  [range('0', '9'), range('A', 'Z'), range('a', 'z')],
  [range('!', '~')],
];
