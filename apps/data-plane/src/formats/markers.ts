const COLON = 0x3a;
const SPACE = 0x20;
const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const LOWER_N = 0x6e;
const OPEN_BRACE = 0x7b;

/** Whether the bytes have a marker that is no name of a null: vendors write `"usage":null` in every chunk. */
export function hasMarker(bytes: Buffer, marker: Buffer): boolean {
  for (let at = bytes.indexOf(marker); at >= 0; at = bytes.indexOf(marker, at + marker.length)) {
    if (!isNull(bytes, at + marker.length)) return true;
  }
  return false;
}

/** Whether a null follows the name of a member that ends at `from`. */
export function isNull(bytes: Buffer, from: number): boolean {
  let next = from;
  while (bytes[next] === COLON || isSpace(bytes[next])) next++;
  return bytes[next] === LOWER_N;
}

/** Whether a JSON object begins here. Any white space may precede it. */
export function beginsObject(bytes: Buffer): boolean {
  let at = 0;
  while (isSpace(bytes[at])) at++;
  return bytes[at] === OPEN_BRACE;
}

function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === TAB || byte === LINE_FEED || byte === CARRIAGE_RETURN;
}
