import { type NativePath, textOfNativePath } from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';

/**
 * A deny pattern, which is well formed, as a regular expression of a macOS sandbox profile. Like the search for files elsewhere, what
 * follows the fixed beginning matches at any depth when it has no slash; one in braces does not count here, so that rather more
 * is denied.
 */
export function globExpression(pattern: NativePath): string {
  const text = textOfNativePath(pattern);
  if (text.includes('"')) throw unenforceable(`the deny pattern \`${text}\` has a quotation mark`);
  const names = text.split('/').filter((name) => name !== '' && name !== '.');
  const fixed = names.findIndex((name) => !FIXED.test(name));
  const root = names.slice(0, fixed).join('/');
  const rest = names.slice(fixed).join('/');
  const isAnywhere = !rest.replace(/\{[^}]*\}/g, '').includes('/');
  return `(regex #"^/${expressionOf(root)}/${isAnywhere ? ANY_DIRECTORIES : ''}${expressionOf(rest)}$")`;
}

const FIXED = /^(?:[^*?[\]{}\\]|\\.)*$/;
const ANY_DIRECTORIES = '(.*/)?';

function expressionOf(glob: string): string {
  let expression = '';
  let braces = 0;
  for (let index = 0; index < glob.length; index++) {
    const character = glob[index]!;
    const isName = index === 0 || glob[index - 1] === '/';
    if (isName && glob.startsWith('**/', index)) {
      expression += ANY_DIRECTORIES;
      index += 2;
    } else if (isName && glob.slice(index) === '**') {
      return `${expression}.+`;
    } else if (character === '*') {
      expression += '[^/]*';
    } else if (character === '?') {
      expression += '[^/]';
    } else if (character === '{') {
      braces++;
      expression += '(';
    } else if (character === '}') {
      braces--;
      expression += ')';
    } else if (character === ',' && braces > 0) {
      expression += '|';
    } else if (character === '[') {
      const isNegated = /[!^]/.test(glob[index + 1] ?? '');
      const start = index + (isNegated ? 2 : 1);
      const end = glob.indexOf(']', start + 1);
      expression += `[${isNegated ? '^/' : ''}${glob.slice(start, end)}]`;
      index = end;
    } else {
      expression += literal(character === '\\' ? glob[++index]! : character);
    }
  }
  return expression;
}

function literal(character: string): string {
  return /[.*+?^$(){}|[\]\\]/.test(character) ? `\\${character}` : character;
}
