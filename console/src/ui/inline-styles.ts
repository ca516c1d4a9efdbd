/**
 * Makes xterm work under the page's content security policy, which blocks `style` elements and `style` attributes. Elements that
 * libraries create from now on apply both through the CSSOM, which the policy permits.
 */
export function routeStylesThroughCssom(): void {
  const create = document.createElement.bind(document);
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    if (name === 'style') return styleElement(create('template'));
    const element = create(name, options);
    if (name === 'span') element.setAttribute = setAttribute;
    return element;
  }) as typeof document.createElement;
}

/** Turns an element into one whose text is an adopted style sheet, for as long as it is not removed. */
function styleElement(element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  let latest: string | null = null;
  Object.defineProperty(element, 'textContent', {
    set: (text: string) => {
      // A program can change colours thousands of times in one piece of output, and each change is a new text.
      if (latest === null) {
        queueMicrotask(() => {
          sheet.replaceSync(latest!);
          latest = null;
        });
      }
      latest = text;
    },
    get: () => '',
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}
