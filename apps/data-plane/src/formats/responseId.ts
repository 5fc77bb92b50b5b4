const MAX_LENGTH = 512;
/** No control characters, and no half of a surrogate pair: no database keeps either. */
const TEXT = /^[^\p{Cc}\p{Cs}]+$/u;

/** Whether a text can be a vendor's id of an answer: vendors make them as they like, so little is asked of it. */
export function isResponseId(text: string): boolean {
  return text.length <= MAX_LENGTH && TEXT.test(text);
}
