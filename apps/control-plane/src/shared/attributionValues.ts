/**
 * Why no request says a value of attribution: headers have no control characters, and blanks around their values don't count. Undefined:
 * one may.
 */
export function problemOfValue(value: string): string | undefined {
  if (/\p{Cc}/u.test(value)) return 'has a control character';
  if (value.trim() !== value) return 'begins or ends with a blank';
  return undefined;
}
