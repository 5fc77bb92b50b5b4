type Element = string | number | bigint | boolean | Date | null | undefined;

/**
 * A column of values as the text of a Postgres array. One parameter for a column costs a fraction of one per value. Texts must
 * not contain a NUL, which Postgres can't store.
 */
export function arrayLiteral(values: readonly Element[]): string {
  let literal = '{';
  for (let at = 0; at < values.length; at++) {
    if (at > 0) literal += ',';
    literal += arrayElement(values[at]);
  }
  return `${literal}}`;
}

const SPECIAL = /["\\]/;
const EACH_SPECIAL = /["\\]/g;

function arrayElement(value: Element): string {
  switch (typeof value) {
    case 'string':
      return SPECIAL.test(value) ? `"${value.replace(EACH_SPECIAL, '\\$&')}"` : `"${value}"`;
    case 'object':
      return value === null ? 'NULL' : value.toISOString();
    case 'undefined':
      return 'NULL';
    default:
      return String(value);
  }
}
