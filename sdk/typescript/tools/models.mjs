// TypeScript types of the contract's schemas.

// Names that mean something else in TypeScript, or that the client has for the object behind them.
const renamed = { Error: 'ErrorBody', Sandbox: 'SandboxInfo', Process: 'ProcessInfo', Context: 'ContextInfo' };

export const banner =
  '// Generated from api/openapi.yaml by tools/generate.mjs. To change it, change the contract and run\n' +
  '// `npm run generate`.\n';

export function modelName(schemaName) {
  return renamed[schemaName] ?? schemaName;
}

export function resolve(document, value) {
  let found = value;
  while (found?.$ref !== undefined) {
    found = found.$ref
      .replace(/^#\//, '')
      .split('/')
      .reduce((node, part) => node[part], document);
  }
  return found;
}

export function comment(text, indent) {
  if (text === undefined) return '';
  const words = text.trim().replaceAll('*/', '* /').split(/\s+/);
  const width = 96 - indent.length;
  const lines = [''];
  for (const word of words) {
    const last = lines.length - 1;
    if (lines[last] !== '' && lines[last].length + 1 + word.length > width) lines.push(word);
    else lines[last] = lines[last] === '' ? word : `${lines[last]} ${word}`;
  }
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join('')}${indent} */\n`;
}

const literal = (value) => (typeof value === 'string' ? `'${value}'` : String(value));

const scalars = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
};

function union(types) {
  return [...new Set(types)].join(' | ');
}

// What a caller sends may hold `undefined` where a field may be left out: JSON leaves it out.
function objectType(schema, indent, prefix) {
  if (schema.properties === undefined) {
    const values = schema.additionalProperties;
    if (values === undefined || values === true) return 'Record<string, unknown>';
    if (values === false) return 'Record<string, never>';
    return `Record<string, ${typeOf(values, indent, prefix)}>`;
  }
  const sent = schema.additionalProperties === false;
  const required = new Set(schema.required ?? []);
  const inner = `${indent}  `;
  const lines = Object.entries(schema.properties).map(([name, field]) => {
    const optional = !required.has(name);
    const type = typeOf(field, inner, prefix) + (optional && sent ? ' | undefined' : '');
    return `${comment(field.description, inner)}${inner}${name}${optional ? '?' : ''}: ${type};\n`;
  });
  return `{\n${lines.join('')}${indent}}`;
}

// The type of one schema. `prefix` stands before the names of models: `models.` elsewhere.
export function typeOf(schema, indent = '', prefix = '') {
  if (schema.$ref !== undefined) return prefix + modelName(schema.$ref.split('/').at(-1));
  if (schema.oneOf !== undefined) {
    return union(schema.oneOf.map((one) => typeOf(one, indent, prefix)));
  }
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum !== undefined) return union(schema.enum.map(literal));
  const types = [schema.type ?? 'unknown'].flat();
  return union(
    types.map((type) => {
      if (type === 'object') return objectType(schema, indent, prefix);
      if (type === 'array') {
        const item = typeOf(schema.items ?? {}, indent, prefix);
        return /[ |]/.test(item) && !item.startsWith('{') ? `(${item})[]` : `${item}[]`;
      }
      return scalars[type] ?? 'unknown';
    }),
  );
}

export function modelsText(document) {
  const { code } = document.components.schemas.Error.properties.error.properties;
  let text = `${banner}\n/** What \`ApiError.code\` can be. */\nexport const errorCodes = [\n`;
  text += code.enum.map((one) => `  '${one}',\n`).join('');
  text += '] as const;\n\nexport type ErrorCode = (typeof errorCodes)[number];\n';
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    text += `\n${comment(schema.description, '')}`;
    text += `export interface ${modelName(name)} ${typeOf(schema)}\n`;
  }
  // The long list once, by its name.
  return text.replace(typeOf(code), 'ErrorCode');
}
