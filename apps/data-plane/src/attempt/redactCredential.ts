import type { ResponseHeaders } from './responseHeaders.ts';

const REMOVED = '[removed]';
/** A shorter credential is no secret: it would match ordinary words. */
const MIN_LENGTH = 8;

/** Removes a connector's credential from a body that repeats it; returns the same buffer if it does not. */
export function redactBody(body: Buffer, credential: string): Buffer {
  const forms = formsOf(credential).filter((form) => body.includes(form));
  if (forms.length === 0) return body;
  // Byte for byte, whatever the encoding of the text.
  const text = forms.reduce((left, form) => left.replaceAll(form, REMOVED), body.toString('latin1'));
  return Buffer.from(text, 'latin1');
}

/** Deletes the headers that repeat a connector's credential. */
export function redactHeaders(headers: ResponseHeaders, credential: string): void {
  const forms = formsOf(credential);
  const names = headers.list.filter(
    (_, at) => at % 2 === 0 && forms.some((form) => headers.list[at + 1]?.includes(form)),
  );
  for (const name of names) headers.delete(name);
}

/** The credential as it is sent, and as a JSON document may escape it. */
function formsOf(credential: string): string[] {
  if (credential.length < MIN_LENGTH) return [];
  const inJson = JSON.stringify(credential).slice(1, -1);
  return [...new Set([credential, inJson, inJson.replaceAll('/', '\\/')])];
}
