const HIGH_BITS = 0x80808080 | 0;

/** The index of the first control character from `from` up to `to`, else `to`. Reads sixteen bytes at a time. */
export function firstControlCharacter(bytes: Uint8Array, from: number, to: number): number {
  let at = from;
  for (; at < to && ((bytes.byteOffset + at) & 3) !== 0; at++) if (isControl(bytes[at])) return at;
  if (at >= to) return to;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + at, (to - at) >> 2);
  for (let index = 3; index < words.length; index += 4, at += 16) {
    const found =
      below0x20(words[index - 3]) |
      below0x20(words[index - 2]) |
      below0x20(words[index - 1]) |
      below0x20(words[index]);
    if ((found & HIGH_BITS) !== 0) break;
  }
  while (at < to && !isControl(bytes[at])) at++;
  return at;
}

/**
 * Sets the high bit of at least one byte if some byte is below 0x20:
 * https://graphics.stanford.edu/~seander/bithacks.html#HasLessInWord
 */
function below0x20(word = 0): number {
  return (word - 0x20202020) & ~word;
}

function isControl(byte: number | undefined): boolean {
  return byte !== undefined && byte < 0x20;
}
