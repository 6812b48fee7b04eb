// xterm writes <style> elements and style attributes, which the server's Content-Security-Policy
// forbids. So it gets this document instead of the page's: what it thinks is a style element keeps
// its rules in an adopted style sheet, and style attributes go through the object model. Both are
// allowed, as no text of a guest can become markup there.

// An empty style element alone breaks the policy, so it is a span that nobody sees.
function styleStandIn(real: Document): HTMLElement {
  const element = real.createElement('span');
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  real.adoptedStyleSheets = [...real.adoptedStyleSheets, sheet];
  let text = '';
  Object.defineProperty(element, 'textContent', {
    get: () => text,
    set: (value: string) => {
      text = value;
      sheet.replaceSync(value);
    },
  });
  element.remove = () => {
    real.adoptedStyleSheets = real.adoptedStyleSheets.filter((other) => other !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

function safeDocument(real: Document): Document {
  const createElement = (tag: string, options?: ElementCreationOptions) => {
    if (tag.toLowerCase() === 'style') return styleStandIn(real);
    const element = real.createElement(tag, options);
    element.setAttribute = setAttribute;
    return element;
  };
  return new Proxy(real, {
    get(target, name) {
      if (name === 'createElement') return createElement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  });
}

export const page = safeDocument(globalThis.document);
