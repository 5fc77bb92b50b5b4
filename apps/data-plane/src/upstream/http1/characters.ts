export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
export const COLON = 0x3a;

/** RFC 9110, section 5.6.2: the name of a header. */
export const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Its characters. */
export const IS_TOKEN = tableOf((code) => TOKEN.test(String.fromCharCode(code)));
/** RFC 9110, section 5.5: the characters of a value. No other control characters than a tab. */
export const IS_VALUE = tableOf((code) => code === TAB || (code >= SPACE && code !== 0x7f));

/** For characters up to 0xff. */
function tableOf(is: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (is(code) ? 1 : 0));
}
