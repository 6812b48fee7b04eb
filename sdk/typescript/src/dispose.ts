// `await using` needs a symbol that some browsers do not have yet. Compilers look for it in the same place.
const symbols = Symbol as { asyncDispose?: symbol };
if (symbols.asyncDispose === undefined) {
  Object.defineProperty(Symbol, 'asyncDispose', { value: Symbol.for('Symbol.asyncDispose') });
}

export {};
