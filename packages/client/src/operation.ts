import type { Client } from './client.ts';
import type { operations } from './gen/openapi.ts';

/** A field of a body or a query, as the OpenAPI document describes it. */
export interface Field {
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';
  readonly isNullable?: true;
  /** The first sentence. */
  readonly description?: string;
  readonly choices?: readonly string[];
  readonly format?: string;
  readonly minimum?: number;
  /** Of the items of an array. */
  readonly items?: Field;
  /** Of an object; without them, its members have any names. */
  readonly fields?: Fields;
}
export type Fields = Readonly<Record<string, Field>>;

/** A field as a command line or a form names it. */
export interface NamedField {
  /** `constraints.min_score` of a member. */
  readonly name: string;
  readonly field: Field;
  /** The object that has this member. */
  readonly parent?: Field;
}

/**
 * The fields to name. An object without an entry of its own is replaced by its members; a field or member whose entry is
 * null is left out.
 */
export function namedFields(fields: Fields, entries: Readonly<Record<string, unknown>>): NamedField[] {
  return Object.entries(fields).flatMap(([name, field]): NamedField[] => {
    if (entries[name] === null) return [];
    if (entries[name] !== undefined || !field.fields) return [{ name, field }];
    return Object.entries(field.fields)
      .map(([member, one]) => ({ name: `${name}.${member}`, field: one, parent: field }))
      .filter((member) => entries[member.name] !== null);
  });
}

/** What a command line or a form needs of an operation. */
export interface Operation<Id extends keyof operations = keyof operations> {
  readonly id: Id;
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  readonly path: string;
  readonly summary: string;
  readonly query: Fields;
  readonly body: Fields;
  /** The names of the fields that a body must have. */
  readonly required: readonly string[];
}

type Json<Response> = Response extends { content: { 'application/json': infer Body } } ? Body : never;
type Responses<Id extends keyof operations> = operations[Id]['responses'];

/** The body of the response of an operation. */
export type ResultOf<Id extends keyof operations> = Json<
  Responses<Id>[Extract<keyof Responses<Id>, 200 | 201>]
>;
/** An item of the list that an operation returns. */
export type ItemOf<Id extends keyof operations> =
  ResultOf<Id> extends { data: readonly (infer Item)[] } ? Item : never;
/** The body of the request of an operation. */
export type BodyOf<Id extends keyof operations> = operations[Id] extends {
  requestBody?: { content: { 'application/json': infer Body } };
}
  ? Body
  : Record<never, never>;

interface CallOptions {
  readonly params?: {
    readonly path?: Readonly<Record<string, string>>;
    readonly query?: object;
    readonly header?: object;
  };
  readonly body?: object;
}

/** Calls an operation with what was read at run time: types don't check it, the service does. */
export function callOperation<Id extends keyof operations>(
  client: Pick<Client, 'request'>,
  { method, path }: Operation<Id>,
  options: CallOptions,
): Promise<{ data?: ResultOf<Id>; response: Response }> {
  const call = client.request(method as 'get', path as never, options as never);
  return call as Promise<{ data?: ResultOf<Id>; response: Response }>;
}
