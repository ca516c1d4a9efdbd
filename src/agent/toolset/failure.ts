/** A call that cannot succeed, with a text that a model can act on. */
export class ToolFailure extends Error {
  override readonly name = 'ToolFailure';
  /** Facts for `structured`. */
  readonly facts: Readonly<Record<string, unknown>>;

  /** The machine-readable reason; null when there is none. */
  get kind(): string | null {
    return typeof this.facts.kind === 'string' ? this.facts.kind : null;
  }

  constructor(message: string, facts: Readonly<Record<string, unknown>> = {}, cause?: unknown) {
    super(message, { cause });
    this.facts = facts;
  }
}
