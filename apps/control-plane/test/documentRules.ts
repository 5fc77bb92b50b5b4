import { type OpenApiDocument, operations, type Schema } from '../src/openapi/types.ts';

type Node = Readonly<Record<string, unknown>>;

/** What is wrong with a document for the people who read it and the generators that import it: one line for each problem. */
export function documentProblems(document: OpenApiDocument): string[] {
  const problems: string[] = [];
  visit(document, [], (node, path) => {
    problems.push(...schemaProblems(node, path), ...referenceProblems(document, node, path));
  });
  problems.push(...componentProblems(document), ...operationProblems(document), ...linkProblems(document));
  return problems;
}

/** Members whose value is data, not a part of the document. */
const DATA = new Set(['example', 'examples', 'default', 'enum', 'const', 'links']);
/** Members whose names are the document's, so that `properties` in them may be a field. */
const NAMED = new Set(['properties', 'schemas', 'patternProperties']);

function visit(node: unknown, path: readonly string[], check: (node: Node, path: readonly string[]) => void) {
  if (Array.isArray(node)) {
    for (const [index, item] of node.entries()) visit(item, [...path, String(index)], check);
    return;
  }
  if (typeof node !== 'object' || node === null) return;
  const isNames = NAMED.has(path.at(-1) ?? '') && !NAMED.has(path.at(-2) ?? '');
  if (!isNames) check(node as Node, path);
  for (const [name, value] of Object.entries(node)) {
    if (isNames || !DATA.has(name)) visit(value, [...path, name], check);
  }
}

/** A generator names an object or an enum after its place, and makes one type for each place: so both are components. */
function schemaProblems(node: Node, path: readonly string[]): string[] {
  const { type } = node;
  const at = path.join('/');
  if (type === undefined || path[0] === 'info') return [];
  const isComponent = path.length === 3 && path[0] === 'components' && path[1] === 'schemas';
  const problems: string[] = [];
  const types = [type].flat();
  if (!isComponent && types.includes('object'))
    problems.push(`${at}: an object without a name; give it a title`);
  if (!isComponent && 'enum' in node) problems.push(`${at}: an enum without a name; give it a title`);
  if ('patternProperties' in node)
    problems.push(`${at}: patternProperties, which generators do not read; use ByName`);
  if ('title' in node) problems.push(`${at}: a title that is left over`);
  return problems;
}

function referenceProblems(document: OpenApiDocument, node: Node, path: readonly string[]): string[] {
  const { $ref } = node;
  if (typeof $ref !== 'string') return [];
  const [root, ...keys] = $ref.split('/');
  let found: unknown = root === '#' ? document : undefined;
  for (const key of keys)
    found = (found as Node | undefined)?.[key.replaceAll('~1', '/').replaceAll('~0', '~')];
  return found === undefined ? [`${path.join('/')}: ${$ref} does not exist`] : [];
}

function componentProblems({ components, paths }: OpenApiDocument): string[] {
  const problems: string[] = [];
  const seen = new Map<string, string>();
  const text = JSON.stringify({ components, paths });
  for (const [name, schema] of Object.entries(components.schemas)) {
    const { description, ...rest } = schema;
    const same = JSON.stringify(rest);
    const other = seen.get(same);
    if (other) problems.push(`components/schemas/${name}: the same as ${other}`);
    seen.set(same, name);
    if (!/^[A-Z][A-Za-z]+$/.test(name))
      problems.push(`components/schemas/${name}: a name in PascalCase is missing`);
    if (!text.includes(`"#/components/schemas/${name}"`)) problems.push(`components/schemas/${name}: unused`);
  }
  for (const name of Object.keys(components.responses)) {
    if (!text.includes(`"#/components/responses/${name}"`))
      problems.push(`components/responses/${name}: unused`);
  }
  return problems;
}

/** A stateful test can only call an operation with an id if a response leads to it. */
function linkProblems(document: OpenApiDocument): string[] {
  const all = operations(document);
  const reached = new Set(
    all.flatMap(([, , { responses }]) =>
      Object.values(responses).flatMap((response) =>
        'links' in response ? Object.keys(response.links ?? {}) : [],
      ),
    ),
  );
  const known = new Set(all.map(([, , { operationId }]) => operationId));
  return [
    ...[...reached]
      .filter((target) => !known.has(target))
      .map((target) => `a link leads to ${target}, which does not exist`),
    ...all
      .filter(([path, , { operationId }]) => path.includes('{') && !reached.has(operationId))
      .map(
        ([path, method]) =>
          `${method} ${path}: no link leads to it; add its parameter to src/openapi/links.ts`,
      ),
  ];
}

function operationProblems(document: OpenApiDocument): string[] {
  const tags = new Map(document.tags?.map(({ name, description }) => [name, description]));
  const problems = [...tags].flatMap(([name, description]) =>
    description ? [] : [`tag ${name}: no description; add it to src/openapi/tags.ts`],
  );
  for (const [path, method, operation] of operations(document)) {
    const at = `${method} ${path}`;
    const require = (what: string, value: unknown) => {
      if (value === undefined || value === '') problems.push(`${at}: no ${what}`);
    };
    require('summary', operation.summary);
    require('description', operation.description);
    for (const tag of operation.tags ?? []) require(`tag ${tag}`, tags.get(tag));
    for (const parameter of operation.parameters ?? []) {
      require(`description of ${parameter.name}`, parameter.description);
      const schema = resolved(document, parameter.schema);
      if (parameter.in === 'path') require(`example of ${parameter.name}`, parameter.example);
      if (parameter.in === 'query') problems.push(...queryProblems(`${at}: ${parameter.name}`, schema));
    }
    for (const media of Object.values(operation.requestBody?.content ?? {}))
      require('example of its body', media.example);
    for (const [status, response] of Object.entries(operation.responses)) {
      if (!('content' in response)) continue;
      require(`description of ${status}`, response.description);
      require(`example of ${status}`, (
        response.content?.['application/json'] ?? response.content?.['text/csv']
      )?.example);
    }
  }
  return problems;
}

/** A query is text to the server, so its schema says what the text means: no number or boolean is hidden in a string. */
function queryProblems(at: string, schema: Schema): string[] {
  const problems: string[] = [];
  if (schema.type === 'integer' || schema.type === 'number') {
    if (schema.minimum === undefined || schema.maximum === undefined)
      problems.push(`${at}: a number without bounds`);
  }
  if (schema.enum?.includes('true')) problems.push(`${at}: a boolean as text; use QueryBoolean`);
  if (schema.type === 'string' && /\b(ms|usd|size|count|seconds)$/.test(at.replaceAll('_', ' '))) {
    problems.push(`${at}: a number as text; use QueryInteger`);
  }
  return problems;
}

function resolved({ components }: OpenApiDocument, schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1);
  return name === undefined ? schema : (components.schemas[name] ?? schema);
}
