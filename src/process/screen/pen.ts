/** Changes to the attributes that text is drawn with (SGR): the last parameters for each attribute, in the order of their last use. */
export class Pen {
  readonly #attributes = new Map<string, string>();
  #reset = false;

  /** Applies the parameters of one SGR sequence, such as `1;38;5;208`. */
  apply(params: string): void {
    const fields = params.split(';', MAX_FIELDS);
    for (let at = 0; at < fields.length; at++) {
      const field = fields[at]!;
      const code = field === '' ? 0 : Number.parseInt(field, 10);
      const extended = EXTENDED_COLORS[code];
      // 38;5;n and 38;2;r;g;b in fields of their own, or 38:5:n in one.
      const more = extended === undefined || field.includes(':') ? 0 : fields[at + 1] === '2' ? 4 : 2;
      if (code === 0) this.reset();
      else if (code === 22) this.#set(['bold', 'dim'], field);
      else if (extended !== undefined) this.#set([extended], fields.slice(at, at + 1 + more).join(';'));
      else if (code in CODES) this.#set([CODES[code]!], field);
      else if (isColor(code, 30)) this.#set(['foreground'], field);
      else if (isColor(code, 40)) this.#set(['background'], field);
      at += more;
    }
  }

  /** Sets the default attributes. */
  reset(): void {
    this.#attributes.clear();
    this.#reset = true;
  }

  /** The sequence that makes these changes; empty when there are none. */
  sequence(): string {
    const params = [...(this.#reset ? ['0'] : []), ...this.#attributes.values()];
    return params.length === 0 ? '' : `\x1b[${params.join(';')}m`;
  }

  #set(attributes: readonly string[], params: string): void {
    for (const attribute of attributes) {
      this.#attributes.delete(attribute);
      this.#attributes.set(attribute, params.slice(0, MAX_FIELD_CHARACTERS));
    }
  }
}

/** Terminals read no more parameters of one sequence, and no longer ones. */
const MAX_FIELDS = 32;
const MAX_FIELD_CHARACTERS = 64;

/** Eight colours and their bright forms. */
function isColor(code: number, first: number): boolean {
  return (code >= first && code < first + 8) || (code >= first + 60 && code < first + 68);
}

const EXTENDED_COLORS: Readonly<Record<number, string>> = {
  38: 'foreground',
  48: 'background',
  58: 'underlineColor',
};

const CODES: Readonly<Record<number, string>> = {
  1: 'bold',
  2: 'dim',
  3: 'italic',
  4: 'underline',
  5: 'blink',
  6: 'blink',
  7: 'inverse',
  8: 'invisible',
  9: 'strikethrough',
  21: 'underline',
  23: 'italic',
  24: 'underline',
  25: 'blink',
  27: 'inverse',
  28: 'invisible',
  29: 'strikethrough',
  39: 'foreground',
  49: 'background',
  53: 'overline',
  55: 'overline',
  59: 'underlineColor',
};
