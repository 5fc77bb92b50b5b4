/** The parts of an OpenAPI 3.1 document that this service writes. */

export interface Schema {
  readonly title?: string;
  readonly type?: string | readonly string[];
  readonly format?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly examples?: readonly unknown[];
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly patternProperties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly anyOf?: readonly Schema[];
  readonly description?: string;
  readonly $ref?: string;
  readonly contentSchema?: Schema;
}

interface Media {
  schema?: Schema;
  example?: unknown;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
  example?: unknown;
}

export interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<Record<string, Media>>;
  links?: Readonly<Record<string, unknown>>;
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags?: readonly string[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly 'x-required-scope'?: string;
  /** Taken out before the document is published. */
  'x-etag'?: true;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Readonly<Record<string, Media>> };
  responses: Record<string, Response | { readonly $ref: string }>;
}

const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;
type Method = (typeof METHODS)[number];

export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  tags?: readonly { readonly name: string; readonly description: string }[];
  paths: Record<string, Partial<Record<Method, Operation>>>;
  readonly components: {
    readonly responses: Readonly<Record<string, Response>>;
    schemas: Record<string, Schema>;
    readonly securitySchemes?: unknown;
  };
}

/** Every operation of a document, with its path and method. */
export function operations(
  document: OpenApiDocument,
): [path: string, method: Method, operation: Operation][] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation ? [[path, method, operation] as [string, Method, Operation]] : [];
    }),
  );
}
