/** RFC 9110, section 5.6.2: the characters of a name of a header. */
export const IS_TOKEN = tableOf((code) => /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code)));
/** RFC 9110, section 5.5: the characters of a value. No other control characters than a tab. */
export const IS_VALUE = tableOf((code) => code === 0x09 || (code >= 0x20 && code !== 0x7f));

/** For characters up to 0xff. */
function tableOf(is: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (is(code) ? 1 : 0));
}
