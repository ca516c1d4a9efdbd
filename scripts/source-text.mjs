// Scans TypeScript well enough to find imports and names: it separates comments, strings, templates and regular expressions
// from code. The compiler cannot do this here, because TypeScript 7 has no stable API.

/**
 * Returns two texts of the same length as `source`, newlines kept: `code` without comments, strings, templates and regular
 * expressions, and `withStrings` without comments and templates only.
 */
export function maskSource(source) {
  const code = source.split('');
  const withStrings = source.split('');
  const blank = (texts, from, to) => {
    for (let i = from; i < to; i++) if (source[i] !== '\n') for (const text of texts) text[i] = ' ';
  };
  /** Open braces of the enclosing template expressions. */
  const templates = [];
  let i = 0;
  let previous = '';

  const skipTemplate = (start) => {
    let end = start;
    while (end < source.length && source[end] !== '`' && !source.startsWith('${', end))
      end += source[end] === '\\' ? 2 : 1;
    blank([code, withStrings], start, Math.min(end, source.length));
    if (source[end] === '$') {
      templates.push(0);
      return end + 2;
    }
    previous = '`';
    return end + 1;
  };

  while (i < source.length) {
    const char = source[i];
    const rest = COMMENT.exec(source.slice(i, i + 2));
    if (rest) {
      const close = rest[0] === '//' ? source.indexOf('\n', i) : source.indexOf('*/', i + 2) + 2;
      const end = close < i + 2 ? source.length : close;
      blank([code, withStrings], i, end);
      i = end;
    } else if (char === "'" || char === '"') {
      const end = endOfLiteral(source, i, char);
      blank([code], i + 1, end - 1);
      previous = char;
      i = end;
    } else if (char === '`') {
      i = skipTemplate(i + 1);
    } else if (char === '/' && startsRegExp(source, i, previous)) {
      const end = endOfRegExp(source, i);
      blank([code, withStrings], i + 1, end - 1);
      previous = '/';
      i = end;
    } else {
      if (char === '{' && templates.length > 0) templates[templates.length - 1]++;
      if (char === '}' && templates.length > 0 && templates[templates.length - 1]-- === 0) {
        templates.pop();
        i = skipTemplate(i + 1);
        continue;
      }
      if (char.trim() !== '') previous = char;
      i++;
    }
  }
  return { code: code.join(''), withStrings: withStrings.join('') };
}

const COMMENT = /^\/[/*]/;
const BEFORE_REGEXP = /\b(?:return|typeof|case|in|of|do|else|await|yield|void|delete)\s*$/;

/** A slash divides after a value and opens a regular expression anywhere else. */
function startsRegExp(source, index, previous) {
  if (previous === '') return true;
  if (!/[\w$)\]}'"`/]/.test(previous)) return true;
  return /\w/.test(previous) && BEFORE_REGEXP.test(source.slice(Math.max(0, index - 12), index));
}

function endOfLiteral(source, start, quote) {
  let end = start + 1;
  while (end < source.length && source[end] !== quote && source[end] !== '\n')
    end += source[end] === '\\' ? 2 : 1;
  return Math.min(end + 1, source.length);
}

function endOfRegExp(source, start) {
  let inClass = false;
  let end = start + 1;
  while (end < source.length && source[end] !== '\n' && (inClass || source[end] !== '/')) {
    if (source[end] === '[') inClass = true;
    if (source[end] === ']') inClass = false;
    end += source[end] === '\\' ? 2 : 1;
  }
  return Math.min(end + 1, source.length);
}
