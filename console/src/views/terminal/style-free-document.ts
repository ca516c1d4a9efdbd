/**
 * The document for xterm. The terminal adds `style` elements, which the page's content security policy blocks. The elements that this
 * document creates put their text into an adopted style sheet instead, which the policy permits.
 */
export function styleFreeDocument(): Document {
  return new Proxy(document, {
    get(target, name) {
      if (name === 'createElement') return createElement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

function createElement(name: string): HTMLElement {
  const element = document.createElement(name);
  if (name === 'style') adopt(element);
  return element;
}

function adopt(element: HTMLElement): void {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, 'textContent', {
    set: (text: string) => sheet.replaceSync(text),
    get: () => '',
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
}
