import type { AnswerHeaders } from './answerHeaders.ts';

const REMOVED = '[removed]';

/** A vendor that refuses a credential may repeat it, and callers are not to learn it. The same body where it does not. */
export function withoutCredential(body: Buffer, credential: string): Buffer {
  const forms = formsOf(credential).filter((form) => body.includes(form));
  if (forms.length === 0) return body;
  // Byte for byte, whatever the text is encoded in.
  const text = forms.reduce((left, form) => left.replaceAll(form, REMOVED), body.toString('latin1'));
  return Buffer.from(text, 'latin1');
}

/** Takes the headers away that repeat it. */
export function hideCredential(headers: AnswerHeaders, credential: string): void {
  const forms = formsOf(credential);
  const names = headers.list.filter(
    (_, at) => at % 2 === 0 && forms.some((form) => headers.list[at + 1]?.includes(form)),
  );
  for (const name of names) headers.delete(name);
}

/** What is shorter is no secret, but a word that an upstream of one's own wants, and may use. */
const SHORTEST = 8;

/** As it is sent, and as a JSON document may have it. */
function formsOf(credential: string): string[] {
  if (credential.length < SHORTEST) return [];
  const inJson = JSON.stringify(credential).slice(1, -1);
  return [...new Set([credential, inJson, inJson.replaceAll('/', '\\/')])];
}
