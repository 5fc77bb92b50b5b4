import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { type OpenApiDocument, operations } from '../src/openapi/types.ts';

interface CheckedResponse {
  readonly method: string;
  /** Including the query. */
  readonly path: string;
  readonly status: number;
  /** The header `Content-Type`. */
  readonly type: string;
  readonly text: string;
}

/** Errors outside of any operation: an unknown path, another method, a URL that is too long. */
const OUTSIDE_ANY_OPERATION = [400, 404, 405, 414, 431];

/** Checks responses against the published document: the status must be documented, and the body must match its schema. */
export function publishedResponses(document: OpenApiDocument): { check(response: CheckedResponse): void } {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi');
  const all = operations(document).map(([template, method, operation]) => ({
    template,
    method,
    operation,
    matches: matcher(template),
    // A literal segment matches before a parameter: `/keys/usage` is not a key.
    parameters: template.split('{').length,
  }));
  all.sort((one, other) => one.parameters - other.parameters);
  const validators = new Map<string, ValidateFunction>();
  const validator = (...pointer: string[]): ValidateFunction => {
    const $ref = `openapi#${pointer.map((key) => `/${escapeKey(key)}`).join('')}`;
    const known = validators.get($ref) ?? ajv.compile({ $ref });
    validators.set($ref, known);
    return known;
  };

  return {
    check({ method, path, status, type, text }) {
      const [pathname = ''] = path.split('?');
      const found = all.find((one) => one.method === method.toLowerCase() && one.matches.test(pathname));
      const what = `${method} ${path} answered ${status}`;
      let validate: ValidateFunction;
      if (!found) {
        if (!OUTSIDE_ANY_OPERATION.includes(status))
          throw new Error(`${what}, but the document has no such operation`);
        validate = validator('components', 'schemas', 'Error');
      } else {
        const { template, operation } = found;
        const response = operation.responses[status];
        if (!response) {
          throw new Error(
            `${what}, which ${operation.operationId} does not document: add the status to its response schemas, or to errorStatuses in src/openapi/errors.ts`,
          );
        }
        const [media = ''] = type.split(';');
        const isReference = '$ref' in response;
        const name = isReference ? (response.$ref.split('/').at(-1) ?? '') : '';
        const content = isReference ? document.components.responses[name]?.content : response.content;
        if (!content?.[media]) throw new Error(`${what} as ${media}, which is not documented`);
        if (media !== 'application/json') return;
        validate = isReference
          ? validator('components', 'responses', name, 'content', media, 'schema')
          : validator(
              'paths',
              template,
              method.toLowerCase(),
              'responses',
              String(status),
              'content',
              media,
              'schema',
            );
      }
      if (validate(JSON.parse(text))) return;
      throw new Error(
        `${what} with a body that does not match its schema: ${ajv.errorsText(validate.errors)}\n${text}`,
      );
    },
  };
}

function matcher(template: string): RegExp {
  const segments = template.split(/\{\w+\}/).map((literal) => literal.replace(/[.*+?^$()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${segments.join('[^/]+')}/?$`);
}

function escapeKey(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'));
}
