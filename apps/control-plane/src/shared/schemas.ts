import { type Static, type TSchema, Type } from 'typebox';

/** A value of the schema, or null. A list of types gives better messages of Ajv than a union. */
export function Nullable<S extends TSchema & { type: string }>(schema: S) {
  const choices = (schema as { enum?: unknown[] }).enum;
  return Type.Unsafe<Static<S> | null>({
    ...schema,
    type: [schema.type, 'null'],
    ...(choices && { enum: [...choices, null] }),
  });
}

/** One of the given strings. */
export function OneOf<const T extends readonly string[]>(values: T, options: object = {}) {
  return Type.Unsafe<T[number]>({ type: 'string', enum: [...values], ...options }) as ReturnType<
    typeof Type.Unsafe<T[number]>
  > & { type: 'string' };
}

/** An object without other fields. With a `title`, it becomes a named schema of the OpenAPI document. */
export function Strict<P extends Parameters<typeof Type.Object>[0]>(
  properties: P,
  options: { readonly title?: string } = {},
) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/** An object with string values. `Type.Record` would not check values whose names contain a line break. */
export function TextByName(
  text: { readonly minLength?: number; readonly maxLength: number },
  options: { readonly maxProperties: number; readonly description?: string },
) {
  return Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string', ...text },
    ...options,
  });
}

/** The response cache of a policy or a profile: who shares entries, and for how long they are used. */
export const CacheSettings = Type.Object(
  { scope: OneOf(['principal', 'policy']), ttl_seconds: Type.Integer({ minimum: 1, maximum: 30 * 86_400 }) },
  { additionalProperties: false },
);
export type CacheSettings = Static<typeof CacheSettings>;

export const DateTime = Type.String({ format: 'date-time' });
/** An amount of micro-USD. */
export const MicroUsd = Type.Integer();
