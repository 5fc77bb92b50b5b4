// Writes what a command line or a form needs of the OpenAPI document: the fields of each operation, without its responses.
import { readFileSync, writeFileSync } from 'node:fs';

const SOURCE = new URL('../../apps/control-plane/openapi.json', import.meta.url);
const TARGET = new URL('./src/gen/operations.ts', import.meta.url);
/** What clients of every list and every write handle themselves. */
const HANDLED = new Set(['page_size', 'page_token', 'wait', 'timeout_ms']);

const { paths, components } = JSON.parse(readFileSync(SOURCE, 'utf8'));

/** A schema without its reference; what stands beside the reference holds. */
function resolved({ $ref, anyOf, ...schema }) {
  if ($ref) return { ...resolved(components.schemas[$ref.split('/').at(-1)]), ...schema };
  const [one, none] = anyOf ?? [];
  if (none?.type === 'null') return { ...resolved(one), ...schema, isNullable: true };
  return { ...(anyOf && { type: 'object' }), ...schema };
}

/** Members of members have no option and no control: whoever sets them writes the whole. */
const MAX_DEPTH = 2;

function field(schema, depth = 1) {
  const {
    type,
    isNullable,
    description,
    enum: choices,
    format,
    minimum,
    items,
    properties,
  } = resolved(schema);
  const types = [type].flat();
  return {
    type: types.find((one) => one !== 'null') ?? 'object',
    isNullable: isNullable || types.includes('null') || undefined,
    description: description && firstSentence(description),
    choices: choices?.filter((choice) => choice !== null),
    format,
    minimum,
    items: items && field(items, MAX_DEPTH - 1),
    fields: depth < MAX_DEPTH ? properties && fields(properties, depth + 1) : undefined,
  };
}

function fields(properties, depth) {
  return Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, field(schema, depth)]));
}

function firstSentence(text) {
  return /^.*?\.(?=\s|$)/s.exec(text)?.[0] ?? text;
}

function operation(method, path, { operationId: id, summary, parameters = [], requestBody }) {
  const query = parameters.filter((one) => one.in === 'query' && !HANDLED.has(one.name));
  const body = requestBody?.content['application/json']?.schema;
  const { required = [], properties = {} } = body ? resolved(body) : {};
  return {
    id,
    method,
    path,
    summary,
    query: Object.fromEntries(
      query.map(({ name, schema, description }) => [name, field({ description, ...schema })]),
    ),
    body: fields(properties),
    required,
  };
}

const operations = Object.entries(paths)
  .filter(([path]) => path.startsWith('/api/'))
  .flatMap(([path, methods]) => Object.entries(methods).map(([method, one]) => operation(method, path, one)));
const lines = operations.map(
  (one) => `export const ${one.id}: Operation<'${one.id}'> = ${JSON.stringify(one)};`,
);
writeFileSync(TARGET, `import type { Operation } from '../operation.ts';\n\n${lines.join('\n')}\n`);
