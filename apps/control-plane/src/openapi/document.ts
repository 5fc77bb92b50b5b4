import { STATUS_CODES } from 'node:http';
import { extractSchemas, replaceInComponents } from './components.ts';
import { type ErrorShape, errorResponseName, errorResponses, errorStatuses } from './errors.ts';
import { exampleOf, exampleParameter } from './examples.ts';
import { geminiPaths } from './gemini.ts';
import { inferencePaths } from './inference.ts';
import { addLinks } from './links.ts';
import { REQUEST_EXAMPLES } from './requestExamples.ts';
import { responseHeaders } from './responseHeaders.ts';
import { TAG_DESCRIPTIONS } from './tags.ts';
import { forbidNul } from './textPatterns.ts';
import { type OpenApiDocument, type Operation, operations, type Response, type Schema } from './types.ts';

/** The parts of the document that do not come from routes. */
export const FRAME = {
  openapi: '3.1.0',
  info: {
    title: 'Weighbridge',
    description:
      'A gateway for language models. Management operations are under `/api/v1`, inference operations under `/v1` and `/v1beta`. Both ' +
      'take a key as `Authorization: Bearer sk-svc-…`. A management operation requires the scope in its ' +
      '`x-required-scope`; inference accepts any valid key. All errors have the same shape, except those of the ' +
      'messages routes and of those below `/v1beta`, which have the shapes of those APIs.',
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
  const paths = { ...routes.paths, ...structuredClone({ ...inferencePaths, ...geminiPaths }) };
  for (const [path, method, operation] of operations({ ...routes, paths })) {
    const successes = Object.fromEntries(
      Object.entries(operation.responses)
        .filter(([status]) => Number(status) < 400)
        .map(([status, response]) => [
          status,
          {
            ...(path.startsWith('/api/') && { headers: responseHeaders(operation) }),
            ...response,
            description: describe(status, response),
          },
        ]),
    );
    operation.responses = { ...successes, ...errorsOf(path, method, operation) };
    delete operation['x-etag'];
    addExamples(path, operation);
  }
  addLinks({ ...routes, paths });
  const schemas: Record<string, Schema> = {};
  const extracted = extractSchemas({ paths, responses: usedResponses(paths) }, schemas);
  const tags = [
    ...new Set(operations({ ...routes, paths }).flatMap(([, , operation]) => operation.tags ?? [])),
  ];
  const document: OpenApiDocument = {
    ...routes,
    tags: tags.map((name) => ({ name, description: TAG_DESCRIPTIONS[name] ?? '' })),
    paths: extracted.paths,
    components: {
      ...routes.components,
      responses: extracted.responses,
      schemas: replaceInComponents(schemas),
    },
  };
  forbidNul(document);
  return document;
}

/** The error responses that an operation refers to. */
function usedResponses(paths: OpenApiDocument['paths']): Record<string, Response> {
  const text = JSON.stringify(paths);
  return Object.fromEntries(
    Object.entries(errorResponses)
      .filter(([name]) => text.includes(`"#/components/responses/${name}"`))
      .sort(([one], [other]) => (one < other ? -1 : 1)),
  );
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
  const shape = shapeOf(path);
  return Object.fromEntries(
    [...statuses]
      .sort((a, b) => a - b)
      .map((status) => [status, { $ref: `#/components/responses/${errorResponseName(shape, status)}` }]),
  );
}

function shapeOf(path: string): ErrorShape {
  if (path.startsWith('/api/')) return 'management';
  if (path.startsWith('/v1beta/')) return 'google';
  return path.startsWith('/v1/messages') ? 'messages' : 'inference';
}

function addExamples(path: string, operation: Operation): void {
  for (const parameter of operation.parameters ?? []) {
    if (parameter.in === 'path') parameter.example ??= exampleParameter(parameter.name);
  }
  const body = operation.requestBody?.content['application/json'];
  const example = REQUEST_EXAMPLES[operation.operationId];
  if (body && example) body.example = example;
  for (const response of Object.values(operation.responses)) {
    const media = 'content' in response ? response.content?.['application/json'] : undefined;
    if (media?.schema && media.example === undefined) media.example = exampleOf(media.schema, path);
    const csv = 'content' in response ? response.content?.['text/csv'] : undefined;
    if (csv && !media) csv.example = csv.schema?.examples?.[0];
  }
}
