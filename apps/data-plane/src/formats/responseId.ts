const MAX_LENGTH = 512;
/** No control characters and no lone surrogates: no database stores them. */
const TEXT = /^[^\p{Cc}\p{Cs}]+$/u;

/** Whether a text can be a vendor's id of a response. Vendors choose the form, so the rule is loose. */
export function isResponseId(text: string): boolean {
  return text.length <= MAX_LENGTH && TEXT.test(text);
}

/** The id in a vendor's response; empty if it is none that can be stored. */
export function responseIdOf(id: unknown): string {
  return typeof id === 'string' && isResponseId(id) ? id : '';
}
