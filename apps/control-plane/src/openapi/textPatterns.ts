import { type OpenApiDocument, operations, type Schema } from './types.ts';

/** The database can't store NUL, so every text of a request is refused with it. */
const NO_NUL = '^[^\\u0000]*$';

/** Says of every text that a management operation takes, directly or in a component, that it contains no NUL. */
export function forbidNul(document: OpenApiDocument): void {
  const visited = new Set<unknown>();
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null || visited.has(node)) return;
    visited.add(node);
    const { type, $ref } = node as Schema;
    if ($ref) visit(document.components.schemas[$ref.split('/').at(-1) ?? '']);
    if ([type].flat().includes('string')) forbid(node as Schema);
    else for (const [name, value] of Object.entries(node)) if (name !== 'example') visit(value);
  };
  for (const [path, , { parameters, requestBody }] of operations(document)) {
    if (!path.startsWith('/api/')) continue;
    visit(requestBody);
    for (const parameter of parameters ?? []) if (parameter.in === 'query') visit(parameter.schema);
  }
}

function forbid(schema: { pattern?: string } & Omit<Schema, 'pattern'>): void {
  if (schema.enum === undefined && schema.format === undefined) schema.pattern ??= NO_NUL;
}
