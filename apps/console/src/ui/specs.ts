import { type Field, type NamedField, namedFields, type Operation } from '@weighbridge/client';
import type { Choices, FieldSpec } from './fieldSpecs.ts';
import { visible } from './text.ts';

/** What a form shows of a field beside what the OpenAPI document says of it. */
type Shown = Partial<Omit<FieldSpec, 'name'>>;
/** By field; `constraints.min_score` is a member of an object. Null: it has no control. These come first. */
export type ShownFields<Names extends string = string> = {
  readonly [Name in Names | `${Names}.${string}`]?: Shown | null;
};
/** The resources that a field may name, by the end of the field's name. */
export type ChoicesOf = Readonly<Record<string, Choices>>;

/** The controls of an operation's fields. */
export function specsOf(
  { body, required, method }: Operation,
  shown: ShownFields,
  choicesOf: ChoicesOf = {},
  isNew = method === 'post',
): FieldSpec[] {
  const fields = new Map(namedFields(body, shown).map((one) => [one.name, one]));
  const named = Object.keys(shown).filter((name) => fields.has(name));
  return [...new Set([...named, ...fields.keys()])].map((name) => {
    const { field, parent } = fields.get(name) as NamedField;
    const isNullable = field.isNullable ?? parent?.isNullable;
    const isRequired = required.includes(name);
    const { initial, ...own } = shown[name] ?? {};
    const mayBeEmpty = isNullable || (isNew && !isRequired && initial === undefined);
    const choices = choicesFor(name, field, choicesOf);
    return {
      name,
      label: labelOf(name),
      kind: choices ? 'choice' : kindOf(name, field),
      ...(field.description && { hint: visible(field.description.replaceAll('`', '')) }),
      ...(choices && {
        choices: mayBeEmpty ? [['', isNullable ? 'None' : 'Default'], ...choices] : choices,
      }),
      ...(isRequired && { required: true }),
      ...(parent?.isNullable && { ofNullable: true }),
      ...(initial !== undefined && { initial }),
      ...own,
    };
  });
}

/** `parent_policy_id` names a policy. */
export function namedBy(name: string): string | undefined {
  return /(policy|profile|team)_id$/.exec(name)?.[1];
}

function choicesFor(name: string, { choices, type }: Field, choicesOf: ChoicesOf): Choices | undefined {
  const resource = namedBy(name);
  if (type === 'string' && resource && choicesOf[resource]) return choicesOf[resource];
  return choices?.map((choice) => [choice, choice] as const);
}

function kindOf(name: string, { type, format, items }: Field): FieldSpec['kind'] {
  if (type === 'boolean') return 'switch';
  if (name.endsWith('_micro_usd')) return 'usd';
  if (type === 'integer' || type === 'number') return 'number';
  if (type === 'array') return items?.type === 'integer' ? 'numbers' : 'lines';
  return type === 'object' ? 'pairs' : format === 'date-time' ? 'date' : 'text';
}

/** `foreign_objects` as `Foreign objects`. */
function labelOf(name: string): string {
  const words = name.replace(/_(id|micro_usd)$/, '').replace(/[._]/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The response cache of a policy or a profile. */
export const CACHE_FIELDS = {
  'cache.scope': { label: 'Responses are cached for each', hint: 'None: they are not cached.' },
  'cache.ttl_seconds': { label: 'Cached for, in seconds', hint: 'Only with a cache.' },
};
