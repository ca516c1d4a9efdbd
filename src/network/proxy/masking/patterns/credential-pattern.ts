import { NetworkError } from '../../../errors.ts';
import { MIN_DISTINCTIVE_PREFIX, MIN_EMBEDDED_LENGTH } from '../limits.ts';
import {
  Automaton,
  type MatchBudget,
  newBudget,
  newStates,
  type StateBudget,
  spendSearch,
} from './automaton.ts';
import { parsePattern } from './parse.ts';
import { sampleOf } from './sample.ts';
import { contains, type PatternNode, range, WORD } from './syntax.ts';

/** The shape of a family of credentials. */
export class CredentialPattern {
  readonly #node: PatternNode;
  readonly #whole: Automaton;
  /** Null for a shape that is not looked for. */
  readonly #anywhere: Automaton | null;
  /** What every text of this shape begins with. */
  readonly #prefix: string;

  /** Throws NetworkError when it cannot be used: see {@link parsePattern}. */
  constructor(text: string, states: StateBudget = newStates()) {
    this.#node = parsePattern(text);
    this.#whole = new Automaton(this.#node, true, states);
    this.#prefix = fixedPrefix(this.#node);
    const isDistinctive = this.#prefix.length >= MIN_DISTINCTIVE_PREFIX;
    this.#anywhere = isDistinctive ? new Automaton(this.#node, false, states) : null;
    if (this.#whole.matches('', newBudget())) {
      throw new NetworkError('invalid', 'a pattern cannot be used: it describes a text without characters');
    }
  }

  matches(text: string, budget: MatchBudget): boolean {
    return this.#whole.matches(text, budget);
  }

  /**
   * The credentials that stand in a text by themselves, with no letter or digit next to them. A shape that begins with nothing in
   * particular is not looked for: it might be anything.
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

  /** A random text of this shape that is long enough to be told from others, or null when none was found. */
  sample(budget: MatchBudget): string | null {
    const sample = sampleOf(this.#node, budget);
    if (sample === null || sample.length < MIN_EMBEDDED_LENGTH) return null;
    return this.matches(sample, budget) ? sample : null;
  }
}

/** Whether no credential goes on here. */
function isEdge(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return !contains(WORD, unit) && !contains([range('-', '-')], unit);
}

function fixedPrefix(node: PatternNode): string {
  let prefix = '';
  for (const part of node.kind === 'sequence' ? node.parts : [node]) {
    if (part.kind === 'place') continue;
    const [only, ...others] = part.kind === 'set' ? part.ranges : [];
    if (only === undefined || others.length > 0 || only[0] !== only[1]) break;
    prefix += String.fromCharCode(only[0]);
  }
  return prefix;
}
