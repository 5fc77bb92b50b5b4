import { type Static, type TSchema, Type } from 'typebox';

/** Of requests or tokens: as a proxy's protocol takes it. */
export const MAX_PER_MINUTE = 2_147_483_647;

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
  options: { readonly title?: string; readonly description?: string } = {},
) {
  return Type.Object(properties, { ...options, additionalProperties: false });
}

/** An object with string values. `Type.Record` would not check values whose names contain a line break. */
export function TextByName(
  text: { readonly minLength?: number; readonly maxLength: number },
  options: { readonly title: string; readonly maxProperties: number; readonly description?: string },
) {
  return ByName(Type.Unsafe<string>({ type: 'string', ...text }), options);
}

/** An object with any names, whose values fit the schema. Generators of clients read no `patternProperties`. */
export function ByName<S extends TSchema>(
  value: S,
  options: { readonly title: string; readonly maxProperties?: number; readonly description?: string },
) {
  return Type.Unsafe<Record<string, Static<S>>>({ type: 'object', additionalProperties: value, ...options });
}

/**
 * A query parameter that is a whole number. A query is text: the server checks the text, and the OpenAPI document shows the
 * `contentSchema`.
 */
export function QueryInteger(number: {
  readonly minimum: number;
  readonly maximum: number;
  readonly default?: number;
  readonly description: string;
}) {
  const contentSchema = { type: 'integer', ...number };
  return Type.String({ contentMediaType: 'application/json', contentSchema });
}

/** A query parameter that is true or false. */
export function QueryBoolean(description: string) {
  return OneOf(['true', 'false'], {
    contentMediaType: 'application/json',
    contentSchema: { type: 'boolean', description },
  });
}

/** The response cache of a policy or a profile: who shares entries, and for how long they are used. */
export const CacheSettings = Type.Object(
  {
    scope: OneOf(['principal', 'policy'], { title: 'CacheScope', description: 'Who shares the entries.' }),
    ttl_seconds: Type.Integer({ minimum: 1, maximum: 30 * 86_400 }),
  },
  { title: 'CacheSettings', additionalProperties: false },
);
export type CacheSettings = Static<typeof CacheSettings>;

/** Of a policy or a profile. */
export const TranslationRule = OneOf(['lenient', 'strict'], {
  title: 'TranslationRule',
  description:
    'A request that a vendor with another dialect can not get whole: `lenient` (default) sends it, `strict` refuses it. What was changed or dropped is in `x-svc-dropped`; the refusal is 400 `not_translatable`. If the profile, the policy or one of its parents says `strict`, that holds.',
});

/** Of a policy or a profile. */
export const AutoCache = Type.Boolean({
  description:
    'Requests that are translated for Claude, or another model that caches by marks, and that mark nothing themselves get marks on their system prompt, tools and last user turn. On if the profile, the policy or one of its parents says so.',
});

export const DateTime = Type.String({ format: 'date-time' });
/** An amount of micro-USD. */
export const MicroUsd = Type.Integer();
