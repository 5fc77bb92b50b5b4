import { STATUS_CODES } from 'node:http';
import { ErrorSchema, errorResponses, errorStatuses, MESSAGES_ERROR, messagesError } from './errors.ts';
import { sample, sampleParameter } from './examples.ts';
import { inferencePaths } from './inference.ts';
import { type OpenApiDocument, type Operation, operations, type Schema } from './types.ts';

/** What is the same for every version of the document. */
export const FRAME = {
  openapi: '3.1.0',
  info: {
    title: 'Weighbridge',
    description:
      'A gateway for language models. Management operations are under `/api/v1`, inference under `/v1`; both take a key ' +
      'as `Authorization: Bearer sk-svc-…`. Management operations ask for the scope that `x-required-scope` names, ' +
      'inference for any valid key. Everything that goes wrong is told in one envelope.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [{ url: '/', description: 'This service' }],
  components: {
    securitySchemes: {
      managementKey: {
        type: 'http' as const,
        scheme: 'bearer',
        description:
          'A key that holds the scope of the operation; or, where the deployment has an OIDC issuer, a token of it that gives the scope.',
      },
      inferenceKey: {
        type: 'http' as const,
        scheme: 'bearer',
        description: "Any valid key. Set it as the vendor SDK's API key.",
      },
    },
  },
};

/**
 * Makes the published document of what the routes' schemas gave: adds the inference operations, the errors, examples,
 * and a name for each schema that has a `title`.
 */
export function complete(routes: OpenApiDocument): OpenApiDocument {
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
    const own = Object.fromEntries(
      Object.entries(operation.responses)
        .filter(([status]) => Number(status) < 400)
        .map(([status, response]) => [status, { ...response, description: describe(status, response) }]),
    );
    operation.responses = { ...own, ...errorsOf(path, method, operation) };
    addExamples(path, operation);
  }
  const schemas: Record<string, Schema> = document.components.schemas;
  document.paths = nameSchemas(document.paths, schemas) as OpenApiDocument['paths'];
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
  const named = (status: number) => (path.startsWith('/v1/messages') ? MESSAGES_ERROR : status);
  return Object.fromEntries(
    [...statuses]
      .sort((a, b) => a - b)
      .map((status) => [status, { $ref: `#/components/responses/${named(status)}` }]),
  );
}

function addExamples(path: string, operation: Operation): void {
  for (const parameter of operation.parameters ?? []) {
    if (parameter.in === 'path') parameter.example ??= sampleParameter(parameter.name);
  }
  const contents = [
    operation.requestBody?.content,
    ...Object.values(operation.responses).map((response) =>
      'content' in response ? response.content : undefined,
    ),
  ];
  for (const content of contents) {
    const media = content?.['application/json'];
    if (media?.schema && media.example === undefined) media.example = sample(media.schema, path);
  }
}

/** Moves each schema that has a title among the components, and refers to it there. */
function nameSchemas(node: unknown, named: Record<string, Schema>): unknown {
  if (Array.isArray(node)) return node.map((item) => nameSchemas(item, named));
  if (typeof node !== 'object' || node === null) return node;
  const copy = Object.fromEntries(
    Object.entries(node).map(([name, value]) => [
      name,
      name.startsWith('example') ? value : nameSchemas(value, named),
    ]),
  );
  const { title, type } = copy as Schema;
  if (typeof title !== 'string' || type === undefined) return copy;
  const nullable = Array.isArray(type);
  const { title: _, ...schema } = copy as Schema;
  const one: Schema = nullable ? { ...schema, type: type[0] as string } : schema;
  const known = named[title];
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(one)) {
    throw new Error(`two different schemas have the title ${title}`);
  }
  named[title] = one;
  const reference = { $ref: `#/components/schemas/${title}` };
  return nullable ? { anyOf: [reference, { type: 'null' }] } : reference;
}
