import { OTHERS_SUBJECT, UNKNOWN_SUBJECT } from './bucketRef.ts';
import type { NamedLimit } from './policies.ts';

/** What a refusal says of the further limit, with the caller's own value only. */
export function limitFields(limit: NamedLimit | undefined): Readonly<Record<string, string | null>> {
  if (!limit) return {};
  const { id, name, scope, value } = limit;
  return { limit_id: id, limit: name, counter_scope: scope, value: value ?? null };
}

/** As its refusals name it: the counter of a further limit, by its subject. */
export function nameOfLimit({ name, scope, value }: NamedLimit, subject: string): string {
  if (value !== undefined) return `the limit ${name} for ${scope} ${value}`;
  if (subject === OTHERS_SUBJECT) return `the limit ${name} for all further values of ${scope}`;
  return subject === UNKNOWN_SUBJECT
    ? `the limit ${name} for all requests without ${scope}`
    : `the limit ${name}`;
}

export function startOfSentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
