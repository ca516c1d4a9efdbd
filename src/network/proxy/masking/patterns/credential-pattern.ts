import { randomInt } from 'node:crypto';
import { NetworkError } from '../../../errors.ts';
import {
  MASK_REPETITIONS,
  MAX_MASK_LENGTH,
  MIN_DISTINCTIVE_PREFIX,
  MIN_EMBEDDED_LENGTH,
  MIN_MASK_BITS,
} from '../limits.ts';
import {
  Automaton,
  type MatchBudget,
  newBudget,
  newStates,
  type StateBudget,
  spend,
  spendSearch,
} from './automaton.ts';
import { parsePattern } from './parse.ts';
import { type CharRange, common, contains, type PatternNode, range, WORD } from './syntax.ts';

/** The format of a kind of credentials. */
export class CredentialPattern {
  readonly #node: PatternNode;
  readonly #whole: Automaton;
  /** Null for a pattern that is not searched for. */
  readonly #anywhere: Automaton | null;
  /** The fixed text with which every match begins. */
  readonly #prefix: string;

  /** Throws NetworkError when the pattern is not supported: see {@link parsePattern}. */
  constructor(text: string, states: StateBudget = newStates()) {
    this.#node = parsePattern(text);
    this.#whole = new Automaton(this.#node, true, states);
    this.#prefix = fixedPrefix(this.#node);
    const isDistinctive = this.#prefix.length >= MIN_DISTINCTIVE_PREFIX;
    this.#anywhere = isDistinctive ? new Automaton(this.#node, false, states) : null;
    if (this.#whole.matches('', newBudget())) {
      throw new NetworkError('invalid', 'a pattern cannot be used: it matches the empty text');
    }
  }

  matches(text: string, budget: MatchBudget): boolean {
    return this.#whole.matches(text, budget);
  }

  /**
   * Finds credentials in a text that have no letter or digit next to them. A pattern without a distinctive prefix is not searched for,
   * because it would match ordinary text.
   */
  *findIn(text: string, budget: MatchBudget): Generator<string> {
    if (this.#anywhere === null) return;
    spendSearch(budget, text);
    let start = text.indexOf(this.#prefix);
    while (start !== -1) {
      const end = isEdge(text, start - 1) ? this.#anywhere.longestFrom(text, start, budget) : null;
      const isFound = end !== null && end - start >= MIN_EMBEDDED_LENGTH && isEdge(text, end);
      if (isFound) yield text.slice(start, end);
      start = text.indexOf(this.#prefix, isFound ? end : start + 1);
    }
  }

  /** A random text of this format, long enough to differ from ordinary text; null when none was found. */
  sample(budget: MatchBudget): string | null {
    const sample = sampleOf(this.#node, budget);
    if (sample === null || sample.length < MIN_EMBEDDED_LENGTH) return null;
    return this.matches(sample, budget) ? sample : null;
  }
}

/** Whether no character of a credential is at this position. */
function isEdge(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return !contains(WORD, unit) && !contains([range('-', '-')], unit);
}

function fixedPrefix(node: PatternNode): string {
  let prefix = '';
  for (const part of node.kind === 'sequence' ? node.parts : [node]) {
    if (part.kind === 'assertion') continue;
    const [only, ...others] = part.kind === 'set' ? part.ranges : [];
    if (only === undefined || others.length > 0 || only[0] !== only[1]) break;
    prefix += String.fromCharCode(only[0]);
  }
  return prefix;
}

/**
 * A random text that the pattern matches, judging by its parts. Null when it would be too long or not random enough. Throws
 * NetworkError when the budget is exhausted.
 */
function sampleOf(pattern: PatternNode, budget: MatchBudget): string | null {
  const text = new Sample(budget);
  text.add(pattern);
  return text.text;
}

class Sample {
  readonly #budget: MatchBudget;
  #text: string | null = '';
  /** Random bits so far. Choices do not count, because their options may be equal. */
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
      case 'assertion':
        break;
    }
  }

  #append(ranges: readonly CharRange[]): void {
    const choice = PREFERRED.map((wanted) => common(ranges, wanted)).find((found) => found.length > 0);
    // A header cannot contain other characters.
    if (choice === undefined || this.#text === null || this.#text.length >= MAX_MASK_LENGTH) {
      this.#text = null;
      return;
    }
    const [from, to] = choice[randomInt(choice.length)]!;
    this.#bits += Math.log2(choice.length * (to - from + 1));
    this.#text += String.fromCharCode(randomInt(from, to + 1));
  }
}

/** Letters and digits if possible: other characters may have a meaning where a credential is used. */
const PREFERRED: readonly (readonly CharRange[])[] = [
  [range('0', '9'), range('A', 'Z'), range('a', 'z')],
  [range('!', '~')],
];
