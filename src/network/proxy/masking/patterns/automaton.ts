import { NetworkError } from '../../../errors.ts';
import { MAX_ALL_STATES, MAX_MATCH_STEPS, MAX_PATTERN_STATES, SEARCHED_PER_STEP } from '../limits.ts';
import { type Assertion, type CharRange, contains, type PatternNode, WORD } from './syntax.ts';

/** Remaining steps, shared by all comparisons of one start. */
export interface MatchBudget {
  left: number;
}

export function newBudget(): MatchBudget {
  return { left: MAX_MATCH_STEPS };
}

/** Takes steps from the budget. Throws NetworkError when it is exhausted. */
export function spend(budget: MatchBudget, steps: number): void {
  budget.left -= steps;
  if (budget.left < 0) {
    throw new NetworkError('invalid', 'comparing the environment with the patterns takes too long');
  }
}

/** Takes the cost of searching a text for a fixed string. */
export function spendSearch(budget: MatchBudget, text: string): void {
  spend(budget, Math.ceil(text.length / SEARCHED_PER_STEP));
}

/** Remaining states, shared by all patterns of one start. */
export interface StateBudget {
  left: number;
}

export function newStates(): StateBudget {
  return { left: MAX_ALL_STATES };
}

type State =
  | { readonly kind: 'set'; readonly ranges: readonly CharRange[]; readonly next: number }
  | { readonly kind: 'assertion'; readonly assertion: Assertion; readonly next: number }
  | { readonly kind: 'either'; next: readonly number[] }
  | { readonly kind: 'end' };

/** A nondeterministic automaton for a pattern. Follows all paths in parallel, so that matching takes linear time. */
export class Automaton {
  readonly #states: State[] = [{ kind: 'end' }];
  readonly #first: number;
  readonly #budget: StateBudget;

  /** Without `anchored` the pattern matches anywhere and ignores its start and end anchors. Throws when it is too large. */
  constructor(pattern: PatternNode, anchored: boolean, budget: StateBudget) {
    this.#budget = budget;
    this.#first = this.#build(pattern, 0, anchored);
  }

  /** Whether the pattern matches the whole text. */
  matches(text: string, budget: MatchBudget): boolean {
    return this.#run(text, 0, budget).includes(text.length);
  }

  /** The end of the longest match that begins at `start`; null when there is none. */
  longestFrom(text: string, start: number, budget: MatchBudget): number | null {
    return this.#run(text, start, budget).at(-1) ?? null;
  }

  /** The state from which `node` leads to `next`. */
  #build(node: PatternNode, next: number, anchored: boolean): number {
    switch (node.kind) {
      case 'set':
        return this.#add({ kind: 'set', ranges: node.ranges, next });
      case 'assertion': {
        const ignored = !anchored && (node.assertion === 'start' || node.assertion === 'end');
        return ignored ? next : this.#add({ kind: 'assertion', assertion: node.assertion, next });
      }
      case 'sequence':
        return node.parts.reduceRight((after, part) => this.#build(part, after, anchored), next);
      case 'choice':
        return this.#add({
          kind: 'either',
          next: node.options.map((option) => this.#build(option, next, anchored)),
        });
      case 'repeat':
        return this.#repeat(node, next, anchored);
    }
  }

  #repeat(
    { part, min, max }: Extract<PatternNode, { kind: 'repeat' }>,
    next: number,
    anchored: boolean,
  ): number {
    let first = next;
    if (max === Number.POSITIVE_INFINITY) {
      const again: State = { kind: 'either', next: [] };
      first = this.#add(again);
      again.next = [this.#build(part, first, anchored), next];
    } else {
      for (let count = min; count < max; count++) {
        first = this.#add({ kind: 'either', next: [this.#build(part, first, anchored), next] });
      }
    }
    for (let count = 0; count < min; count++) first = this.#build(part, first, anchored);
    return first;
  }

  #add(state: State): number {
    if (this.#states.length >= MAX_PATTERN_STATES) {
      throw new NetworkError('invalid', 'a pattern is too large: its repetitions multiply');
    }
    if (this.#budget.left-- <= 0) throw new NetworkError('invalid', 'the patterns together are too large');
    return this.#states.push(state) - 1;
  }

  /** All ends of matches from `start`, the longest last. */
  #run(text: string, start: number, budget: MatchBudget): number[] {
    const ends: number[] = [];
    let current = this.#reach([this.#first], text, start, budget);
    for (let at = start; current.size > 0; at++) {
      if (current.has(0)) ends.push(at);
      if (at === text.length) break;
      const unit = text.charCodeAt(at);
      const next: number[] = [];
      for (const index of current) {
        const state = this.#states[index]!;
        if (state.kind !== 'set') continue;
        spend(budget, state.ranges.length);
        if (contains(state.ranges, unit)) next.push(state.next);
      }
      current = this.#reach(next, text, at + 1, budget);
    }
    return ends;
  }

  /** The states reachable from these without consuming a character. */
  #reach(from: number[], text: string, at: number, budget: MatchBudget): Set<number> {
    const reached = new Set<number>();
    const open = from;
    while (open.length > 0) {
      const index = open.pop()!;
      if (reached.has(index)) continue;
      reached.add(index);
      spend(budget, 1);
      const state = this.#states[index]!;
      if (state.kind === 'either') open.push(...state.next);
      else if (state.kind === 'assertion' && isAt(state.assertion, text, at)) open.push(state.next);
    }
    return reached;
  }
}

function isAt(assertion: Assertion, text: string, at: number): boolean {
  if (assertion === 'start') return at === 0;
  if (assertion === 'end') return at === text.length;
  const isWord = (index: number) => contains(WORD, text.charCodeAt(index));
  return (isWord(at - 1) !== isWord(at)) === (assertion === 'wordBoundary');
}
