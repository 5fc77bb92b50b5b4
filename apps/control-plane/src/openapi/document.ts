import { STATUS_CODES } from 'node:http';
import { ErrorSchema, errorResponses, errorStatuses, MESSAGES_ERROR, messagesError } from './errors.ts';
import { exampleOf, exampleParameter } from './examples.ts';
import { inferencePaths } from './inference.ts';
import { type OpenApiDocument, type Operation, operations, type Schema } from './types.ts';

/** The parts of the document that do not come from routes. */
export const FRAME = {
  openapi: '3.1.0',
  info: {
    title: 'Weighbridge',
    description:
      'A gateway for language models. Management operations are under `/api/v1`, inference operations under `/v1`. Both ' +
      'take a key as `Authorization: Bearer sk-svc-…`. A management operation requires the scope in its ' +
      '`x-required-scope`; inference accepts any valid key. All errors have the same shape, except those of the ' +
      'messages routes, which have the shape of that API.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/', description: 'This service' }],
  components: {
    securitySchemes: {
      managementKey: {
        type: 'http' as const,
        scheme: 'bearer',
        description:
          'A key with the scope of the operation. If the deployment has an OIDC issuer, also a token of that issuer that grants the scope.',
      },
      inferenceKey: {
        type: 'http' as const,
        scheme: 'bearer',
        description: "Any valid key. Use it as the API key of the vendor's SDK.",
      },
    },
  },
};

/**
 * Completes the document that was generated from the routes: adds the inference operations, error responses and
 * examples, and moves every schema with a `title` to the components.
 */
export function completeDocument(routes: OpenApiDocument): OpenApiDocument {
  const document: OpenApiDocument = {
    ...routes,
    paths: { ...routes.paths, ...structuredClone(inferencePaths) },
    components: {
      ...routes.components,
      responses: { ...errorResponses, [MESSAGES_ERROR]: messagesError },
      schemas: { Error: ErrorSchema },
    },
  };
  for (const [path, method, operation] of operations(document)) {
    const successes = Object.fromEntries(
      Object.entries(operation.responses)
        .filter(([status]) => Number(status) < 400)
        .map(([status, response]) => [status, { ...response, description: describe(status, response) }]),
    );
    operation.responses = { ...successes, ...errorsOf(path, method, operation) };
    addExamples(path, operation);
  }
  const schemas: Record<string, Schema> = document.components.schemas;
  document.paths = extractSchemas(document.paths, schemas) as OpenApiDocument['paths'];
  document.components.schemas = Object.fromEntries(
    Object.entries(schemas).sort(([one], [other]) => (one < other ? -1 : 1)),
  );
  document.tags = [...new Set(operations(document).flatMap(([, , { tags }]) => tags ?? []))].map((name) => ({
    name,
  }));
  return document;
}

function describe(status: string, response: object): string {
  const description = 'description' in response ? String(response.description) : '';
  return description === 'Default Response' ? (STATUS_CODES[status] ?? description) : description;
}

function errorsOf(path: string, method: string, operation: Operation) {
  const declared = Object.keys(operation.responses)
    .map(Number)
    .filter((status) => status >= 400);
  const statuses = new Set([...errorStatuses(path, method, operation), ...declared]);
  const nameOf = (status: number) => (path.startsWith('/v1/messages') ? MESSAGES_ERROR : status);
  return Object.fromEntries(
    [...statuses]
      .sort((a, b) => a - b)
      .map((status) => [status, { $ref: `#/components/responses/${nameOf(status)}` }]),
  );
}

function addExamples(path: string, operation: Operation): void {
  for (const parameter of operation.parameters ?? []) {
    if (parameter.in === 'path') parameter.example ??= exampleParameter(parameter.name);
  }
  const contents = [
    operation.requestBody?.content,
    ...Object.values(operation.responses).map((response) =>
      'content' in response ? response.content : undefined,
    ),
  ];
  for (const content of contents) {
    const media = content?.['application/json'];
    if (media?.schema && media.example === undefined) media.example = exampleOf(media.schema, path);
  }
}

/** Replaces every schema that has a title by a reference to it among the components. */
function extractSchemas(node: unknown, components: Record<string, Schema>): unknown {
  if (Array.isArray(node)) return node.map((item) => extractSchemas(item, components));
  if (typeof node !== 'object' || node === null) return node;
  const copy = Object.fromEntries(
    Object.entries(node).map(([name, value]) => [
      name,
      name.startsWith('example') ? value : extractSchemas(value, components),
    ]),
  );
  const { title, type } = copy as Schema;
  if (typeof title !== 'string' || type === undefined) return copy;
  const nullable = Array.isArray(type);
  const { title: _, ...schema } = copy as Schema;
  const one: Schema = nullable ? { ...schema, type: type[0] as string } : schema;
  const other = components[title];
  if (other !== undefined && JSON.stringify(other) !== JSON.stringify(one)) {
    throw new Error(`two different schemas have the title ${title}`);
  }
  components[title] = one;
  const reference = { $ref: `#/components/schemas/${title}` };
  return nullable ? { anyOf: [reference, { type: 'null' }] } : reference;
}
